"""The queue loop: looks at a cluster, plans, writes the plan down, and hands the started ones over."""

import asyncio
import logging
from collections.abc import Mapping

from msgspec import Struct

from stoker.controller.dispatch import dispatch, read_rooms
from stoker.domain.clock import Clock
from stoker.domain.lifecycle import DependencyFailed, Event, Preempted, transition
from stoker.domain.names import Randomness
from stoker.domain.naming import names_for
from stoker.domain.placement import UnderWay, missing_ranks
from stoker.engines.failpoints import failpoint
from stoker.scheduler import Plan, plan
from stoker.scheduler.view import snapshot
from stoker.store import workloads
from stoker.store.base import Store, Transaction
from stoker.store.under_way import read_cluster

REASONS_AT_ONCE = 2_000

log = logging.getLogger("stoker.queue")


class Outcome(Struct, frozen=True):
    """What a round of planning changed, and when it has to be looked at again by itself."""

    touched: tuple[str, ...]
    again_at: int | None


class QueueLoop:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._randomness = randomness

    async def round(self) -> Outcome:
        """Plan once over everything that waits, and write down what follows."""
        cluster = await self._store.read(lambda tx: read_cluster(tx, self._cluster_id))
        now = self._clock.now()
        view = snapshot(cluster, now)
        if not view.waiting:
            return Outcome((), None)
        made = await asyncio.to_thread(plan, view) if len(view.waiting) > 500 else plan(view)
        touched = await self._store.write(lambda tx: self._write(tx, cluster, made, now))
        if touched:
            failpoint("controller.dispatched")
        due = [each.not_before for each in view.waiting if each.not_before is not None and each.not_before > now]
        return Outcome(tuple(touched), min(due) if due else None)

    def _write(self, transaction: Transaction, cluster: UnderWay, made: Plan, now: int) -> list[str]:
        touched = []
        rooms = read_rooms(transaction, self._cluster_id)
        for place in made.placements:
            workload = cluster.workloads[place.uid]
            ranks = missing_ranks(workload, cluster.pods.get(place.uid, ()))
            if dispatch(transaction, rooms, place.uid, workload.version, ranks, place.nodes, now, self._randomness):
                touched.append(place.uid)
        for preemption in made.preemptions:
            winner = names_for(cluster.workloads[preemption.uid], cluster.workloads)[preemption.for_uid]
            if _go_through(transaction, cluster, preemption.uid, Preempted(now, winner)):
                touched.append(preemption.uid)
        touched += [
            failure.uid
            for failure in made.failures
            if _go_through(transaction, cluster, failure.uid, DependencyFailed(now, failure.reason))
        ]
        workloads.set_waiting(transaction, _new_reasons(cluster, made))
        return touched


def _go_through(transaction: Transaction, cluster: UnderWay, uid: str, event: Event) -> bool:
    """Only if the workload is still as it was when the plan was made."""
    planned = cluster.workloads[uid]
    workload = workloads.find(transaction, uid)
    if workload is None or workload.version != planned.version:
        return False
    change = transition(workload, event)
    if change is None:
        return False
    workloads.apply(transaction, workload, change)
    return True


def _new_reasons(cluster: UnderWay, made: Plan) -> Mapping[str, str]:
    """The reasons that are not what is already written; of very many, first of those that have none."""
    if len(made.waits) <= REASONS_AT_ONCE:
        asked = list(made.waits)
    else:
        asked = [uid for uid in made.waits if not cluster.workloads[uid].waiting][:REASONS_AT_ONCE]
    known = cluster.workloads
    said = {uid: made.waits[uid].reason.sentence(names_for(known[uid], known)) for uid in asked}
    return {uid: words for uid, words in said.items() if cluster.workloads[uid].waiting != words}
