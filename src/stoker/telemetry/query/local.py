"""Ranges of readings out of the store. A reading is shown only to who held its GPU at that moment."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Range
from stoker.store import samples
from stoker.store.base import Store, Transaction
from stoker.store.samples import Segment, Tick
from stoker.telemetry import roster as rosters
from stoker.telemetry.chunks import SCALES, STRIPE_GPUS
from stoker.telemetry.means import Means
from stoker.telemetry.roster import Roster
from stoker.telemetry.unpacked import ColdError, Steps, Unpacked

KEPT_ROSTERS = 32
CHUNKS_AT_ONCE = 8
"""So many are added up together: few steps for most workloads, and little memory for the largest."""
SHORT = 20_000
"""Points that are made at once, without a thread, from what is unpacked already."""


class StoredSeries:
    """Reads what the samplers have written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rosters: dict[int, Roster] = {}
        self._unpacked = Unpacked()
        self._turn = asyncio.Lock()

    async def gpus(
        self, cluster_id: str, holdings: Sequence[Holding], metrics: Sequence[Metric], span: Range
    ) -> Mapping[Metric, list[GpuLine]]:
        """Lines by node and device; MEMORY_USED as a fraction of the GPU's memory."""

        def read(transaction: Transaction, *, warm: bool = False) -> dict[Metric, list[GpuLine]]:
            means = Means(holdings, metrics, span)
            self._fill(transaction, means, cluster_id, metrics, warm=warm)
            return means.lines()

        if len(holdings) * len(metrics) * (span.end - span.start) // span.step <= SHORT:
            with suppress(ColdError):
                await self._next_round()
                return await self._store.peek(lambda tx: read(tx, warm=True))
        return await self._store.read(read)

    async def _next_round(self) -> None:
        """One range in each round of the loop, in the order they were asked for: between two it hears what else has
        come, which would wait for all of them otherwise."""
        await self._turn.acquire()
        asyncio.get_running_loop().call_soon(self._turn.release)

    def _fill(
        self, transaction: Transaction, means: Means, cluster_id: str, metrics: Sequence[Metric], *, warm: bool
    ) -> None:
        first, after = means.first_at, means.last_at + 1
        for segment in samples.segments(transaction, cluster_id, first - first % HOUR_MS, after):
            self._add_segment(transaction, means, segment, metrics, warm=warm)
        ticks = samples.ticks(transaction, cluster_id, first, after)
        for roster_id in sorted({tick.roster_id for tick in ticks}):
            mine = [tick for tick in ticks if tick.roster_id == roster_id]
            self._add_ticks(transaction, means, cluster_id, mine, metrics, warm=warm)

    def _add_segment(
        self, transaction: Transaction, means: Means, segment: Segment, metrics: Sequence[Metric], *, warm: bool
    ) -> None:
        held = means.held_between(segment.hour_at, segment.hour_at + HOUR_MS)
        if not len(held):
            return
        roster = self._roster(transaction, segment.roster_id)
        found = (
            (steps.ats, places, rows, _numbers(metrics, roster, rows, first, steps))
            for first, places, rows in _together(means.rows_in(roster), held, segment.chunk_gpus)
            if (whole := self._unpacked.chunk(transaction, segment, first, warm=warm)) is not None
            for steps in [whole.between(means.first_at, means.last_at)]
        )
        while some := list(islice(found, CHUNKS_AT_ONCE)):
            ats, places, rows, numbers = (list(column) for column in zip(*some, strict=True))
            units = _units(metrics, roster, np.concatenate(rows))
            means.add(ats[0], np.concatenate(places), np.concatenate(numbers, axis=1), units)  # at the same moments

    def _add_ticks(
        self,
        transaction: Transaction,
        means: Means,
        cluster_id: str,
        ticks: list[Tick],
        metrics: Sequence[Metric],
        *,
        warm: bool,
    ) -> None:
        roster = self._roster(transaction, ticks[0].roster_id)
        ats = np.array([tick.at for tick in ticks], np.int64)
        held = means.held_between(ticks[0].at, ticks[-1].at + 1)
        for first, places, rows in _together(means.rows_in(roster), held, STRIPE_GPUS):
            if steps := self._unpacked.ticks(transaction, cluster_id, ticks[0].roster_id, first, ats, warm=warm):
                numbers = _numbers(metrics, roster, rows, first, steps)
                means.add(steps.ats, places, numbers, _units(metrics, roster, rows))

    def _roster(self, transaction: Transaction, roster_id: int) -> Roster:
        """A roster never changes, so it is read once."""
        if roster_id not in self._rosters:
            if len(self._rosters) >= KEPT_ROSTERS:
                self._rosters.clear()
            self._rosters[roster_id] = rosters.decode(samples.roster(transaction, roster_id))
        return self._rosters[roster_id]


def _together(
    rows: NDArray[np.intp], places: NDArray[np.intp], size: int
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
    """What lies in one piece of so many GPUs: its first GPU, the places in `held`, and their rows of the roster."""
    places = places[rows[places] >= 0]
    first = rows[places] // size * size
    for each in np.unique(first).tolist():
        mine = places[first == each]
        yield each, mine, rows[mine]


def _numbers(
    metrics: Sequence[Metric], roster: Roster, rows: NDArray[np.intp], first: int, steps: Steps
) -> NDArray[np.int32]:
    """What the GPUs of these rows said; of memory no more than each has, before means are made of it."""
    numbers = steps.of(metrics, rows - first)
    if Metric.MEMORY_USED in metrics:
        most = (roster.memory_bytes[rows] * SCALES[Metric.MEMORY_USED].steps).astype(np.int32)
        used = numbers[metrics.index(Metric.MEMORY_USED)]
        np.minimum(used, most[:, np.newaxis], out=used)
    return numbers


def _units(metrics: Sequence[Metric], roster: Roster, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """What one step is worth; of memory as a fraction of what the GPU has, and not known where that is not."""
    units = np.array([[1 / SCALES[metric].steps] for metric in metrics]) + np.zeros(len(rows))
    if Metric.MEMORY_USED in metrics:
        total = roster.memory_bytes[rows]
        units[metrics.index(Metric.MEMORY_USED)] /= np.where(total > 0, total, np.inf)
    return units
