"""Columns that a grid filters and sorts by, as NumPy arrays.

Columns do not change after they are built, so every sort order is computed once.
"""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from stoker.domain.names import natural_sort_key

FloatArray = NDArray[np.float64]


class GridSort(StrEnum):
    """`NAME` sorts by cluster, node and device, with the numbers in names compared as numbers."""

    NAME = "name"
    ALLOCATED = "allocated"
    UTILIZATION = "utilization"
    MEMORY = "memory"
    POWER = "power"
    TEMPERATURE = "temperature"


class SortOrders:
    """The rows of a grid in each sort order, computed when first requested."""

    def __init__(self, columns: dict[GridSort, FloatArray], name_order: NDArray[np.intp]) -> None:
        self._columns = columns
        self._name_order = name_order
        self._cached_orders: dict[tuple[GridSort, bool], NDArray[np.intp]] = {}

    def column(self, sort: GridSort) -> FloatArray:
        return self._columns[sort]

    def row_order(self, sort: GridSort, *, descending: bool) -> NDArray[np.intp]:
        """Row indexes in this order. Unknown values come last in both directions; equal values are ordered by name."""
        key = (sort, descending)
        if key not in self._cached_orders:
            if sort is GridSort.NAME:
                self._cached_orders[key] = self._name_order[::-1] if descending else self._name_order
            else:
                column = self._columns[sort][self._name_order]
                self._cached_orders[key] = self._name_order[
                    np.argsort(-column if descending else column, kind="stable")
                ]
        return self._cached_orders[key]


class CategoricalColumn:
    """A dictionary-encoded text column: a filter examines each distinct value once."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self._code_by_value: dict[str | None, int] = {}
        codes = self._code_by_value
        self._codes = np.fromiter((codes.setdefault(value, len(codes)) for value in values), np.int32, len(values))

    def equals(self, value: str) -> NDArray[np.bool_]:
        return self._codes == self._code_by_value.get(value, -1)

    def natural_ranks(self) -> NDArray[np.intp]:
        """The rank of each row's value among the distinct values, in natural order."""
        values = [value or "" for value in self._code_by_value]
        ranks = np.empty(len(values), np.intp)
        ranks[sorted(range(len(values)), key=lambda code: natural_sort_key(values[code]))] = np.arange(len(values))
        return ranks[self._codes]

    def contains(self, text: str) -> NDArray[np.bool_]:
        """Rows whose value contains the text, ignoring case."""
        folded = text.casefold()
        matches = [value is not None and folded in value.casefold() for value in self._code_by_value]
        return np.array(matches, np.bool_)[self._codes] if matches else np.zeros(0, np.bool_)


def float_array(values: Sequence[float | None]) -> FloatArray:
    """None becomes NaN, which sorts last."""
    return np.array([np.nan if value is None else value for value in values], np.float64)
