"""Counts equal the workloads and allocations that exist, after any sequence of changes."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs
from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.resources import Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload import events
from stoker.domain.workload.events import LifecycleEvent
from stoker.domain.workload.lifecycle import submit_transition, transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.store.cluster import clusters
from stoker.store.db.base import Row, Store, Transaction
from stoker.store.workloads import allocations, counts, pods, rows, transitions

KEPT = """
SELECT visibility, cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, node_pools,
    SUM(workloads)
FROM workload_count
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
HAVING SUM(workloads) <> 0
"""
THERE = """
SELECT CASE WHEN deleted_at IS NULL THEN 0 WHEN phase = 'Deleting' THEN 1 ELSE 2 END,
    cluster_id, namespace, kind, phase, workspace_id, user_name, user_id, priority, node_pools, COUNT(*)
FROM workload
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""
USED = "SELECT workload_uid, allocated_milli FROM workload_allocation"
HELD = "SELECT workload_uid, SUM(gpu_milli) FROM allocation WHERE to_at IS NULL GROUP BY workload_uid"
EVENTS: tuple[LifecycleEvent, ...] = (
    events.Dispatched(2, ("fast",)),
    events.Dispatched(2),
    events.PodsReady(3),
    events.PodsFinished(4, True, "over", True),
    events.PodsLost(4, "lost", False),
    events.PodsTerminated(5),
    events.StopRequested(5, "zhang"),
    events.DeleteRequested(6, "zhang"),
    events.ResumeRequested(7, "zhang"),
    events.SpecChanged(7, "zhang", Spec(node_pools=("spare", "fast"))),
)


class UndoneError(Exception):
    """A change that thought better of it."""


class RandomStep(Struct, frozen=True):
    """Workloads that are made, workloads that something happens to, and whether it is then undone."""

    made: Sequence[tuple[Kind, int, str]]
    moved: Sequence[tuple[int, LifecycleEvent]]
    held: Sequence[tuple[int, int]]
    freed: Sequence[int]
    priority: int | None
    undone: bool


steps = st.builds(
    RandomStep,
    made=st.lists(st.tuples(st.sampled_from(Kind), st.integers(0, 2), st.sampled_from(["li", "zhang"])), max_size=4),
    moved=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(EVENTS)), max_size=6),
    held=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=2),
    freed=st.lists(st.integers(0, 40), max_size=2),
    priority=st.none() | st.integers(0, 2),
    undone=st.booleans(),
)


def workload_of(kind: Kind = Kind.JOB, priority: int = 1, user: str = "li") -> Workload:
    uid = new_uuid4()
    return Workload(
        uid=uid,
        slug=f"job-{uid}",
        name="job",
        kind=kind,
        cluster_id="here",
        workspace_id=1,
        namespace="default",
        user_id=user,
        user_name=user,
        origin_api="management",
        priority=priority,
        spec=Spec(),
        submitted_at=1,
        phase_at=1,
    )


def pod_of(workload: Workload, devices: int) -> Pod:
    return Pod(
        uid=new_uuid4(),
        workload_uid=workload.uid,
        name="pod",
        attempt=1,
        revision=1,
        rank=0,
        node="node-001",
        resources=Resources(1000 * devices, 0, 0),
        devices=tuple(range(devices)),
        phase=PodPhase.RUNNING,
        created_at=1,
    )


def take(transaction: Transaction, step: RandomStep) -> None:
    known = [row[0] for row in transaction.fetch_all("SELECT uid FROM workload ORDER BY uid DESC LIMIT 40")]
    for kind, priority, user in step.made:
        transitions.add(transaction, submit_transition(workload_of(kind, priority, user)))
    found = rows.by_uid(transaction, known)
    chosen = {known[place % len(known)]: event for place, event in step.moved if known}
    changes = [(found[uid], change) for uid, event in chosen.items() if (change := transition(found[uid], event))]
    transitions.apply_all(transaction, changes)
    if known and step.priority is not None:
        before = rows.find(transaction, known[0])
        assert before is not None
        after = structs.replace(before, priority=step.priority, version=before.version + 1)
        transitions.apply(transaction, before, Transition(after, ()))
    for place, devices in step.held if known else ():
        pod = pod_of(found[known[place % len(known)]], devices)
        pods.add(transaction, "here", [pod])
        allocated = [
            allocations.Allocation(pod.uid, d, pod.workload_uid, pod.node, "MI300X", 500, 1, slot=d)
            for d in pod.devices
        ]
        allocations.allocate(transaction, "here", allocated)
    holding = sorted(pods.unreleased(transaction, "here"), key=lambda pod: pod.uid)
    freed = [holding[place % len(holding)] for place in step.freed if holding]
    allocations.release(transaction, [structs.replace(pod, ended_at=9) for pod in freed])
    if step.undone:
        raise UndoneError


