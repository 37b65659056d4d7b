"""Base structs and field types of the API. JSON names are camelCase; a response may have fields the client ignores."""

from typing import Annotated

from msgspec import Meta, Struct

Text = Annotated[str, Meta(max_length=1000)]
ShortText = Annotated[str, Meta(max_length=200)]
Name = Annotated[str, Meta(min_length=1, max_length=63)]


class WireStruct(Struct, frozen=True, rename="camel"):
    """Base of every response."""


class SecretStruct(WireStruct, frozen=True):
    """A response with a secret. Its repr hides all fields, so logs and tracebacks do not leak the secret."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


class RequestBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Base of every request body. The server rejects unknown fields."""
