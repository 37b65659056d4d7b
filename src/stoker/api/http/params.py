"""Query and path parameters: from text to a struct, by a decoder compiled from the struct once.

Unknown parameters are ignored, a bad value of a known one is an error that says what it may be.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Generic, TypeVar, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as mi

from stoker.api.wording import expectation, shown, ways
from stoker.domain.errors import StokerError, bad_request

P = TypeVar("P", bound="Params")
_WHOLE = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)


Whole = Annotated[tuple[str, ...], Meta(extra={"whole": True})]
"""Values that may hold commas: each is taken as it was sent, as often as it was."""


class Params(Struct, frozen=True, kw_only=True):
    """The base of every parameter struct."""


class NoParams(Params, frozen=True, kw_only=True):
    """An endpoint that takes none."""


class Field(Struct, frozen=True):
    """One parameter: its name here, its name on the wire, and what it may be."""

    name: str
    wire: str
    kind: mi.Type
    annotation: Any
    required: bool
    is_list: bool
    divided: bool
    blank_is_absent: bool
    words: bool
    whole: bool
    text: bool


class Decoder(Generic[P]):
    """Reads one kind of parameters."""

    def __init__(self, params: type[P], *, snake_twins: bool = False, dotted_words: bool = False) -> None:
        self._params = params
        self._dotted_words = dotted_words
        described = mi.type_info(params)
        if not isinstance(described, mi.StructType):
            raise TypeError(f"{params} is not a struct")
        hints = get_type_hints(params, include_extras=True)
        self.fields = [_field(field, hints[field.name]) for field in described.fields]
        self._whole = [field for field in self.fields if field.whole]
        self._by_wire = {field.wire: field for field in self.fields}
        if snake_twins:
            self._by_wire |= {field.name: field for field in self.fields}

    def __call__(self, query: bytes, path: Mapping[str, str]) -> P:
        given: dict[str, Any] = {}
        if query:
            self._read_query(query, given)
        given |= path
        try:
            return msgspec.convert(given, self._params, strict=False)
        except msgspec.ValidationError as error:
            raise self._explained(given) from error

    def _read_query(self, query: bytes, given: dict[str, Any]) -> None:
        for name, sent in _pairs(query):
            field = self._by_wire.get(_decode(name, "query"))
            value = _decode(sent, "query" if field is None else field.wire)
            if field is None or (value == "" and field.blank_is_absent):
                continue
            if not field.text and value.lower() == "null":  # which would be taken for None
                raise _wrong(field, value)
            if self._dotted_words and field.words:
                value = ",".join(part.rpartition(".")[2] for part in value.split(","))
            if field.is_list and not field.divided:
                given.setdefault(field.wire, []).append(value)
            elif field.is_list:
                given.setdefault(field.wire, []).extend(part.strip() for part in value.split(",") if part.strip())
            else:
                given[field.wire] = value
        for field in self._whole:
            if field.wire in given and not _WHOLE.match(given[field.wire]):
                raise _wrong(field, given[field.wire])

    def _explained(self, given: Mapping[str, Any]) -> Exception:
        """Which parameter is wrong, and what it may be."""
        for field in self.fields:
            if field.wire not in given:
                if field.required:
                    return bad_request(field.wire, f"it is required. Use {_wanted(field)}.")
                continue
            value = given[field.wire]
            try:
                msgspec.convert(value, field.annotation, strict=False)
            except msgspec.ValidationError:
                return _wrong(field, ",".join(value) if field.is_list else value)
        return bad_request("query", "the parameters do not fit together.")


def _wrong(field: Field, text: str) -> StokerError:
    return bad_request(field.wire, f"{shown(text)} is not allowed. Use {_wanted(field)}.")


def parse_query(query: bytes, source: str = "query") -> list[tuple[str, str]]:
    """Names and values of a query string, or of a form; text that is not UTF-8 is an error."""
    return [(_decode(name, source), _decode(value, source)) for name, value in _pairs(query)]


def decode_segment(segment: bytes) -> str | None:
    """One part of a path; None when it is not text."""
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _pairs(query: bytes) -> Iterator[tuple[bytes, bytes]]:
    for part in query.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            yield name, value


def _decode(raw: bytes, source: str) -> str:
    try:
        text = unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise bad_request(source, "it is not UTF-8 text.") from None
    if "\0" in text:
        raise bad_request(source, "it may not hold the character NUL.")
    return text


def _field(field: mi.Field, annotation: Any) -> Field:
    kinds = _kinds(field.type)
    is_list = any(isinstance(kind, mi.ListType | mi.VarTupleType) for kind in kinds)
    chosen = all(isinstance(kind, mi.EnumType | mi.LiteralType | mi.ListType | mi.VarTupleType) for kind in kinds)
    words = all(isinstance(each, mi.EnumType | mi.LiteralType) for kind in kinds for each in _entries(kind))
    whole = all(isinstance(kind, mi.IntType) for kind in kinds)
    text = any(isinstance(kind, mi.StrType) for kind in kinds) or is_list
    divided = not (isinstance(field.type, mi.Metadata) and (field.type.extra or {}).get("whole"))
    return Field(
        name=field.name,
        wire=field.encode_name,
        kind=field.type,
        annotation=annotation,
        required=field.required,
        is_list=is_list,
        divided=divided,
        blank_is_absent=chosen,
        words=words,
        whole=whole,
        text=text,
    )


def _wanted(field: Field) -> str:
    """What to send; null is a matter of the program, never of a query."""
    return expectation(_without_null(field.kind))


def _kinds(kind: mi.Type) -> list[mi.Type]:
    """The alternatives of a type, without None."""
    return [each for each in ways(kind) if not isinstance(each, mi.NoneType)]


def _entries(kind: mi.Type) -> list[mi.Type]:
    """What a list is of, or the type itself."""
    return ways(kind.item_type) if isinstance(kind, mi.ListType | mi.VarTupleType) else [kind]


def _without_null(kind: mi.Type) -> mi.Type:
    if isinstance(kind, mi.Metadata):
        return mi.Metadata(_without_null(kind.type), kind.extra_json_schema, kind.extra)
    if not isinstance(kind, mi.UnionType):
        return kind
    left = tuple(each for each in kind.types if not isinstance(each, mi.NoneType))
    return left[0] if len(left) == 1 else mi.UnionType(left)
