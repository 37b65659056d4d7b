"""A plan after changes is the plan from scratch, and an old plan stays what it was."""

from hypothesis import given
from hypothesis import strategies as st
from tests.property.scheduler.cluster_model import NOW, ClusterModel, any_worlds

from stoker.scheduler import Planner, SnapshotDelta, diff, plan
from stoker.scheduler.model import Snapshot

series = st.lists(st.tuples(any_worlds, st.integers(0, 3)), min_size=2, max_size=4)


def snapshots(worlds: list[tuple[ClusterModel, int]]) -> list[Snapshot]:
    """The same cluster at different times: what has the same name is the same thing, changed."""
    taken, now = [], NOW
    for world, later in worlds:
        now += later
        world.now = now
        taken.append(world.snapshot())
    return taken


@given(series)
def test_replanning_after_any_change_gives_the_plan_from_scratch(worlds: list[tuple[ClusterModel, int]]) -> None:
    first, *others = snapshots(worlds)
    planner, before = Planner(first), first
    for after in others:
        assert planner.replan(diff(before, after)) == plan(after)
        before = after


@given(series)
def test_an_old_plan_does_not_change_when_the_planner_goes_on(worlds: list[tuple[ClusterModel, int]]) -> None:
    first, second, *_ = snapshots(worlds)
    planner = Planner(first)
    old = planner.plan()
    planner.replan(diff(first, second))
    assert old == plan(first)


@given(any_worlds)
def test_taking_one_thing_away_and_bringing_it_back_leaves_no_trace(world: ClusterModel) -> None:
    snapshot = world.snapshot()
    planner = Planner(snapshot)
    for each in snapshot.pending:
        planner.update(SnapshotDelta(now=NOW, no_longer_pending=(each.uid,)))
        planner.update(SnapshotDelta(now=NOW, pending=(each,)))
    for placed in snapshot.admitted:
        planner.update(SnapshotDelta(now=NOW, no_longer_admitted=(placed.uid,)))
        planner.update(SnapshotDelta(now=NOW, admitted=(placed,)))
    for node in snapshot.nodes:
        planner.update(SnapshotDelta(now=NOW, removed_nodes=(node.name,)))
        planner.update(SnapshotDelta(now=NOW, nodes=(node,)))
    for queue in snapshot.queues:
        planner.update(SnapshotDelta(now=NOW, removed_queues=(queue.workspace_id,)))
        planner.update(SnapshotDelta(now=NOW, queues=(queue,)))
    assert planner.plan() == plan(snapshot)


@given(any_worlds)
def test_the_same_snapshot_makes_no_difference(world: ClusterModel) -> None:
    assert diff(world.snapshot(), world.snapshot()) == SnapshotDelta(now=NOW)
