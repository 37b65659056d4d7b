"""The preemptor gets the capacity of its victims, whatever arrives meanwhile and however often the cluster is planned.

Reservations are not set up here: they follow from the workloads through the cluster cache, as in a controller.
"""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.property.example_counts import examples
from tests.unit.scheduler.test_cluster_cache import machine, under_way, workload

from stoker.controller.scheduling.devices import DeviceAllocator
from stoker.controller.scheduling.loop import plan_events
from stoker.domain.access.identity import QueuePolicy, Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.events import Dispatched, LifecycleEvent, PodsFinished, PodsReady, PodsTerminated
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.placement import ClusterState
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.scheduler import Plan, plan
from stoker.scheduler.cache import ClusterCache

SIZES = (Resources(300, 500, 1), Resources(MILLI, 500, 1), Resources(2 * MILLI, 500, 1), Resources(4 * MILLI, 500, 1))


class BusyCluster:
    """A small cluster that is always asked for more than it has, driven as a controller would drive it."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = 1_000
        self.workloads: dict[str, Workload] = {}
        self.pods: dict[str, list[Pod]] = {}
        self.nodes = {name: machine(name, self.dice.choice((2, 4))) for name in ("node-0", "node-1", "node-2")}
        [space] = under_way([], []).workspaces
        self.workspaces = tuple(
            structs.replace(
                space,
                id=number,
                quota=Quota(gpu_milli=self.dice.choice((0, 2, 4, 8)) * MILLI),
                queue_policy=self.dice.choice(list(QueuePolicy)),
            )
            for number in (1, 2, 3)
        )

    def go_on(self) -> None:
        """Some arrive, some end, and some of those that were asked to leave have left."""
        self.now += 1
        for _ in range(self.dice.randrange(3)):
            self._submit()
        for uid, found in list(self.workloads.items()):
            if found.phase is Phase.RUNNING and self.dice.random() < 0.1:
                self._end(uid, PodsFinished(self.now, True, "done"))
            elif found.phase is Phase.TERMINATING and self.dice.random() < 0.4:
                self._end(uid, PodsTerminated(self.now))

    def _submit(self) -> None:
        uid = f"w{len(self.workloads)}"
        spec = Spec(resources=self.dice.choice(SIZES), replicas=self.dice.choice((1, 1, 2)))
        made = workload(uid, Kind.JOB, spec=spec, preemptible=self.dice.random() < 0.6, submitted_at=self.now)
        space, priority = self.dice.choice(self.workspaces).id, self.dice.choice((80, 125, 150))
        self.workloads[uid] = structs.replace(made, workspace_id=space, priority=priority)

    def _end(self, uid: str, event: LifecycleEvent) -> None:
        self._let_happen(uid, event)
        self.pods.pop(uid, None)

    def _let_happen(self, uid: str, event: LifecycleEvent) -> None:
        change = transition(self.workloads[uid], event)
        assert change is not None
        self.workloads[uid] = change.workload

    def plan(self) -> Plan:
        """One round of planning, and everything that it decides."""
        live = {uid: each for uid, each in self.workloads.items() if not each.phase.is_finished}
        view = ClusterCache(ClusterState(live, self.pods, self.nodes, self.workspaces, {}))
        made = plan(view.snapshot(self.now))
        room = DeviceAllocator(view)
        for place in made.placements:
            self._place(place.uid, place.nodes, room)
        for uid, event in plan_events(view, made, self.now).items():
            self._let_happen(uid, event)
        return made

    def _place(self, uid: str, nodes: tuple[str, ...], room: DeviceAllocator) -> None:
        each = self.workloads[uid].spec.resources
        devices = room.allocate(nodes, each)
        assert devices is not None
        self._let_happen(uid, Dispatched(self.now))
        self._let_happen(uid, PodsReady(self.now))
        self.pods[uid] = [
            Pod(
                uid=f"{uid}-{rank}-{self.now}",
                workload_uid=uid,
                name=f"{uid}-{rank}",
                attempt=1,
                revision=1,
                rank=rank,
                node=node,
                resources=each,
                devices=given,
                created_at=self.now,
            )
            for rank, (node, given) in enumerate(zip(nodes, devices, strict=True))
        ]

    def is_free(self, uid: str) -> bool:
        """Whether nothing leaves any more that a workload could be waiting for."""
        asked = self.workloads[uid]
        leaving = [other for other, each in self.workloads.items() if each.phase is Phase.TERMINATING]
        return not any(
            self.workloads[other].workspace_id == asked.workspace_id
            or {pod.node for pod in self.pods.get(other, ())} & set(asked.reserved_nodes)
            for other in leaving
        )


@examples(300)
@given(st.integers(0, 2**32 - 1))
def test_who_others_were_preempted_for_starts_when_they_have_left_and_asks_nobody_else_to(seed: int) -> None:
    cluster = BusyCluster(seed)
    owed: set[str] = set()
    for _ in range(25):
        cluster.go_on()
        due = {uid for uid in owed if cluster.is_free(uid)}
        made = cluster.plan()
        started = {place.uid for place in made.placements}
        assert due <= started
        owed -= started
        assert not owed & {preempt.preemptor_uid for preempt in made.preemptions}
        owed |= {preempt.preemptor_uid for preempt in made.preemptions}
        assert owed == {uid for uid, each in cluster.workloads.items() if each.reserved_nodes}
