"""The queue loop: looks at what has moved in a cluster, plans, writes the plan down, and hands the started ones over.

The view and the planner are kept from round to round. They are only ever as true as what was last read; what is
written follows from them only where the workload is still at the version that was planned.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from stoker.controller.dispatch import Room, Start, dispatch
from stoker.controller.settle import State
from stoker.controller.waits import Waits
from stoker.domain.clock import Clock
from stoker.domain.events import DependencyFailed, Event, Preempted
from stoker.domain.lifecycle import Change as Step
from stoker.domain.lifecycle import transition
from stoker.domain.names import Randomness
from stoker.domain.naming import names_for
from stoker.domain.placement import missing_ranks
from stoker.domain.workload import Wait, Workload
from stoker.engines.failpoints import failpoint
from stoker.scheduler import Change, Plan, Planner
from stoker.scheduler.view import View
from stoker.store import workloads
from stoker.store.base import Store, Transaction, reading, writing
from stoker.store.under_way import NEVER_READ, read_all, read_moved

AGAIN_MS = 200
"""When something is planned again that was not as it had been planned."""
MANY = 500
"""From so many waiting ones on, a plan is made beside the event loop."""


class Outcome(Struct, frozen=True):
    """What a round of planning changed, and when it has to be looked at again by itself."""

    begun: Mapping[str, State] = {}
    """Workloads that have begun an attempt, with its pods."""
    touched: tuple[str, ...] = ()
    """Others that changed."""
    again_at: int | None = None


class QueueLoop:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._randomness = randomness
        self._moved: dict[str, str] = {}
        self._stand = NEVER_READ
        self._known: tuple[View, Planner] | None = None
        self._waits = Waits()

    def note(self, uid: str, slug: str = "") -> None:
        """This workload, or one of its pods, is not as it was. Others may wait for it by its slug."""
        self._moved[uid] = slug or self._moved.get(uid, "")

    def awaits(self, uid: str, slug: str) -> bool:
        """Whether something here depends on this workload, which may be of another cluster."""
        return self._known is None or bool(self._known[0].awaited({uid: slug}))

    def forget(self) -> None:
        """Something may have been missed: the next round reads everything."""
        self._known = None

    async def round(self) -> Outcome:
        """Plan once over everything that waits, and write down what follows."""
        try:
            return await self._round()
        except BaseException:
            self.forget()
            raise

    async def _round(self) -> Outcome:
        now = self._clock.now()
        view, planner = await self.look(now)
        if not view.waiting:
            return Outcome()
        made = await asyncio.to_thread(planner.plan) if len(view.waiting) > MANY else planner.plan()
        reasons = self._waits.to_say(view, made, now)
        begun: Mapping[str, State] = {}
        touched: list[str] = []
        if made.placements or made.preemptions or made.failures or reasons:
            pods = sum(len(each.nodes) for each in made.placements)
            write = writing(self._store, pods + len(made.preemptions) + len(made.failures) + len(reasons))
            begun, touched = await write(lambda tx: self._write(tx, view, made, reasons, now))
        self._waits.said(view, reasons)
        if begun or touched:
            failpoint("controller.dispatched")
        decided = {each.uid for each in (*made.placements, *made.preemptions, *made.failures)}
        for uid in decided:
            self.note(uid)
        due = [at for at in (planner.wakes_at, self._waits.again_at(now)) if at is not None]
        if decided - begun.keys() - set(touched):  # what was planned is no longer so
            due.append(now + AGAIN_MS)
        return Outcome(begun, tuple(touched), min(due, default=None))

    async def look(self, now: int) -> tuple[View, Planner]:
        """The cluster as it is now."""
        moved, self._moved = self._moved, {}
        if self._known is None:
            cluster, self._stand = await self._store.read(lambda tx: read_all(tx, self._cluster_id, self._stand))
            view = View(cluster)
            self._known = view, Planner(view.snapshot(now))
            self._waits.begin()
            return self._known
        view, planner = self._known
        awaited = view.awaited(moved)
        look = reading(self._store, len(moved) + len(awaited))
        found, self._stand = await look(lambda tx: read_moved(tx, self._cluster_id, moved.keys(), awaited, self._stand))
        woken = planner.wakes_at is not None and planner.wakes_at <= now
        change = view.update(found, now)
        planner.change(change)
        if woken or change != Change(now=now):
            self._waits.take(each.uid for each in change.waiting)
        return self._known

    def _write(
        self, transaction: Transaction, view: View, made: Plan, reasons: Mapping[str, Wait], now: int
    ) -> tuple[Mapping[str, State], list[str]]:
        starts = []
        for place in made.placements:
            workload = view.workloads[place.uid]
            ranks = missing_ranks(workload, view.pods.get(place.uid, ()))
            starts.append(Start(workload, ranks, place.nodes, place.guaranteed_until))
        begun = dispatch(transaction, self._cluster_id, Room(view), starts, now, self._randomness)
        events: dict[str, Event] = {}
        for preemption in made.preemptions:
            winner = names_for(view.workloads[preemption.uid], view.workloads)[preemption.for_uid]
            events[preemption.uid] = Preempted(now, winner)
        for failure in made.failures:
            events[failure.uid] = DependencyFailed(now, failure.reason)
        touched = _go_through(transaction, view, events)
        workloads.set_waiting(transaction, reasons)
        return begun, touched


def _go_through(transaction: Transaction, view: View, events: Mapping[str, Event]) -> list[str]:
    """Only those that are still as they were when the plan was made."""
    present = workloads.by_uid(transaction, events.keys())
    changes: list[tuple[Workload, Step]] = []
    for uid, event in events.items():
        workload = present.get(uid)
        if workload is None or workload.version != view.workloads[uid].version:
            continue
        if (change := transition(workload, event)) is not None:
            changes.append((workload, change))
    workloads.apply_all(transaction, changes)
    return [workload.uid for workload, _ in changes]
