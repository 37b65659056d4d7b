"""What is wrong with a value of a body, in words.

Free text is never repeated: it may be a secret, and errors are kept in the audit log. Only its length is told.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec import inspect as mi

from stoker.api.wording import A_KEY, STEP, shown, ways

AN_ENTRY = "[...]"


class Found(Struct, frozen=True):
    """A value of a body, and where it is."""

    path: str
    value: Any


def expand(body: Any, path: str) -> list[Found]:
    """Everything that a path such as `$.env[...]` can mean: msgspec does not say which entry of an object it was."""
    found = [Found("", body)]
    for step in STEP.findall(path):
        found = [inner for each in found for inner in _into(each, step)]
    return found


def fault(kind: mi.Type, value: Any) -> str:
    """Why a value cannot be taken; nothing when it can, as far as can be told."""
    taken = [each for each in ways(kind) if isinstance(value, _python(each))]
    if isinstance(value, bool):
        taken = [each for each in taken if not isinstance(each, mi.IntType | mi.FloatType)]
    if not taken:
        return f"it is {_described(value)}"
    faults = [_outside(each, value) for each in taken]
    return "" if "" in faults else faults[0]


def _into(found: Found, step: str) -> Iterator[Found]:
    match found.value:
        case dict() as entries if step in {AN_ENTRY, A_KEY}:
            for name, value in entries.items():
                yield Found(f"{found.path}[{shown(name)}]", name if step == A_KEY else value)
        case dict() as entries if step in entries:
            yield Found(f"{found.path}.{step}" if found.path else step, entries[step])
        case list() as items if step[1:-1].isdigit() and int(step[1:-1]) < len(items):
            yield Found(f"{found.path}{step}", items[int(step[1:-1])])


def _python(kind: mi.Type) -> type | tuple[type, ...]:
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


def _outside(kind: mi.Type, value: Any) -> str:
    """Why a value of the right sort is not among those that are allowed."""
    match kind:
        case mi.EnumType() if value not in {member.value for member in kind.cls}:
            return f"{shown(value)} is not allowed"
        case mi.LiteralType() if value not in kind.values:
            return f"{shown(value)} is not allowed"
        case mi.IntType() | mi.FloatType() if not _within(kind, value):
            return f"{value} is not allowed"
        case mi.StrType() if not _long_enough(kind, value):
            return f"it has {len(value)} characters" if value else "it is empty"
        case mi.StrType() if kind.pattern and not re.search(kind.pattern, value):
            return f"{shown(value)} is not allowed"
        case mi.ListType() | mi.VarTupleType() | mi.DictType() if not _long_enough(kind, value):
            return f"it has {len(value)} entries" if value else "it is empty"
        case _:
            return ""


def _within(kind: mi.IntType | mi.FloatType, value: float) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def _long_enough(kind: mi.StrType | mi.ListType | mi.VarTupleType | mi.DictType, value: Any) -> bool:
    return (kind.min_length or 0) <= len(value) and (kind.max_length is None or len(value) <= kind.max_length)


def _described(value: Any) -> str:
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
