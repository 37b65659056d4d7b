"""Short lists that are read completely, then filtered, sorted and paged by the grammar of this family's lists."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from stoker.api.compat.runai.filters import FILTER_PATTERN, restore_plus, split_filters
from stoker.api.http.params import Params, UnsplitList
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import bad_request
from stoker.domain.names import natural_sort_key
from stoker.domain.queries.filters import FilterOperator, matches
from stoker.domain.queries.pages import PageRequest, PageResult

T = TypeVar("T")
FieldValue = str | int | float | None
FieldGetter = Callable[[T], FieldValue]
FETCH_BATCH_SIZE = 1000


class InMemoryListParams(Params, frozen=True, kw_only=True, rename="camel"):
    filter_by: Annotated[UnsplitList, Meta(description="Field, operator, value.")] = ()
    sort_by: Annotated[str, Meta(max_length=63)] = ""
    sort_order: Literal["asc", "desc"] = "asc"
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    search: Annotated[str, Meta(max_length=200, description="Part of a name, in any case.")] = ""


class ListSchema(Struct, Generic[T], frozen=True):
    """The fields by which objects of one kind are filtered and sorted; `times` names those in epoch milliseconds."""

    fields: Mapping[str, FieldGetter[T]]
    time_fields: frozenset[str] = frozenset()

    def page(self, rows: Iterable[T], asked: InMemoryListParams) -> tuple[list[T], int | None]:
        """The requested page, and the offset of the next one."""
        found = self.select(rows, asked)
        name = self.fields["name"]
        found.sort(key=lambda row: natural_sort_key(str(name(row))))
        if asked.sort_by:
            getter = self._getter_for(asked.sort_by, "sortBy")
            found.sort(key=lambda row: _natural_sort_key(getter(row)), reverse=asked.sort_order == "desc")
        elif asked.sort_order == "desc":
            found.reverse()
        end = asked.offset + asked.limit
        return found[asked.offset : end], end if end < len(found) else None

    def select(self, rows: Iterable[T], asked: InMemoryListParams) -> list[T]:
        """The objects that match all filters and the search text."""
        tests = [self._parse_predicate(text) for text in split_filters(asked.filter_by, self.fields)]
        part, name = asked.search.casefold(), self.fields["name"]
        return [row for row in rows if part in str(name(row)).casefold() and all(test(row) for test in tests)]

    def _parse_predicate(self, text: str) -> Callable[[T], bool]:
        found = FILTER_PATTERN.fullmatch(text)
        if found is None:
            raise bad_request("filterBy", f'"{text[:80]}" is not a filter. Use one such as "name==vision".')
        field, operator, wanted = found["field"], FilterOperator(found["operator"]), found["value"]
        getter = self._getter_for(field, "filterBy")
        if field in self.time_fields:
            at = parse_rfc3339(restore_plus(wanted))
            if operator.is_text_match or at is None:
                raise bad_request("filterBy", f"{field} is a time: compare it by ==, !=, <= or >= with RFC 3339.")
            return lambda row: matches(getter(row), operator, at)
        if operator.is_text_match:
            return lambda row: matches(getter(row) or "", operator, wanted)
        return lambda row: _compare(getter(row), operator, wanted)

    def _getter_for(self, field: str, parameter: str) -> FieldGetter[T]:
        if field not in self.fields:
            raise bad_request(parameter, f'there is no field "{field[:80]}". Use {", ".join(self.fields)}.')
        return self.fields[field]


async def fetch_all(browse: Callable[[PageRequest], Awaitable[PageResult[T]]]) -> list[T]:
    """All items of a paged list."""
    found: list[T] = []
    while True:
        part = await browse(PageRequest(len(found), FETCH_BATCH_SIZE))
        found += part.items
        if not part.items or len(found) >= part.total:
            return found


def _compare(value: FieldValue, operator: FilterOperator, wanted: str) -> bool:
    if not isinstance(value, int | float):
        return matches(value, operator, wanted)
    try:
        return matches(value, operator, float(wanted))
    except ValueError:
        raise bad_request("filterBy", f'"{wanted[:80]}" is not a number.') from None


def _natural_sort_key(value: FieldValue) -> tuple[bool, float, str]:
    """Like `_sort_key`, with numbers inside texts compared by value."""
    return _sort_key(natural_sort_key(value) if isinstance(value, str) else value)


def _sort_key(value: FieldValue) -> tuple[bool, float, str]:
    """Numbers by size, texts by letters, missing values last."""
    if isinstance(value, int | float):
        return (False, float(value), "")
    return (value is None, 0.0, value or "")
