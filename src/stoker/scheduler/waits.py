"""Why each workload waits, told only when somebody asks.

The reasons are read off the end of the plan. Room only shrinks while a plan is made, so what could not start when
its turn came cannot start then either.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from stoker.scheduler.decisions import Wait
from stoker.scheduler.reasons import (
    BehindHead,
    BehindPriority,
    NoRoom,
    NotYet,
    OverQuota,
    Preempting,
    Reason,
    WaitsFor,
)
from stoker.scheduler.round import Round
from stoker.scheduler.shortage import short_in_pools, short_on_named
from stoker.scheduler.snapshot import Waiting
from stoker.scheduler.turn import Turn


class Waits(Mapping[str, Wait]):
    def __init__(self, made: Round, now: int) -> None:
        self._desk = made.desk
        self._turns = made.turns
        self._now = now
        self._no_room: dict[object, NoRoom] = {}

    def __len__(self) -> int:
        return sum(len(turn.line.keys) - len(turn.started) for turn in self._turns.values())

    def __iter__(self) -> Iterator[str]:
        started = self._desk.started
        for turn in self._turns.values():
            yield from (uid for uid in turn.line.by_uid if uid not in started)

    def __getitem__(self, uid: str) -> Wait:
        for turn in self._turns.values():
            if uid in turn.line.by_uid and uid not in self._desk.started:
                position = turn.line.position(uid)
                order = position + 1 - bisect_left(turn.started, position)
                return Wait(self._reason(turn, position, order), order)
        raise KeyError(uid)

    def _reason(self, turn: Turn, position: int, order: int) -> Reason:
        waiting = turn.line.waiting[position]
        if waiting.not_before is not None and waiting.not_before > self._now:
            return NotYet(waiting.not_before)
        if waiting.waits_for:
            return WaitsFor(waiting.waits_for)
        if turn.stopped_at is not None and position > turn.stopped_at:
            return BehindHead(turn.line.keys[turn.stopped_at][4], order - 1)
        for at, priority, uid in turn.barriers:
            if at < position and priority > waiting.priority:
                return BehindPriority(uid, priority)
        if waiting.uid in self._desk.promised:
            return Preempting(self._desk.awaited(waiting))
        return self._shortage(turn, waiting)

    def _shortage(self, turn: Turn, waiting: Waiting) -> Reason:
        short = turn.account.short_of(waiting.each * waiting.replicas)
        if short is not None and (turn.owed or not waiting.preemptible):
            return OverQuota(*short)
        if waiting.specified_nodes:
            return short_on_named(self._desk, waiting)
        key = (waiting.pools, waiting.tolerate_all, waiting.each, waiting.replicas)
        if key not in self._no_room:
            self._no_room[key] = short_in_pools(self._desk.now, waiting)
        return self._no_room[key]
