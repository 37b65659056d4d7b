"""What a plan costs on one core: clusters of 1,000 and 12,500 nodes, 90 % full, with 10,000 and 100,000 waiting."""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec import structs

from stoker.domain.access.identity import QueuePolicy, Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler import Plan, Planner, SnapshotDelta, explain, plan
from stoker.scheduler.model import AdmittedWorkload, NodeInfo, PendingWorkload, Queue, Snapshot

Result = TypeVar("Result")

GIB = 2**30
WORKSPACES = 20
PRIORITIES = (50, 80, 150)
NODE = Resources(8 * MILLI, 128 * MILLI, 1024 * GIB)
CHANGES = 40
START = 1_700_000_000_000


def usual(rng: random.Random) -> list[tuple[Resources, int]]:
    """Forty shapes as people ask for them: mostly one node or less, some gangs, some without a GPU."""
    found = [(Resources(gpus * MILLI, gpus * 14 * MILLI, gpus * 100 * GIB), 1) for gpus in (1, 1, 2, 2, 4, 4, 8, 8)]
    found += [(Resources(8 * MILLI, 100 * MILLI, 800 * GIB), replicas) for replicas in (2, 2, 4, 4, 8, 16, 32, 64)]
    found += [
        (Resources(gpus * MILLI, rng.randint(4, 16) * gpus * MILLI, rng.randint(20, 120) * gpus * GIB), replicas)
        for gpus in (1, 2, 4)
        for replicas in (1, 1, 2, 3, 4)
    ]
    found += [(Resources(milli, 4 * MILLI, 16 * GIB), 1) for milli in (250, 500)]
    found += [(Resources(0, cpus * MILLI, cpus * 4 * GIB), 1) for cpus in (1, 4, 8, 16)]
    found += [(Resources(0, cpus * MILLI, cpus * 4 * GIB), 8) for cpus in (1, 4, 16)]
    return found


def distinct(rng: random.Random) -> tuple[Resources, int]:
    """A shape that no other workload has."""
    gpus = rng.choice((0, 1, 1, 2, 4, 8, 8))
    cpu = rng.randint(1, 14 * MILLI) * max(1, gpus)
    memory = rng.randint(GIB, 110 * GIB) * max(1, gpus)
    return Resources(gpus * MILLI, cpu, memory), rng.choice((1, 1, 1, 1, 2, 4, 8))


