"""Short lists that are read as a whole: filtered, sorted and cut here, by the grammar of every list of this family."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from stoker.api.params import Params, Whole
from stoker.api.runai.filters import filters_in, with_plus
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import bad_request
from stoker.domain.listing import Listing, Window

T = TypeVar("T")
Value = str | int | float | None
Getter = Callable[[T], Value]
WHOLE = 1000
_FILTER = re.compile(r"(?P<field>\w+)(?P<operator>==|!=|<=|>=|=@|!@|=\^|=\$)(?P<value>.+)", re.DOTALL)
_ON_TEXT: Mapping[str, Callable[[str, str], bool]] = {
    "=@": lambda text, part: part in text,
    "!@": lambda text, part: part not in text,
    "=^": str.startswith,
    "=$": str.endswith,
}


class ShelfParams(Params, frozen=True, kw_only=True, rename="camel"):
    filter_by: Annotated[Whole, Meta(description="Field, operator, value.")] = ()
    sort_by: Annotated[str, Meta(max_length=63)] = ""
    sort_order: Literal["asc", "desc"] = "asc"
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    search: Annotated[str, Meta(max_length=200, description="Part of a name, in any case.")] = ""


class Shelf(Struct, Generic[T], frozen=True):
    """What things of one kind can be asked for by; times are epoch milliseconds, named in `times`."""

    fields: Mapping[str, Getter[T]]
    times: frozenset[str] = frozenset()

    def page(self, rows: Iterable[T], asked: ShelfParams) -> tuple[list[T], int | None]:
        """The part that is asked for, and the offset of the next one."""
        found = self.chosen(rows, asked)
        name = self.fields["name"]
        found.sort(key=lambda row: str(name(row)))
        if asked.sort_by:
            getter = self._getter(asked.sort_by, "sortBy")
            found.sort(key=lambda row: _order(getter(row)), reverse=asked.sort_order == "desc")
        elif asked.sort_order == "desc":
            found.reverse()
        end = asked.offset + asked.limit
        return found[asked.offset : end], end if end < len(found) else None

    def chosen(self, rows: Iterable[T], asked: ShelfParams) -> list[T]:
        """What satisfies all the filters and the search."""
        tests = [self._test(text) for text in filters_in(asked.filter_by, self.fields)]
        part, name = asked.search.casefold(), self.fields["name"]
        return [row for row in rows if part in str(name(row)).casefold() and all(test(row) for test in tests)]

    def _test(self, text: str) -> Callable[[T], bool]:
        found = _FILTER.fullmatch(text)
        if found is None:
            raise bad_request("filterBy", f'"{text[:80]}" is not a filter. Use one such as "name==vision".')
        field, operator, wanted = found["field"], found["operator"], found["value"]
        getter = self._getter(field, "filterBy")
        if field in self.times:
            at = parse_rfc3339(with_plus(wanted))
            if operator in _ON_TEXT or at is None:
                raise bad_request("filterBy", f"{field} is a time: compare it by ==, !=, <= or >= with RFC 3339.")
            return lambda row: _compare(operator, getter(row), at)
        if operator in _ON_TEXT:
            look = _ON_TEXT[operator]
            return lambda row: look(str(getter(row) or "").casefold(), wanted.casefold())
        return lambda row: _compare(operator, getter(row), wanted)

    def _getter(self, field: str, parameter: str) -> Getter[T]:
        if field not in self.fields:
            raise bad_request(parameter, f'there is no field "{field[:80]}". Use {", ".join(self.fields)}.')
        return self.fields[field]


async def everything(browse: Callable[[Window], Awaitable[Listing[T]]]) -> list[T]:
    """All of a list that is given out in pages."""
    found: list[T] = []
    while True:
        part = await browse(Window(len(found), WHOLE))
        found += part.items
        if not part.items or len(found) >= part.total:
            return found


def _compare(operator: str, value: Value, wanted: str | int) -> bool:
    if isinstance(value, int | float) and isinstance(wanted, str):
        try:
            number = float(wanted)
        except ValueError:
            raise bad_request("filterBy", f'"{wanted[:80]}" is not a number.') from None
        return _holds(operator, value, number)
    if value is None:
        return operator == "!="
    return _holds(operator, value, wanted)


def _holds(operator: str, value: str | int | float, wanted: str | int | float) -> bool:
    match operator:
        case "==":
            return value == wanted
        case "!=":
            return value != wanted
        case "<=":
            return _order(value) <= _order(wanted)
        case _:
            return _order(value) >= _order(wanted)


def _order(value: Value) -> tuple[bool, float, str]:
    """Numbers by size, texts by letters, and what there is not of at the end."""
    if isinstance(value, int | float):
        return (False, float(value), "")
    return (value is None, 0.0, value or "")
