"""The past of the demo has every property that a real past has."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from stoker.demo.history import ExternalAllocation, HistorySimulation
from stoker.demo.packing import NodePacker
from stoker.demo.records import HistoricalWorkload, to_workload_history
from stoker.demo.tenants import TENANTS, DemoTenants, TenantUser
from stoker.domain.access.identity import Cluster, QueuePolicy, Quota, Workspace
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.engines.simulated.fleet.faults import FaultSchedule
from stoker.engines.simulated.fleet.nodes import LARGE_NODE_GPUS, SimulatedFleet, build_machine_groups
from stoker.store.workloads.backfill import WorkloadHistory

NOW = 1_790_000_000_000
DAY = 86_400_000
GPUS = 256
SEED = 3
START = NOW - 4 * DAY


def world(gpus: int = GPUS) -> DemoTenants:
    spaces = {
        team.workspace: Workspace(
            id=number,
            name=team.workspace,
            description="",
            department_id=1,
            department=team.department,
            cluster_id="c",
            cluster="demo",
            namespace=team.workspace,
            quota=Quota(gpu_milli=max(16, round(gpus * team.share)) * MILLI if team.share else None),
            queue_policy=QueuePolicy.BALANCE,
            preemption=True,
            created_at=0,
            updated_at=0,
            version=1,
        )
        for number, team in enumerate(TENANTS, 1)
    }
    people = {team.workspace: [TenantUser(name, name) for name in team.users] for team in TENANTS}
    return DemoTenants(Cluster("c", "demo", "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES), spaces, people)


MACHINES = SimulatedFleet(build_machine_groups(GPUS), SEED)
FAULTS = FaultSchedule(MACHINES, 6.0)


def lived(occupied: tuple[ExternalAllocation, ...] = (), start: int = START) -> list[HistoricalWorkload]:
    return HistorySimulation(world(), MACHINES, FAULTS, occupied).run(start, NOW)


@pytest.fixture(scope="module")
def jobs() -> list[HistoricalWorkload]:
    return lived()


@pytest.fixture(scope="module")
def lives(jobs: list[HistoricalWorkload]) -> list[WorkloadHistory]:
    return [to_workload_history(job, MACHINES, NOW) for job in jobs]


def spans(lives: list[WorkloadHistory]) -> Iterator[tuple[str, int, int, int]]:
    for life in lives:
        for held in life.allocations:
            allocation = held.allocation
            assert allocation.device is not None
            yield allocation.node, allocation.device, allocation.from_at, NOW if held.to_at is None else held.to_at


def test_the_same_seed_is_the_same_past(jobs: list[HistoricalWorkload]) -> None:
    again = lived()
    assert [job.transitions for job in again] == [job.transitions for job in jobs]
    assert [[pod.plan for pod in job.pods] for job in again] == [[pod.plan for pod in job.pods] for job in jobs]


def test_much_happened(jobs: list[HistoricalWorkload]) -> None:
    phases = {job.workload.phase for job in jobs}
    assert phases >= {Phase.COMPLETED, Phase.FAILED, Phase.RUNNING, Phase.STOPPED}
    ends = {end.phase for job in jobs for pod in job.pods if (end := pod.termination())}
    assert ends >= {PodPhase.LOST, PodPhase.FAILED}
    assert any(job.workload.attempt > 1 for job in jobs), "somebody was tried again"


def test_most_of_the_cluster_is_held(lives: list[WorkloadHistory]) -> None:
    from_at = NOW - 2 * DAY
    held = sum(max(0, to - max(since, from_at)) for _, _, since, to in spans(lives))
    assert 0.6 < held / (2 * DAY * MACHINES.gpu_count) < 0.92


def test_no_gpu_is_held_twice_at_a_time(lives: list[WorkloadHistory]) -> None:
    by_gpu = defaultdict(list)
    for node, device, since, to in spans(lives):
        by_gpu[node, device].append((since, to))
    assert len(by_gpu) > GPUS / 2
    for held in by_gpu.values():
        held.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(held))


def test_pods_fit_their_nodes(jobs: list[HistoricalWorkload]) -> None:
    moves = defaultdict(list)
    for job in jobs:
        each = job.workload.spec.resources
        for pod in job.pods:
            end = pod.termination()
            moves[pod.plan.node].append((pod.plan.created_at, 1, each))
            moves[pod.plan.node].append((NOW if end is None else end.at, 0, each))
    for name, changes in moves.items():
        room = MACHINES.nodes[MACHINES.node_index[name]].capacity
        used = Resources()
        for _, begins, each in sorted(changes, key=lambda change: change[:2]):
            used = used + each if begins else used - each
            assert used.fits_in(room)


def test_quota_is_kept_by_all_who_may_not_borrow(jobs: list[HistoricalWorkload]) -> None:
    quotas = {name: each.quota.gpu_milli for name, each in world().workspaces.items()}
    moves = defaultdict(list)
    for job in jobs:
        for pod in job.pods:
            end = pod.termination()
            gpu = job.workload.spec.resources.gpu_milli
            moves[job.workspace].append((pod.plan.created_at, 1, gpu, job.workload.preemptible))
            moves[job.workspace].append((NOW if end is None else end.at, 0, -gpu, True))
    for name, changes in moves.items():
        used, quota = 0, quotas[name]
        for _, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
            moments = list(together)
            bound = sum(gpu for _, _, gpu, free in moments if not free)
            left = used + sum(gpu for _, begins, gpu, _ in moments if not begins)
            assert quota is None or not bound or left + bound <= quota
            used += sum(gpu for _, _, gpu, _ in moments)


def test_nothing_runs_on_what_is_broken(jobs: list[HistoricalWorkload]) -> None:
    for fault in FAULTS.starting_between(START, NOW):
        for job in jobs:
            for pod in job.pods:
                if MACHINES.node_index[pod.plan.node] != fault.node_index:
                    continue
                end = pod.termination()
                assert not fault.from_at < pod.plan.created_at < fault.to_at
                if fault.affects(pod.plan.devices) and pod.plan.created_at <= fault.from_at:
                    assert end is not None
                    assert end.at <= fault.from_at


def test_a_life_is_written_as_it_was_lived(lives: list[WorkloadHistory]) -> None:
    for life in lives:
        words = [change.workload for change in life.transitions]
        assert [each.version for each in words] == list(range(1, len(words) + 1))
        assert all(before.phase_at <= after.phase_at for before, after in itertools.pairwise(words))
        assert all(change.conditions for change in life.transitions)
        last = words[-1]
        assert last.phase.is_finished == (last.ended_at is not None)
        assert len({pod.uid for pod in life.pods}) == len(life.pods)
        for pod in life.pods:
            assert pod.created_at >= last.submitted_at
            assert pod.phase.is_finished == (pod.ended_at is not None)
            assert not (last.phase.is_finished and not pod.phase.is_finished)


def test_capacity_for_something_large_is_left(lives: list[WorkloadHistory]) -> None:
    used = {node for node, *_ in spans(lives)}
    large = [node.name for node in MACHINES.nodes if len(node.devices) == LARGE_NODE_GPUS]
    assert len([name for name in large if name not in used]) >= 2


def test_a_gang_gets_gpus_of_one_model_where_one_has_capacity() -> None:
    rooms = NodePacker(MACHINES.nodes)
    each = Resources(gpu_milli=8 * MILLI, cpu_milli=MILLI, memory_bytes=1 << 30)
    model = {node.name: node.devices[0].model for node in MACHINES.nodes}
    gangs = 0
    while seats := rooms.find_slots(each, 3):
        free = Counter(model[name] for name, gpus in rooms.free_gpus().items() for _ in range(gpus // 8))
        assert len({model[name] for name, _ in seats}) == 1 or max(free.values()) < 3
        rooms.allocate(seats, each)
        gangs += 1
    assert gangs == GPUS // 8 // 3


def test_who_was_there_before_keeps_its_place() -> None:
    start = NOW - DAY // 4
    node = MACHINES.nodes[0]
    whole = tuple(range(8))
    for until in (None, start + 3_600_000):
        there = ExternalAllocation((node.name, whole), node.capacity, "speech", until)
        taken = [pod.plan for job in lived((there,), start) for pod in job.pods if pod.plan.node == node.name]
        assert all(until is not None and place.created_at >= until for place in taken)