def differences(transaction: Transaction) -> set[Row]:
    """What is kept of one and not of the other."""
    differing = set(transaction.fetch_all(KEPT)) ^ set(transaction.fetch_all(THERE))
    return differing | (set(transaction.fetch_all(USED)) ^ set(transaction.fetch_all(HELD)))


@pytest.fixture
def fleet(store: Store, loop_run: LoopRun) -> Store:
    loop_run(store.write(lambda tx: clusters.add(tx, Cluster("here", "here", "local", "", 1))))
    return store


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(life=st.lists(steps, min_size=1, max_size=6), folded=st.booleans())
def test_counts_and_holdings_are_those_of_the_rows_themselves(
    fleet: Store, loop_run: LoopRun, life: list[RandomStep], folded: bool
) -> None:
    for step in life:
        if step.undone:
            with pytest.raises(UndoneError):
                loop_run(fleet.write(lambda tx, step=step: take(tx, step)))
        else:
            loop_run(fleet.write(lambda tx, step=step: take(tx, step)))
        assert loop_run(fleet.read(differences)) == set()
    if folded:
        loop_run(fleet.write(counts.compact))
        assert loop_run(fleet.read(differences)) == set()


def test_many_who_write_at_once_lose_nothing_and_wait_for_no_ring_of_others(fleet: Store, loop_run: LoopRun) -> None:
    async def one(number: int) -> None:
        """Makes two of different kinds, in an order that others turn round, and stops one of them."""
        kinds = (Kind.JOB, Kind.DEPLOYMENT) if number % 2 else (Kind.DEPLOYMENT, Kind.JOB)
        made = [workload_of(kind) for kind in kinds]

        def change(transaction: Transaction) -> None:
            for each in made:
                transitions.add(transaction, submit_transition(each))

        def stop(transaction: Transaction) -> None:
            before = rows.find(transaction, made[0].uid)
            assert before is not None
            stopped = transition(before, events.StopRequested(2, "li"))
            assert stopped is not None
            transitions.apply(transaction, before, stopped)

        await fleet.write(change)
        await fleet.write(stop)

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(40)), fleet.write(counts.compact))

    loop_run(main())
    assert loop_run(fleet.read(differences)) == set()
    assert loop_run(fleet.read(lambda tx: tx.fetch_one("SELECT COUNT(*) FROM workload"))) == (80,)


def test_folding_leaves_one_row_for_what_is_alike_and_none_for_nothing(fleet: Store, loop_run: LoopRun) -> None:
    workload = workload_of()

    def life(transaction: Transaction) -> None:
        transitions.add(transaction, submit_transition(workload))
        placed = transition(workload, events.Dispatched(2))
        assert placed is not None
        transitions.apply(transaction, workload, placed)
        transaction.execute(
            "UPDATE workload_count SET shard = shard + 1, workloads = workloads + 1 WHERE workloads = 1"
        )
        transaction.execute(
            counts.ADD_TO_COUNT,
            {
                **dict(zip(counts.GROUP_COLUMNS, counts.group_key(placed.workload), strict=True)),
                "shard": 0,
                "workloads": -1,
            },
        )

    loop_run(fleet.write(life))
    assert loop_run(fleet.write(counts.compact)) == 2
    assert loop_run(fleet.read(lambda tx: tx.fetch_all("SELECT phase, shard, workloads FROM workload_count"))) == [
        ("Initializing", 0, 1)
    ]
    assert loop_run(fleet.write(counts.compact)) == 0
