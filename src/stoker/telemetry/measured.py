"""All readings of one hour of a cluster, GPU by GPU, as whole numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.readings import Metric
from stoker.store import samples
from stoker.store.base import Transaction
from stoker.store.samples import Chunk
from stoker.telemetry import roster as rosters
from stoker.telemetry.chunks import decode_times, unpack

HOUR_MS = 3_600_000
METRICS = (Metric.UTILIZATION, Metric.MEMORY_USED)
MISSING = -1

Gpu = tuple[str, int]
"""A node and a device of it."""


class HourReadings(Struct, frozen=True, eq=False):
    """[gpu, tick], ordered by time; MISSING where there is none. Utilisation in hundredths of a percent, MiB."""

    ats: NDArray[np.int64]
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]


def hour_readings(transaction: Transaction, cluster_id: str, hour_at: int, gpus: Sequence[Gpu]) -> HourReadings:
    """Of these GPUs; what other GPUs said is left out."""
    segments = samples.segments(transaction, cluster_id, hour_at, hour_at + HOUR_MS)
    ticks = samples.ticks(transaction, cluster_id, hour_at, hour_at + HOUR_MS)
    times = {segment.id: decode_times(segment.times) for segment in segments}
    loose = {tick.at: tick.roster_id for tick in ticks}
    sheet = _Sheet(gpus, np.unique(np.concatenate([np.array(list(loose), np.int64), *times.values()])))
    for segment in segments:
        rows = sheet.rows(transaction, segment.roster_id)
        for chunk in samples.chunks(transaction, segment.id):
            sheet.put(chunk, rows, times[segment.id])
    for at, stripe in samples.every_stripe(transaction, cluster_id, hour_at, hour_at + HOUR_MS) if loose else ():
        if at in loose:  # what is left of a tick that is in a segment by now does not count
            sheet.put(stripe, sheet.rows(transaction, loose[at]), np.array([at], np.int64))
    return HourReadings(sheet.ats, sheet.utilization, sheet.memory)


class _Sheet:
    """The readings of these GPUs at these moments, filled bit by bit."""

    def __init__(self, gpus: Sequence[Gpu], ats: NDArray[np.int64]) -> None:
        self.ats = ats
        self.utilization = np.full((len(gpus), len(ats)), MISSING, np.int16)
        self.memory = np.full((len(gpus), len(ats)), MISSING, np.int32)
        self._row = {gpu: number for number, gpu in enumerate(gpus)}
        self._rows: dict[int, NDArray[np.intp]] = {}

    def put(self, chunk: Chunk, rows: NDArray[np.intp], ats: NDArray[np.int64]) -> None:
        """Some GPUs of a roster at some moments; `rows` is where the roster's GPUs are here."""
        values = unpack(chunk.data, METRICS)
        mine = rows[chunk.first_gpu : chunk.first_gpu + chunk.gpus]
        known = np.flatnonzero(mine >= 0)
        place = _block(mine[known], np.searchsorted(self.ats, ats))
        for whole, metric in ((self.utilization, Metric.UTILIZATION), (self.memory, Metric.MEMORY_USED)):
            found = values[metric] if len(known) == len(mine) else values[metric][known]
            whole[place] = np.maximum(found, MISSING)

    def rows(self, transaction: Transaction, roster_id: int) -> NDArray[np.intp]:
        """Where the GPUs of a roster are here, -1 for those that are not."""
        if roster_id not in self._rows:
            roster = rosters.decode(samples.roster(transaction, roster_id))
            gpus = zip(roster.node.tolist(), roster.device.tolist(), strict=True)
            rows = [self._row.get((roster.nodes[node], device), -1) for node, device in gpus]
            self._rows[roster_id] = np.array(rows, np.intp)
        return self._rows[roster_id]


def _block(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[Any, ...]:
    """These rows and columns; as slices where they follow each other, which is many times as fast."""
    if all(
        len(each) and each[-1] - each[0] == len(each) - 1 and (np.diff(each) == 1).all() for each in (rows, columns)
    ):
        return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    return np.ix_(rows, columns)
