from msgspec import structs
from tests.unit.scheduler.harness import NOW, amount, cluster, job, node, places, running, team

from stoker.domain.access.identity import QueuePolicy
from stoker.scheduler import Placement, Planner, Preemption, SnapshotDelta, explain, plan
from stoker.scheduler.explain.blockers import Blocker, BlockerKind
from stoker.scheduler.model import Snapshot

LATER = NOW + 60_000
QUEUES = (team(1, gpus=8), team(2, gpus=0, guaranteed_seconds=60, policy=QueuePolicy.BALANCE))


def borrowed(until: int | None) -> Snapshot:
    """A node that is full of what borrows, and its owner at the door."""
    taken = running("guest", "a", gpus=8, workspace_id=2, preemptible=True, guaranteed_until=until)
    return cluster([node("a", 0)], [job("owner", gpus=8)], [taken], QUEUES)


def test_the_owner_of_quota_waits_until_a_guarantee_ends_and_is_told_until_when() -> None:
    planner = Planner(borrowed(LATER))
    assert planner.plan().preemptions == ()
    assert planner.next_event_at == LATER
    told = explain(borrowed(LATER), "owner")
    assert told.blockers == (Blocker("guest", BlockerKind.ALLOCATED, amount(8), LATER),)
    assert planner.replan(SnapshotDelta(now=LATER - 1)).preemptions == ()
    assert planner.replan(SnapshotDelta(now=LATER)).preemptions == (Preemption("guest", "owner"),)
    assert planner.next_event_at is None


def test_a_higher_priority_of_its_own_workspace_waits_too() -> None:
    mine = running("low", "a", gpus=8, preemptible=True, guaranteed_until=LATER)
    snapshot = cluster([node("a", 0)], [job("high", gpus=8, priority=150)], [mine])
    assert plan(snapshot).preemptions == ()
    assert plan(structs.replace(snapshot, now=LATER)).preemptions == (Preemption("low", "high"),)


def test_a_clock_that_is_set_back_brings_a_guarantee_back() -> None:
    planner = Planner(structs.replace(borrowed(LATER), now=LATER))
    assert planner.plan().preemptions == (Preemption("guest", "owner"),)
    assert planner.replan(SnapshotDelta(now=NOW)).preemptions == ()
    assert planner.next_event_at == LATER


def test_what_is_not_preemptible_is_not_said_to_be_guaranteed() -> None:
    taken = running("guest", "a", gpus=8)
    told = explain(cluster([node("a", 0)], [job("owner", gpus=8)], [taken]), "owner")
    assert told.blockers == (Blocker("guest", BlockerKind.ALLOCATED, amount(8)),)


def test_what_is_preemptible_is_promised_its_place_when_it_is_given_one() -> None:
    waiting = [job("guest", workspace_id=2, preemptible=True), job("other", preemptible=True)]
    placed = plan(cluster([node("a", 8)], waiting, (), QUEUES)).placements
    assert set(placed) == {Placement("guest", ("a",), LATER), Placement("other", ("a",))}


def test_nobody_is_promised_borrowed_capacity_for_which_one_that_is_owed_it_waits() -> None:
    """So that those who come one after the other cannot keep its owner out for ever."""
    first = running("first", "a", gpus=4, workspace_id=2, preemptible=True, guaranteed_until=LATER)
    guest = job("guest", gpus=4, workspace_id=2, preemptible=True)
    snapshot = cluster([node("a", 4)], [job("owner", gpus=8), guest], [first], QUEUES)
    assert plan(snapshot).placements == (Placement("guest", ("a",)),)
    elsewhere = structs.replace(guest, node_pools=("spare",))
    two = [node("a", 4), node("b", 8, pool="spare")]
    apart = cluster(two, [job("owner", gpus=8), elsewhere], [first], QUEUES)
    assert plan(apart).placements == (Placement("guest", ("b",), LATER),)
    named = cluster(two, [job("owner", gpus=8, specified_nodes=("a",)), elsewhere], [first], QUEUES)
    assert plan(named).placements == (Placement("guest", ("b",), LATER),)


def test_an_owner_waits_no_longer_than_the_guarantees_that_it_found() -> None:
    first = running("first", "a", gpus=4, workspace_id=2, preemptible=True, guaranteed_until=LATER)
    second = running("second", "a", gpus=4, workspace_id=2, preemptible=True)
    snapshot = cluster([node("a", 0)], [job("owner", gpus=8)], [first, second], QUEUES)
    assert plan(snapshot).preemptions == ()
    then = plan(structs.replace(snapshot, now=LATER))
    assert {each.uid for each in then.preemptions} == {"first", "second"}
    assert places(then) == {}
