"""Query and path parameters, decoded to a struct by a decoder that is compiled once from the struct.

Unknown parameters are ignored; an invalid value of a known one is an error that says what is allowed.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Generic, TypeVar, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as mi

from stoker.api.http.validation import describe_expected, quote_value, type_alternatives
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import StokerError, bad_request

P = TypeVar("P", bound="Params")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)


UnsplitList = Annotated[tuple[str, ...], Meta(extra={"unsplit": True})]
"""A repeatable parameter whose values may contain commas."""


class Params(Struct, frozen=True, kw_only=True):
    """The base of all parameter structs."""


class NoParams(Params, frozen=True, kw_only=True):
    """The parameters of an endpoint without any."""


class ParamField(Struct, frozen=True):
    """One parameter: its Python name, its name in requests, and its type."""

    name: str
    wire_name: str
    kind: mi.Type
    annotation: Any
    required: bool
    is_list: bool
    split_commas: bool
    blank_is_absent: bool
    is_enum: bool
    is_integer: bool
    is_text: bool


class ParamsDecoder(Generic[P]):
    """Decodes one struct of parameters."""

    def __init__(self, params: type[P], *, accept_snake_case: bool = False, accept_dotted_enums: bool = False) -> None:
        self._params = params
        self._accept_dotted_enums = accept_dotted_enums
        struct = mi.type_info(params)
        if not isinstance(struct, mi.StructType):
            raise TypeError(f"{params} is not a struct")
        hints = get_type_hints(params, include_extras=True)
        self.fields = [_describe_field(field, hints[field.name]) for field in struct.fields]
        self._integer_fields = [field for field in self.fields if field.is_integer]
        self._by_wire_name = {field.wire_name: field for field in self.fields}
        if accept_snake_case:
            self._by_wire_name |= {field.name: field for field in self.fields}

    def __call__(self, query: bytes, path: Mapping[str, str]) -> P:
        given: dict[str, Any] = {}
        if query:
            self._read_query(query, given)
        given |= path
        try:
            return msgspec.convert(given, self._params, strict=False)
        except msgspec.ValidationError as error:
            raise self._explain(given) from error

    def _read_query(self, query: bytes, given: dict[str, Any]) -> None:
        for name, raw_value in _split_pairs(query):
            field = self._by_wire_name.get(_decode_text(name, "query"))
            value = _decode_text(raw_value, "query" if field is None else field.wire_name)
            if field is None or (value == "" and field.blank_is_absent):
                continue
            if not field.is_text and value.lower() == "null":  # msgspec would convert it to None
                raise _invalid_value(field, value)
            if self._accept_dotted_enums and field.is_enum:
                value = ",".join(part.rpartition(".")[2] for part in value.split(","))
            if field.is_list and not field.split_commas:
                given.setdefault(field.wire_name, []).append(value)
            elif field.is_list:
                given.setdefault(field.wire_name, []).extend(part.strip() for part in value.split(",") if part.strip())
            else:
                given[field.wire_name] = value
        for field in self._integer_fields:
            if field.wire_name in given and not _INTEGER.match(given[field.wire_name]):
                raise _invalid_value(field, given[field.wire_name])

    def _explain(self, given: Mapping[str, Any]) -> Exception:
        """The error of the first invalid parameter."""
        for field in self.fields:
            if field.wire_name not in given:
                if field.required:
                    return bad_request(field.wire_name, f"it is required. Use {_describe_allowed(field)}.")
                continue
            value = given[field.wire_name]
            try:
                msgspec.convert(value, field.annotation, strict=False)
            except msgspec.ValidationError:
                return _invalid_value(field, ",".join(value) if field.is_list else value)
        return bad_request("query", "the parameters contradict each other.")


def _invalid_value(field: ParamField, text: str) -> StokerError:
    return bad_request(field.wire_name, f"{quote_value(text)} is not allowed. Use {_describe_allowed(field)}.")


def parse_query(query: bytes, source: str = "query") -> list[tuple[str, str]]:
    """The names and values of a query string or a form; text that is not UTF-8 is an error."""
    return [(_decode_text(name, source), _decode_text(value, source)) for name, value in _split_pairs(query)]


def decode_segment(segment: bytes) -> str | None:
    """A decoded segment of a path; None if it is not text."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _split_pairs(query: bytes) -> Iterator[tuple[bytes, bytes]]:
    for part in query.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            yield name, value


def _decode_text(raw: bytes, source: str) -> str:
    try:
        text = unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise bad_request(source, "it is not UTF-8 text.") from None
    if "\0" in text:
        raise bad_request(source, "it must not contain the character NUL.")
    return text


def _describe_field(field: mi.Field, annotation: Any) -> ParamField:
    kinds = _non_null_alternatives(field.type)
    is_list = any(isinstance(kind, mi.ListType | mi.VarTupleType) for kind in kinds)
    blank_is_absent = all(
        isinstance(kind, mi.EnumType | mi.LiteralType | mi.ListType | mi.VarTupleType) for kind in kinds
    )
    is_enum = all(isinstance(item, mi.EnumType | mi.LiteralType) for kind in kinds for item in _item_types(kind))
    is_integer = all(isinstance(kind, mi.IntType) for kind in kinds)
    is_text = any(isinstance(kind, mi.StrType) for kind in kinds) or is_list
    return ParamField(
        name=field.name,
        wire_name=field.encode_name,
        kind=field.type,
        annotation=annotation,
        required=field.required,
        is_list=is_list,
        split_commas=splits_commas(field.type),
        blank_is_absent=blank_is_absent,
        is_enum=is_enum,
        is_integer=is_integer,
        is_text=is_text,
    )


def splits_commas(kind: mi.Type) -> bool:
    """Whether a list parameter may also be sent as one value with commas."""
    return not (isinstance(kind, mi.Metadata) and (kind.extra or {}).get("unsplit"))


def _describe_allowed(field: ParamField) -> str:
    """What is allowed; null cannot be sent in a query."""
    return describe_expected(_strip_null(field.kind))


def _non_null_alternatives(kind: mi.Type) -> list[mi.Type]:
    """The alternatives of a type, without None."""
    return [each for each in type_alternatives(kind) if not isinstance(each, mi.NoneType)]


def _item_types(kind: mi.Type) -> list[mi.Type]:
    """The item types of a list, or the type itself."""
    return type_alternatives(kind.item_type) if isinstance(kind, mi.ListType | mi.VarTupleType) else [kind]


def _strip_null(kind: mi.Type) -> mi.Type:
    if isinstance(kind, mi.Metadata):
        return mi.Metadata(_strip_null(kind.type), kind.extra_json_schema, kind.extra)
    if not isinstance(kind, mi.UnionType):
        return kind
    types = tuple(each for each in kind.types if not isinstance(each, mi.NoneType))
    return types[0] if len(types) == 1 else mi.UnionType(types)


def parse_instant(text: str, field: str) -> int:
    """Epoch milliseconds of an RFC 3339 time."""
    at = parse_rfc3339(text)
    if at is None:
        raise bad_request(field, f'"{text}" is not a time. Use RFC 3339, for example "2027-01-31T08:00:00.000Z".')
    return at


def parse_optional_instant(text: str | None, field: str) -> int | None:
    return None if text is None else parse_instant(text, field)
