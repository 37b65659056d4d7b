"""All readings of one hour of a cluster, GPU by GPU, as whole numbers."""

from collections.abc import Iterator, Sequence

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


class _Piece(Struct, frozen=True, eq=False):
    """Some ticks of some GPUs: the rows they have in the answer, and the values."""

    rows: NDArray[np.intp]
    ats: NDArray[np.int64]
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]


def hour_readings(transaction: Transaction, cluster_id: str, hour_at: int, gpus: Sequence[Gpu]) -> HourReadings:
    """Of these GPUs; what other GPUs said is left out."""
    rows = _Rows(gpus)
    sealed = _from_segments(transaction, cluster_id, hour_at, rows)
    pieces = [*sealed, *_from_ticks(transaction, cluster_id, hour_at, rows)]
    ats = np.unique(np.concatenate([np.zeros(0, np.int64), *(piece.ats for piece in pieces)]))
    utilization = np.full((len(gpus), len(ats)), MISSING, np.int16)
    memory = np.full((len(gpus), len(ats)), MISSING, np.int32)
    for piece in pieces:
        known = np.flatnonzero(piece.rows >= 0)
        columns = np.searchsorted(ats, piece.ats)
        place = np.ix_(piece.rows[known], columns)
        utilization[place] = np.maximum(piece.utilization[known], MISSING)
        memory[place] = np.maximum(piece.memory[known], MISSING)
    return HourReadings(ats, utilization, memory)


def _from_segments(transaction: Transaction, cluster_id: str, hour_at: int, rows: "_Rows") -> Iterator[_Piece]:
    for segment in samples.segments(transaction, cluster_id, hour_at, hour_at + HOUR_MS):
        ats = decode_times(segment.times)
        for chunk in samples.chunks(transaction, segment.id):
            yield _piece(chunk, ats, rows.of(transaction, segment.roster_id))


def _from_ticks(transaction: Transaction, cluster_id: str, hour_at: int, rows: "_Rows") -> Iterator[_Piece]:
    """Ticks that are in no segment yet."""
    counting = {tick.at: tick.roster_id for tick in samples.ticks(transaction, cluster_id, hour_at, hour_at + HOUR_MS)}
    for at, stripe in samples.every_stripe(transaction, cluster_id, hour_at, hour_at + HOUR_MS):
        if at in counting:
            yield _piece(stripe, np.array([at], np.int64), rows.of(transaction, counting[at]))


def _piece(chunk: Chunk, ats: NDArray[np.int64], rows: NDArray[np.intp]) -> _Piece:
    values = unpack(chunk.data, METRICS)
    mine = rows[chunk.first_gpu : chunk.first_gpu + chunk.gpus]
    return _Piece(mine, ats, values[Metric.UTILIZATION], values[Metric.MEMORY_USED])


class _Rows:
    """Where the GPUs of a roster are in the answer, -1 for those that are not."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._row = {gpu: number for number, gpu in enumerate(gpus)}
        self._known: dict[int, NDArray[np.intp]] = {}

    def of(self, transaction: Transaction, roster_id: int) -> NDArray[np.intp]:
        if roster_id not in self._known:
            roster = rosters.decode(samples.roster(transaction, roster_id))
            gpus = zip(roster.node.tolist(), roster.device.tolist(), strict=True)
            rows = [self._row.get((roster.nodes[node], device), -1) for node, device in gpus]
            self._known[roster_id] = np.array(rows, np.intp)
        return self._known[roster_id]
