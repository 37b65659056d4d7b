"""What a value may be, in words, taken from its type. Every error about a value is worded here."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import inspect as mi

SHOWN = 80
STEP = re.compile(r"(?<=\.)[^.\[]+|\[[^\]]*\]")
A_KEY = "[key]"
"""The step of a path to the names of an object, rather than to its values."""


def expectation(kind: mi.Type) -> str:
    """What to send, such as `a whole number from 1 to 1000`."""
    match kind:
        case mi.Metadata():
            return _told(kind)
        case mi.IntType():
            return ("a whole number " + _bounds(kind)).strip()
        case mi.FloatType():
            return ("a number " + _bounds(kind)).strip()
        case mi.BoolType():
            return "true or false"
        case mi.EnumType():
            return choices([member.value for member in kind.cls])
        case mi.LiteralType():
            return choices(list(kind.values))
        case mi.UnionType():
            return " or ".join(expectation(each) for each in kind.types)
        case mi.NoneType():
            return "null"
        case mi.ListType() | mi.VarTupleType():
            return f"a list{_length(kind)}, each {expectation(kind.item_type)}"
        case mi.DictType():
            return f"an object{length} entries" if (length := _length(kind)) else "an object"
        case mi.StructType():
            return _object(kind)
        case mi.StrType():
            return _text(kind)
        case _:
            return "another value"


def locate(kind: mi.Type, path: str) -> mi.Type | None:
    """The type at a path such as `$.resource.cpu`, `$.ids[...]` or `$.env[key]`."""
    found: mi.Type | None = kind
    for step in STEP.findall(path):
        found = _inside(found, step)
    return found


def ways(kind: mi.Type | None) -> list[mi.Type]:
    """The alternatives of a type, each without what is written about it."""
    match kind:
        case None:
            return []
        case mi.Metadata():
            return ways(kind.type)
        case mi.UnionType():
            return [found for each in kind.types for found in ways(each)]
        case _:
            return [kind]


def shown(value: object) -> str:
    """A value as an error quotes it, cut to a readable length."""
    text = str(value)
    return f'"{text[:SHOWN]}…"' if len(text) > SHOWN else f'"{text}"'


def _inside(kind: mi.Type | None, step: str) -> mi.Type | None:
    match kind:
        case mi.Metadata():
            return _inside(kind.type, step)
        case mi.UnionType():
            return next((found for each in kind.types if (found := _inside(each, step)) is not None), None)
        case mi.StructType():
            return next((field.type for field in kind.fields if field.encode_name == step), None)
        case mi.ListType() | mi.VarTupleType() if step.startswith("["):
            return kind.item_type
        case mi.DictType() if step == A_KEY:
            return kind.key_type
        case mi.DictType() if step.startswith("["):
            return kind.value_type
        case _:
            return None


def choices(values: Sequence[Any], last: str = "or") -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _told(kind: mi.Metadata) -> str:
    """A pattern is told by its description, never as it is; an example comes after."""
    about = kind.extra_json_schema or {}
    patterned = isinstance(kind.type, mi.StrType) and kind.type.pattern
    words = about["description"] if patterned and "description" in about else expectation(kind.type)
    return f'{words}, for example "{about["examples"][0]}"' if about.get("examples") else words


def _object(kind: mi.StructType) -> str:
    required = [field.encode_name for field in kind.fields if field.required]
    known = required or [field.encode_name for field in kind.fields]
    return f"an object with {choices(known, 'and')}" if required else f"an object with any of {choices(known)}"


def _bounds(kind: mi.IntType | mi.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f"from {kind.ge} to {kind.le}"
    words = (("at least", kind.ge), ("above", kind.gt), ("at most", kind.le), ("below", kind.lt))
    return " and ".join(f"{word} {limit}" for word, limit in words if limit is not None)


def _length(kind: mi.ListType | mi.VarTupleType | mi.DictType) -> str:
    if kind.min_length and kind.max_length is not None:
        return f" of {kind.min_length} to {kind.max_length}"
    if kind.max_length is not None:
        return f" of at most {kind.max_length}"
    return f" of at least {kind.min_length}" if kind.min_length else ""


def _text(kind: mi.StrType) -> str:
    if kind.pattern:
        return f"text that matches {kind.pattern}"
    if kind.min_length and kind.max_length:
        return f"text of {kind.min_length} to {kind.max_length} characters"
    if kind.max_length:
        return f"text of at most {kind.max_length} characters"
    if kind.min_length:
        return "text that is not empty" if kind.min_length == 1 else f"text of at least {kind.min_length} characters"
    return "text"
