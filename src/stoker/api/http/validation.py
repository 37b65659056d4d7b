"""Descriptions of types and of invalid values, for the errors about parameters and bodies."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec import inspect as mi

MAX_QUOTED_CHARS = 80
ANY_ENTRY_STEP = "[...]"
PATH_STEP = re.compile(r"(?<=\.)[^.\[]+|\[[^\]]*\]")
KEY_STEP = "[key]"
"""The path step that means the keys of an object rather than its values."""


def describe_expected(kind: mi.Type) -> str:
    """What is allowed, such as `a whole number from 1 to 1000`."""
    match kind:
        case mi.Metadata():
            return _describe_annotated(kind)
        case mi.IntType():
            return ("a whole number " + _describe_bounds(kind)).strip()
        case mi.FloatType():
            return ("a number " + _describe_bounds(kind)).strip()
        case mi.BoolType():
            return "true or false"
        case mi.EnumType():
            return join_choices([member.value for member in kind.cls])
        case mi.LiteralType():
            return join_choices(list(kind.values))
        case mi.UnionType():
            return " or ".join(describe_expected(each) for each in kind.types)
        case mi.NoneType():
            return "null"
        case mi.ListType() | mi.VarTupleType():
            return f"a list{_describe_length(kind)}, each {describe_expected(kind.item_type)}"
        case mi.DictType():
            return f"an object{length} entries" if (length := _describe_length(kind)) else "an object"
        case mi.StructType():
            return _describe_object(kind)
        case mi.StrType():
            return _describe_text(kind)
        case _:
            return "another value"


def type_at_path(kind: mi.Type, path: str) -> mi.Type | None:
    """The type at a path such as `$.resource.cpu`, `$.ids[...]` or `$.env[key]`."""
    found: mi.Type | None = kind
    for step in PATH_STEP.findall(path):
        found = _child_type(found, step)
    return found


def type_alternatives(kind: mi.Type | None) -> list[mi.Type]:
    """The alternatives of a type, without their annotations."""
    match kind:
        case None:
            return []
        case mi.Metadata():
            return type_alternatives(kind.type)
        case mi.UnionType():
            return [found for each in kind.types for found in type_alternatives(each)]
        case _:
            return [kind]


def quote_value(value: object) -> str:
    """A value in quotation marks, truncated to a readable length."""
    text = str(value)
    return f'"{text[:MAX_QUOTED_CHARS]}…"' if len(text) > MAX_QUOTED_CHARS else f'"{text}"'


def _child_type(kind: mi.Type | None, step: str) -> mi.Type | None:
    match kind:
        case mi.Metadata():
            return _child_type(kind.type, step)
        case mi.UnionType():
            return next((found for each in kind.types if (found := _child_type(each, step)) is not None), None)
        case mi.StructType():
            return next((field.type for field in kind.fields if field.encode_name == step), None)
        case mi.ListType() | mi.VarTupleType() if step.startswith("["):
            return kind.item_type
        case mi.DictType() if step == KEY_STEP:
            return kind.key_type
        case mi.DictType() if step.startswith("["):
            return kind.value_type
        case _:
            return None


def join_choices(values: Sequence[Any], last: str = "or") -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _describe_annotated(kind: mi.Metadata) -> str:
    """A pattern is described by its description if it has one; an example follows."""
    schema = kind.extra_json_schema or {}
    patterned = isinstance(kind.type, mi.StrType) and kind.type.pattern
    words = schema["description"] if patterned and "description" in schema else describe_expected(kind.type)
    return f'{words}, for example "{schema["examples"][0]}"' if schema.get("examples") else words


def _describe_object(kind: mi.StructType) -> str:
    required = [field.encode_name for field in kind.fields if field.required]
    known = required or [field.encode_name for field in kind.fields]
    return (
        f"an object with {join_choices(known, 'and')}" if required else f"an object with any of {join_choices(known)}"
    )


def _describe_bounds(kind: mi.IntType | mi.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f"from {kind.ge} to {kind.le}"
    words = (("at least", kind.ge), ("above", kind.gt), ("at most", kind.le), ("below", kind.lt))
    return " and ".join(f"{word} {limit}" for word, limit in words if limit is not None)


def _describe_length(kind: mi.ListType | mi.VarTupleType | mi.DictType) -> str:
    if kind.min_length and kind.max_length is not None:
        return f" of {kind.min_length} to {kind.max_length}"
    if kind.max_length is not None:
        return f" of at most {kind.max_length}"
    return f" of at least {kind.min_length}" if kind.min_length else ""


def _describe_text(kind: mi.StrType) -> str:
    if kind.pattern:
        return f"text that matches {kind.pattern}"
    if kind.min_length and kind.max_length:
        return f"text of {kind.min_length} to {kind.max_length} characters"
    if kind.max_length:
        return f"text of at most {kind.max_length} characters"
    if kind.min_length:
        return "text that is not empty" if kind.min_length == 1 else f"text of at least {kind.min_length} characters"
    return "text"


class LocatedValue(Struct, frozen=True):
    """A value of a body, and its path."""

    path: str
    value: Any


def values_at_path(body: Any, path: str) -> list[LocatedValue]:
    """All values that a path such as `$.env[...]` can mean: msgspec does not name the entry."""
    found = [LocatedValue("", body)]
    for step in PATH_STEP.findall(path):
        found = [inner for outer in found for inner in _descend(outer, step)]
    return found


def describe_violation(kind: mi.Type, value: Any) -> str:
    """Why a value is invalid; empty if no reason is found."""
    candidates = [each for each in type_alternatives(kind) if isinstance(value, _python_types(each))]
    if isinstance(value, bool):
        candidates = [each for each in candidates if not isinstance(each, mi.IntType | mi.FloatType)]
    if not candidates:
        return f"it is {_describe_value(value)}"
    violations = [_constraint_violation(each, value) for each in candidates]
    return "" if "" in violations else violations[0]


def _descend(found: LocatedValue, step: str) -> Iterator[LocatedValue]:
    match found.value:
        case dict() as entries if step in {ANY_ENTRY_STEP, KEY_STEP}:
            for name, value in entries.items():
                yield LocatedValue(f"{found.path}[{quote_value(name)}]", name if step == KEY_STEP else value)
        case dict() as entries if step in entries:
            yield LocatedValue(f"{found.path}.{step}" if found.path else step, entries[step])
        case list() as items if step[1:-1].isdigit() and int(step[1:-1]) < len(items):
            yield LocatedValue(f"{found.path}{step}", items[int(step[1:-1])])


def _python_types(kind: mi.Type) -> type | tuple[type, ...]:
    match kind:
        case mi.IntType():
            return int
        case mi.FloatType():
            return int, float
        case mi.BoolType():
            return bool
        case mi.NoneType():
            return type(None)
        case mi.ListType() | mi.VarTupleType():
            return list
        case mi.DictType() | mi.StructType():
            return dict
        case mi.StrType() | mi.DateTimeType():
            return str
        case mi.EnumType():
            return tuple({type(member.value) for member in kind.cls})
        case mi.LiteralType():
            return tuple({type(each) for each in kind.values})
        case _:
            return object


def _constraint_violation(kind: mi.Type, value: Any) -> str:
    """Why a value of the right type violates a constraint."""
    match kind:
        case mi.EnumType() if value not in {member.value for member in kind.cls}:
            return f"{quote_value(value)} is not allowed"
        case mi.LiteralType() if value not in kind.values:
            return f"{quote_value(value)} is not allowed"
        case mi.IntType() | mi.FloatType() if not _is_in_bounds(kind, value):
            return f"{value} is not allowed"
        case mi.StrType() if not _has_valid_length(kind, value):
            return f"it has {len(value)} characters" if value else "it is empty"
        case mi.StrType() if kind.pattern and not re.search(kind.pattern, value):
            return f"{quote_value(value)} is not allowed"
        case mi.ListType() | mi.VarTupleType() | mi.DictType() if not _has_valid_length(kind, value):
            return f"it has {len(value)} entries" if value else "it is empty"
        case _:
            return ""


def _is_in_bounds(kind: mi.IntType | mi.FloatType, value: float) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def _has_valid_length(kind: mi.StrType | mi.ListType | mi.VarTupleType | mi.DictType, value: Any) -> bool:
    return (kind.min_length or 0) <= len(value) and (kind.max_length is None or len(value) <= kind.max_length)


def _describe_value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return "a number"
        case float():
            return "a number with a fraction"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
