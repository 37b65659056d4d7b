"""API keys and applications."""

from typing import Annotated

from msgspec import Meta

from stoker.domain.access.identity import MemberRole, Scope, UserRole
from stoker.wire.base import Name, RequestBody, SecretStruct, ShortText, Text, WireStruct
from stoker.wire.timestamps import Timestamp

AtMost32 = Meta(max_length=32)


class KeyView(WireStruct, frozen=True):
    id: str
    name: str
    user: str
    hint: str
    scopes: tuple[Scope, ...]
    cidrs: tuple[str, ...]
    created_at: Timestamp
    expires_at: Timestamp | None
    last_used_at: Timestamp | None
    last_used_from: str


class NewKeyView(SecretStruct, frozen=True):
    """`secret` is shown only once."""

    key: KeyView
    secret: str


class CreateKey(RequestBody, frozen=True, kw_only=True):
    """Without scopes a key has no limit, without cidrs it works from anywhere, without expiresAt it never expires."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    user: Annotated[str, Meta(max_length=63, description="For whom; for oneself when left out.")] = ""
    scopes: Annotated[tuple[Scope, ...], AtMost32] = ()
    cidrs: Annotated[tuple[ShortText, ...], AtMost32] = ()
    expires_at: Annotated[str, Meta(max_length=40)] | None = None


class ApplicationView(WireStruct, frozen=True):
    client_id: str
    name: str
    role: UserRole
    description: str
    disabled: bool
    created_at: Timestamp
    last_used_at: Timestamp | None


class NewApplicationView(SecretStruct, frozen=True):
    """`clientSecret` is shown only once."""

    application: ApplicationView
    client_id: str
    client_secret: str


class CreateApplication(RequestBody, frozen=True, kw_only=True):
    """The application is a member of these workspaces, or an admin; one of the two is required."""

    name: Name
    description: Text = ""
    admin: bool = False
    workspaces: Annotated[tuple[Name, ...], Meta(max_length=1000)] = ()
    workspace_role: MemberRole = MemberRole.MEMBER


class EditApplication(RequestBody, frozen=True, kw_only=True):
    disabled: bool
