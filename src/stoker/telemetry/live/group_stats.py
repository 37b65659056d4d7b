"""Sums and means of arrays by group. NaN is a missing value: it is left out, and is the result for an empty group."""

import numpy as np
from numpy.typing import NDArray

GroupIndex = NDArray[np.integer]
"""The group of each value, from 0 on."""


def group_sums(group: GroupIndex, values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    sums = np.bincount(group, np.nan_to_num(values), groups)
    return np.where(_counts(group, values, groups) > 0, sums, np.nan)


def group_means(group: GroupIndex, values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    sums, counts = np.bincount(group, np.nan_to_num(values), groups), _counts(group, values, groups)
    return np.divide(sums, counts, out=np.full(groups, np.nan), where=counts > 0)


def nan_to_none(values: NDArray[np.float64], decimals: int = 4) -> list[float | None]:
    """Rounded values as a list."""
    rounded: list[float | None] = np.round(values, decimals).tolist()
    for row in np.flatnonzero(np.isnan(values)).tolist():
        rounded[row] = None
    return rounded


def _counts(group: GroupIndex, values: NDArray[np.float64], groups: int) -> NDArray[np.integer]:
    return np.bincount(group[~np.isnan(values)], minlength=groups)