class Fleet:
    """A cluster that is filled with placed workloads until nine tenths of its GPUs are taken."""

    def __init__(self, nodes: int, waiting: int, different: bool) -> None:
        self.rng = random.Random(1)
        self.different = different
        self.shapes = usual(self.rng)
        self.names = [f"node-{number:05d}" for number in range(nodes)]
        self.free = dict.fromkeys(self.names, NODE)
        self.number = 0
        self.placed: dict[str, AdmittedWorkload] = {}
        self._fill(nodes * NODE.gpu_milli * 9 // 10)
        self.waiting = {each.uid: each for each in (self.submitted() for _ in range(waiting))}
        owed = nodes * NODE.gpu_milli // WORKSPACES
        self.queues = tuple(
            Queue(
                number,
                f"team-{number}",
                Quota(gpu_milli=owed * self.rng.choice((8, 10, 12)) // 10, cpu_milli=owed * 20),
                (QueuePolicy.FIFO, QueuePolicy.BALANCE)[number % 2],
                number % 4 != 0,
            )
            for number in range(WORKSPACES)
        )

    def snapshot(self) -> Snapshot:
        nodes = tuple(self.node_info(name) for name in self.names)
        return Snapshot(START, nodes, self.queues, tuple(self.waiting.values()), tuple(self.placed.values()))

    def node_info(self, name: str, usable: bool = True) -> NodeInfo:
        free = self.free[name]
        gpus, part = divmod(free.gpu_milli, MILLI)
        return NodeInfo(name, free.cpu_milli, free.memory_bytes, gpus, (part,) if part else (), NODE, usable)

    def submitted(self) -> PendingWorkload:
        each, replicas = distinct(self.rng) if self.different else self.rng.choice(self.shapes)
        return PendingWorkload(
            uid=self._uid("w"),
            workspace_id=self.rng.randrange(WORKSPACES),
            priority=self.rng.choice(PRIORITIES),
            submitted_at=START - self.rng.randrange(10**9),
            replicas=replicas,
            pod_request=each,
            preemptible=self.rng.random() < 0.3,
            requeued=self.rng.random() < 0.01,
            not_before=START + 10**9 if self.rng.random() < 0.02 else None,
        )

    def submit(self) -> SnapshotDelta:
        """One more waits."""
        waiting = self.submitted()
        self.waiting[waiting.uid] = waiting
        return SnapshotDelta(now=START, pending=(waiting,))

    def withdraw(self) -> SnapshotDelta:
        """One waits no longer."""
        uid = self.rng.choice(list(self.waiting))
        del self.waiting[uid]
        return SnapshotDelta(now=START, no_longer_pending=(uid,))

    def end(self) -> SnapshotDelta:
        """One that ran has ended."""
        placed = self.placed.pop(self.rng.choice(list(self.placed)))
        self._free(placed)
        nodes = tuple(self.node_info(name) for name in sorted(set(placed.nodes)))
        return SnapshotDelta(now=START, no_longer_admitted=(placed.uid,), nodes=nodes)

    def cordon(self) -> SnapshotDelta:
        """One node takes nothing new."""
        return SnapshotDelta(now=START, nodes=(self.node_info(self.rng.choice(self.names), usable=False),))

    def carry_out(self, made: Plan) -> SnapshotDelta:
        """What a plan says is done, and those who have to leave are gone at once."""
        started: list[AdmittedWorkload] = []
        back: list[PendingWorkload] = []
        touched: set[str] = set()
        for preempt in made.preemptions:
            placed = self.placed.pop(preempt.uid)
            self._free(placed)
            touched.update(placed.nodes)
            again = structs.replace(
                self.submitted(),
                uid=placed.uid,
                pod_request=placed.pod_request,
                replicas=1,
                preemptible=True,
                requeued=True,
            )
            self.waiting[again.uid] = again
            back.append(again)
        for place in made.placements:
            waiting = self.waiting.pop(place.uid)
            placed = _placed(waiting, place.nodes)
            self._hold(placed)
            started.append(placed)
            touched.update(place.nodes)
        return SnapshotDelta(
            now=START,
            pending=tuple(back),
            no_longer_pending=tuple(place.uid for place in made.placements),
            admitted=tuple(started),
            no_longer_admitted=tuple(preempt.uid for preempt in made.preemptions),
            nodes=tuple(self.node_info(name) for name in touched),
        )

    def _fill(self, gpu_milli: int) -> None:
        taken, at = 0, 0
        while taken < gpu_milli:
            asked = self.submitted()
            at = (at + 1) % len(self.names)
            if asked.pod_request.gpu_milli % MILLI or not asked.pod_request.fits_in(self.free[self.names[at]]):
                continue
            self._hold(_placed(asked, (self.names[at],)))
            taken += asked.pod_request.gpu_milli

    def _hold(self, placed: AdmittedWorkload) -> None:
        self.placed[placed.uid] = placed
        for name in placed.nodes:
            self.free[name] -= placed.pod_request

    def _free(self, placed: AdmittedWorkload) -> None:
        for name in placed.nodes:
            self.free[name] += placed.pod_request

    def _uid(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number:07d}"


def _placed(waiting: PendingWorkload, nodes: tuple[str, ...]) -> AdmittedWorkload:
    return AdmittedWorkload(
        uid=waiting.uid,
        workspace_id=waiting.workspace_id,
        priority=waiting.priority,
        admitted_at=waiting.submitted_at,
        nodes=nodes,
        pod_request=waiting.pod_request,
        preemptible=waiting.preemptible,
    )


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Milliseconds of one core, so that it does not matter what else runs on this machine."""
    gc.collect()
    begun = time.process_time()
    result = work()
    return (time.process_time() - begun) * 1000, result


def figures(nodes: int, waiting: int, different: bool) -> Iterator[str]:
    fleet = Fleet(nodes, waiting, different)
    snapshot = fleet.snapshot()
    spent, made = timed(lambda: plan(snapshot))
    shapes = "all shapes different" if different else f"{len(fleet.shapes)} shapes"
    yield f"{waiting:,} waiting, {nodes:,} nodes, {shapes}"
    yield f"  first plan: {spent:,.0f} ms; {len(made.placements):,} start, {len(made.preemptions):,} are preempted"
    yield f"  explain while they start: {explained(snapshot, made)}"
    planner, rounds = Planner(snapshot), 0
    while made.placements or made.preemptions:
        made = planner.replan(fleet.carry_out(made))
        rounds += 1
    yield f"  explain at rest, {rounds} rounds later: {explained(fleet.snapshot(), made)}"
    for kind in (fleet.submit, fleet.withdraw, fleet.end, fleet.cordon):
        each: list[float] = []
        for _ in range(CHANGES):
            change = kind()
            spent, made = timed(lambda change=change: planner.replan(change))
            each.append(spent)
            planner.update(fleet.carry_out(made))
        yield f"  one change, {kind.__name__}: {spread(each)}"


def explained(snapshot: Snapshot, made: Plan) -> str:
    """What it costs to explain one workload for each kind of reason there is."""
    one = {wait.reason.code: uid for uid, wait in made.pending.items()}
    return spread([timed(lambda uid=uid: explain(snapshot, uid, PRIORITIES))[0] for uid in one.values()])


def spread(milliseconds: list[float]) -> str:
    return f"median {statistics.median(milliseconds):.0f} ms, worst {max(milliseconds):.0f} ms"


def small() -> Iterator[str]:
    """10,000 waiting for 1,000 nodes, in time of one core"""
    for different in (False, True):
        yield from figures(1_000, 10_000, different)


def large() -> Iterator[str]:
    """100,000 waiting for 12,500 nodes, in time of one core"""
    for different in (False, True):
        yield from figures(12_500, 100_000, different)


BENCHES = [small, large]
