"""Since when GPUs are idle by the readings that were kept, for a start at which nothing else tells.

It is looked back from now, a little at a time, and only at those GPUs that were idle all the way: most are used, and of
those little is read.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.readings import Metric
from stoker.store import holders, samples
from stoker.store.base import Transaction
from stoker.store.holders import HeldSince
from stoker.store.samples import Segment, Tick
from stoker.telemetry import roster as rosters
from stoker.telemetry.chunks import SCALES, STRIPE_GPUS, decode_times, unpack, unpack_ticks
from stoker.telemetry.idleness import UNSEEN_MS, IdleGpu

LONGEST_MS = 168 * HOUR_MS
"""So far back is looked; what has been idle for longer is said to be so since then."""
TICKS = 40
"""Of the open hours so many are looked at at once."""
USE = Metric.UTILIZATION
MISSING = SCALES[USE].missing

Steps = NDArray[np.signedinteger]


def idle_past(transaction: Transaction, cluster_id: str, idle_up_to: float, now: int) -> list[IdleGpu]:
    """The GPUs of running workloads that were idle when they were last read, if that is not long ago."""
    look = _Look(holders.held_since(transaction, cluster_id), idle_up_to, now)
    for piece in _pieces(transaction, cluster_id, now):
        open_now = look.going_on(piece.until)
        if not len(open_now):
            break
        rows = piece.roster.places([(look.held[place].node, look.held[place].device) for place in open_now.tolist()])
        open_now, rows = open_now[rows >= 0], rows[rows >= 0]
        for first in np.unique(rows // piece.size * piece.size).tolist():
            mine = rows // piece.size * piece.size == first
            ats, steps = piece.read(transaction, first)
            if len(ats):
                look.back(open_now[mine], ats, steps[rows[mine] - first])
    return look.found()


class _Look:
    """Back along what was read of GPUs in the hands of those who hold them. `since` is the first of all readings up to
    now at which a GPU was idle; now, before there is one."""

    def __init__(self, held: Sequence[HeldSince], idle_up_to: float, now: int) -> None:
        self.held = held
        self._most = round(idle_up_to * SCALES[USE].steps, 6)
        self._now = now
        self._from = np.array([each.since for each in held], np.int64)
        self._since = np.full(len(held), now, np.int64)
        self._ended = np.zeros(len(held), np.bool_)

    def going_on(self, until: int) -> NDArray[np.intp]:
        """Those of which it matters what was read up to then."""
        return np.flatnonzero(~self._ended & (self._from <= until) & (self._since - until <= UNSEEN_MS))

    def back(self, places: NDArray[np.intp], ats: NDArray[np.int64], steps: Steps) -> None:
        """What was read of these, a row for each, at growing moments before those that were seen."""
        since = self._since[places, np.newaxis]
        read = (steps != MISSING) & (ats >= self._from[places, np.newaxis]) & (ats < since)
        later = np.where(read, ats, since)[:, ::-1]
        next_read = np.minimum.accumulate(np.hstack([since, later]), axis=1)[:, -2::-1]
        ends = read & ((steps > self._most) | (next_read - ats > UNSEEN_MS))
        last = np.where(ends.any(axis=1), len(ats) - ends[:, ::-1].argmax(axis=1), 0)
        idle = read & (np.arange(len(ats)) >= last[:, np.newaxis])
        self._since[places] = np.where(idle, ats, since).min(axis=1)
        self._ended[places] = last > 0

    def found(self) -> list[IdleGpu]:
        return [
            IdleGpu(self.held[place].node, self.held[place].device, self.held[place].slug, int(self._since[place]))
            for place in np.flatnonzero(self._since < self._now).tolist()
        ]


class _Ticks(Struct, frozen=True):
    """Some of the open hours, of one roster."""

    cluster_id: str
    roster: rosters.Roster
    ticks: Sequence[Tick]
    size: int = STRIPE_GPUS

    @property
    def until(self) -> int:
        return self.ticks[-1].at

    def read(self, transaction: Transaction, first_gpu: int) -> tuple[NDArray[np.int64], Steps]:
        kept = samples.stripes(transaction, self.cluster_id, first_gpu, self.ticks[0].at, self.until + 1)
        wanted = {tick.at for tick in self.ticks}
        found = [(at, data) for at, data in kept if at in wanted]
        ats = np.array([at for at, _ in found], np.int64)
        return ats, unpack_ticks([data for _, data in found], [USE])[USE] if found else np.zeros((0, 0), np.int16)


class _Hour(Struct, frozen=True):
    """An hour that is over, or a part of one."""

    segment: Segment
    roster: rosters.Roster

    @property
    def size(self) -> int:
        return self.segment.chunk_gpus

    @property
    def until(self) -> int:
        return self.segment.hour_at + HOUR_MS - 1

    def read(self, transaction: Transaction, first_gpu: int) -> tuple[NDArray[np.int64], Steps]:
        found = samples.chunks(transaction, self.segment.id, first_gpu, first_gpu + 1)
        if not found:
            return np.zeros(0, np.int64), np.zeros((0, 0), np.int16)
        return decode_times(self.segment.times), unpack(found[0].data, [USE])[USE]


def _pieces(transaction: Transaction, cluster_id: str, now: int) -> Iterator[_Ticks | _Hour]:
    """What is kept, newest first."""
    known: dict[int, rosters.Roster] = {}

    def roster(number: int) -> rosters.Roster:
        if number not in known:
            known[number] = rosters.decode(samples.roster(transaction, number))
        return known[number]

    oldest = max(0, now - LONGEST_MS)
    newest_first = samples.ticks(transaction, cluster_id, oldest, now + 1)[::-1]
    for number, group in groupby(newest_first, lambda tick: tick.roster_id):
        ticks = list(group)
        for place in range(0, len(ticks), TICKS):
            yield _Ticks(cluster_id, roster(number), ticks[place : place + TICKS][::-1])
    for hour_at in range(now - now % HOUR_MS, oldest, -HOUR_MS):
        segments = samples.segments(transaction, cluster_id, hour_at, hour_at + 1)
        for segment in sorted(segments, key=lambda each: -int(decode_times(each.times)[-1])):
            yield _Hour(segment, roster(segment.roster_id))
