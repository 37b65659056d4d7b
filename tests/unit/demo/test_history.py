"""The past of the demo has every property that a real past has."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from stoker.domain.identity import Cluster, QueuePolicy, Quota, Workspace
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Phase, PodPhase
from stoker.engines.simulated.faults import Faults
from stoker.engines.simulated.machine import LARGE_GPUS, Machines, fleet_of
from stoker.server.demo.lives import Job, life_of
from stoker.server.demo.past import Occupied, Past
from stoker.server.demo.people import TEAMS, Member, World
from stoker.server.demo.rooms import Rooms
from stoker.store.past import Life

NOW = 1_790_000_000_000
DAY = 86_400_000
GPUS = 256
SEED = 3
START = NOW - 4 * DAY


def world(gpus: int = GPUS) -> World:
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
        for number, team in enumerate(TEAMS, 1)
    }
    people = {team.workspace: [Member(name, name) for name in team.people] for team in TEAMS}
    return World(Cluster("c", "demo", "simulated", "", 0), spaces, people)


MACHINES = Machines(fleet_of(GPUS), SEED)
FAULTS = Faults(MACHINES, 6.0)


def lived(occupied: tuple[Occupied, ...] = (), start: int = START) -> list[Job]:
    return Past(world(), MACHINES, FAULTS, occupied).live(start, NOW)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return lived()


@pytest.fixture(scope="module")
def lives(jobs: list[Job]) -> list[Life]:
    return [life_of(job, MACHINES, NOW) for job in jobs]


def spans(lives: list[Life]) -> Iterator[tuple[str, int, int, int]]:
    for life in lives:
        for held in life.held:
            allocation = held.allocation
            yield allocation.node, allocation.device, allocation.from_at, NOW if held.to_at is None else held.to_at


def test_the_same_seed_is_the_same_past(jobs: list[Job]) -> None:
    again = lived()
    assert [job.changes for job in again] == [job.changes for job in jobs]
    assert [[pod.place for pod in job.pods] for job in again] == [[pod.place for pod in job.pods] for job in jobs]


def test_much_happened(jobs: list[Job]) -> None:
    phases = {job.workload.phase for job in jobs}
    assert phases >= {Phase.COMPLETED, Phase.FAILED, Phase.RUNNING, Phase.STOPPED}
    ends = {end.phase for job in jobs for pod in job.pods if (end := pod.end())}
    assert ends >= {PodPhase.LOST, PodPhase.FAILED}
    assert any(job.workload.attempt > 1 for job in jobs), "somebody was tried again"


def test_most_of_the_cluster_is_held(lives: list[Life]) -> None:
    from_at = NOW - 2 * DAY
    held = sum(max(0, to - max(since, from_at)) for _, _, since, to in spans(lives))
    assert 0.6 < held / (2 * DAY * MACHINES.gpus) < 0.92


def test_no_gpu_is_held_twice_at_a_time(lives: list[Life]) -> None:
    by_gpu = defaultdict(list)
    for node, device, since, to in spans(lives):
        by_gpu[node, device].append((since, to))
    assert len(by_gpu) > GPUS / 2
    for held in by_gpu.values():
        held.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(held))


def test_pods_fit_their_nodes(jobs: list[Job]) -> None:
    moves = defaultdict(list)
    for job in jobs:
        each = job.workload.spec.resources
        for pod in job.pods:
            end = pod.end()
            moves[pod.place.node].append((pod.place.created_at, 1, each))
            moves[pod.place.node].append((NOW if end is None else end.at, 0, each))
    for name, changes in moves.items():
        room = MACHINES.nodes[MACHINES.place[name]].capacity
        used = Resources()
        for _, begins, each in sorted(changes, key=lambda change: change[:2]):
            used = used + each if begins else used - each
            assert used.fits(room)


def test_quota_is_kept_by_all_who_may_not_borrow(jobs: list[Job]) -> None:
    quotas = {name: each.quota.gpu_milli for name, each in world().workspaces.items()}
    moves = defaultdict(list)
    for job in jobs:
        for pod in job.pods:
            end = pod.end()
            gpu = job.workload.spec.resources.gpu_milli
            moves[job.workspace].append((pod.place.created_at, 1, gpu, job.workload.preemptible))
            moves[job.workspace].append((NOW if end is None else end.at, 0, -gpu, True))
    for name, changes in moves.items():
        used, quota = 0, quotas[name]
        for _, together in itertools.groupby(sorted(changes), key=lambda change: change[0]):
            moments = list(together)
            bound = sum(gpu for _, _, gpu, free in moments if not free)
            left = used + sum(gpu for _, begins, gpu, _ in moments if not begins)
            assert quota is None or not bound or left + bound <= quota
            used += sum(gpu for _, _, gpu, _ in moments)


def test_nothing_runs_on_what_is_broken(jobs: list[Job]) -> None:
    for fault in FAULTS.between(START, NOW):
        for job in jobs:
            for pod in job.pods:
                if MACHINES.place[pod.place.node] != fault.place:
                    continue
                end = pod.end()
                assert not fault.from_at < pod.place.created_at < fault.to_at
                if fault.hits(pod.place.devices) and pod.place.created_at <= fault.from_at:
                    assert end is not None
                    assert end.at <= fault.from_at


def test_a_life_is_written_as_it_was_lived(lives: list[Life]) -> None:
    for life in lives:
        words = [change.workload for change in life.changes]
        assert [each.version for each in words] == list(range(1, len(words) + 1))
        assert all(before.phase_at <= after.phase_at for before, after in itertools.pairwise(words))
        assert all(change.conditions for change in life.changes)
        last = words[-1]
        assert last.phase.ended == (last.ended_at is not None)
        assert len({pod.uid for pod in life.pods}) == len(life.pods)
        for pod in life.pods:
            assert pod.created_at >= last.submitted_at
            assert pod.phase.ended == (pod.ended_at is not None)
            assert not (last.phase.ended and not pod.phase.ended)


def test_room_for_something_large_is_left(lives: list[Life]) -> None:
    used = {node for node, *_ in spans(lives)}
    large = [node.name for node in MACHINES.nodes if len(node.devices) == LARGE_GPUS]
    assert len([name for name in large if name not in used]) >= 2


def test_a_gang_gets_gpus_of_one_model_where_one_has_room() -> None:
    rooms = Rooms(MACHINES.nodes)
    each = Resources(gpu_milli=8 * MILLI, cpu_milli=MILLI, memory_bytes=1 << 30)
    model = {node.name: node.devices[0].model for node in MACHINES.nodes}
    gangs = 0
    while seats := rooms.seats(each, 3):
        free = Counter(model[name] for name, gpus in rooms.free_gpus().items() for _ in range(gpus // 8))
        assert len({model[name] for name, _ in seats}) == 1 or max(free.values()) < 3
        rooms.take(seats, each)
        gangs += 1
    assert gangs == GPUS // 8 // 3


def test_who_was_there_before_keeps_its_place() -> None:
    start = NOW - DAY // 4
    node = MACHINES.nodes[0]
    whole = tuple(range(8))
    for until in (None, start + 3_600_000):
        there = Occupied((node.name, whole), node.capacity, "speech", until)
        taken = [pod.place for job in lived((there,), start) for pod in job.pods if pod.place.node == node.name]
        assert all(until is not None and place.created_at >= until for place in taken)
