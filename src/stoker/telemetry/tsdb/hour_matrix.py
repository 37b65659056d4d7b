"""All readings of one hour of a cluster, GPU by GPU, as whole numbers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.readings import Metric
from stoker.store import samples
from stoker.store.base import Transaction
from stoker.telemetry import roster as rosters
from stoker.telemetry.chunks import STRIPE_GPUS, decode_times, unpack, unpack_ticks

METRICS = (Metric.UTILIZATION, Metric.MEMORY_USED)
MISSING = -1

Gpu = tuple[str, int]
"""A node and a device of it."""


class HourReadings(Struct, frozen=True, eq=False):
    """[gpu, tick], ordered by time; MISSING where there is none. Utilisation in hundredths of a percent, MiB."""

    ats: NDArray[np.int64]
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]


def hour_readings(
    transaction: Transaction,
    cluster_id: str,
    hour_at: int,
    gpus: Sequence[Gpu],
    rows: dict[int, NDArray[np.intp]] | None = None,
) -> HourReadings:
    """Of these GPUs; what other GPUs said is left out. `rows` keeps where they are in rosters, for another hour."""
    segments = samples.segments(transaction, cluster_id, hour_at, hour_at + HOUR_MS)
    times = {segment.id: decode_times(segment.times) for segment in segments}
    loose: defaultdict[int, list[int]] = defaultdict(list)
    for tick in samples.ticks(transaction, cluster_id, hour_at, hour_at + HOUR_MS):
        loose[tick.roster_id].append(tick.at)
    ats = np.unique(np.concatenate([*times.values(), *map(_moments, loose.values()), _moments([])]))
    sheet = _Sheet(gpus, ats, {} if rows is None else rows)
    for segment in segments:
        places = sheet.rows(transaction, segment.roster_id)
        for chunk in samples.chunks(transaction, segment.id):
            mine = places[chunk.first_gpu : chunk.first_gpu + chunk.gpus]
            sheet.put(mine, times[segment.id], unpack(chunk.data, METRICS))
    for roster_id, moments in loose.items():
        places, counting = sheet.rows(transaction, roster_id), set(moments)
        for first in range(0, len(places), STRIPE_GPUS):
            kept = samples.stripes(transaction, cluster_id, first, moments[0], moments[-1] + 1)
            stripes = {at: data for at, data in kept if at in counting}
            if stripes:
                said = unpack_ticks(list(stripes.values()), METRICS)
                sheet.put(places[first : first + STRIPE_GPUS], _moments(list(stripes)), said)
    return HourReadings(sheet.ats, sheet.utilization, sheet.memory)


def _moments(ats: Sequence[int]) -> NDArray[np.int64]:
    return np.array(ats, np.int64)


class _Sheet:
    """The readings of these GPUs at these moments, filled bit by bit."""

    def __init__(self, gpus: Sequence[Gpu], ats: NDArray[np.int64], rows: dict[int, NDArray[np.intp]]) -> None:
        self.ats = ats
        self.utilization = np.full((len(gpus), len(ats)), MISSING, np.int16)
        self.memory = np.full((len(gpus), len(ats)), MISSING, np.int32)
        self._gpus = gpus
        self._rows = rows

    def put(
        self, rows: NDArray[np.intp], ats: NDArray[np.int64], values: Mapping[Metric, NDArray[np.signedinteger]]
    ) -> None:
        """What some GPUs said at some moments; `rows` is where they are here, -1 if they are not."""
        known = np.flatnonzero(rows >= 0)
        place = _block(rows[known], np.searchsorted(self.ats, ats))
        for whole, metric in ((self.utilization, Metric.UTILIZATION), (self.memory, Metric.MEMORY_USED)):
            found = values[metric] if len(known) == len(rows) else values[metric][known]
            whole[place] = np.maximum(found, MISSING)

    def rows(self, transaction: Transaction, roster_id: int) -> NDArray[np.intp]:
        """Where the GPUs of a roster are here, -1 for those that are not."""
        if roster_id not in self._rows:
            roster = rosters.decode(samples.roster(transaction, roster_id))
            rows = np.full(roster.gpus, MISSING, np.intp)
            there = roster.places(self._gpus)
            rows[there[there >= 0]] = np.flatnonzero(there >= 0)
            self._rows[roster_id] = rows
        return self._rows[roster_id]


def _block(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[Any, ...]:
    """These rows and columns; as slices where they follow each other, which is many times as fast."""
    if all(
        len(each) and each[-1] - each[0] == len(each) - 1 and (np.diff(each) == 1).all() for each in (rows, columns)
    ):
        return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    return np.ix_(rows, columns)
