from msgspec import structs
from tests.unit.scheduler.harness import NOW, cluster, job, node, places, reasons, running, team

from stoker.scheduler import Planner, SnapshotDelta, diff, plan
from stoker.scheduler.explain.reasons import StartTimeNotReached


def test_a_workload_that_ends_lets_the_next_one_start() -> None:
    planner = Planner(cluster([node("a", 0)], [job("x", gpus=8)], [running("r", "a", gpus=8)]))
    assert not planner.plan().placements
    made = planner.replan(SnapshotDelta(now=NOW, no_longer_admitted=("r",), nodes=(node("a", 8),)))
    assert places(made) == {"x": ("a",)}


def test_a_start_time_comes_by_itself() -> None:
    planner = Planner(cluster([node("a")], [job("x", not_before=NOW + 5)]))
    assert reasons(planner.plan()) == {"x": StartTimeNotReached(NOW + 5)}
    assert not planner.replan(SnapshotDelta(now=NOW + 4)).placements
    assert places(planner.replan(SnapshotDelta(now=NOW + 5))) == {"x": ("a",)}


def test_a_plan_is_not_changed_by_what_comes_after_it() -> None:
    planner = Planner(cluster([node("a", 0)], [job("x"), job("y", submitted_at=NOW + 1)]))
    old = planner.plan()
    planner.replan(SnapshotDelta(now=NOW, no_longer_pending=("x",), nodes=(node("a", 8),)))
    assert {uid: wait.position for uid, wait in old.pending.items()} == {"x": 1, "y": 2}
    assert old.pending["x"].reason.code == "no_room"


def test_a_workload_that_moves_to_another_workspace_leaves_its_old_queue() -> None:
    planner = Planner(cluster([node("a", 0)], [job("x")], queues=[team(1), team(2)]))
    made = planner.replan(SnapshotDelta(now=NOW, pending=(job("x", workspace_id=2),)))
    assert list(made.pending) == ["x"]
    assert made.pending["x"].position == 1


def test_a_queue_that_turns_preemption_off_is_ordered_anew() -> None:
    waiting = [job("low", priority=50, preemptible=True, requeued=True), job("high", priority=150)]
    planner = Planner(cluster([node("a", 1)], waiting))
    assert places(planner.plan()) == {"high": ("a",)}
    assert places(planner.replan(SnapshotDelta(now=NOW, queues=(team(preemption=False),)))) == {"low": ("a",)}


def test_what_is_the_same_in_two_snapshots_is_not_in_their_difference() -> None:
    before = cluster([node("a"), node("b")], [job("x"), job("y")], [running("r", "a")])
    after = structs.replace(before, now=NOW + 1, nodes=before.nodes[:1], pending=(job("y"), job("z")), admitted=())
    assert diff(before, after) == SnapshotDelta(
        now=NOW + 1, pending=(job("z"),), no_longer_pending=("x",), no_longer_admitted=("r",), removed_nodes=("b",)
    )


def test_an_empty_cluster_is_planned_too() -> None:
    assert reasons(plan(cluster([], [job("x")])))["x"].message() == (
        "Needs 1 GPU; there is no schedulable node in its node pools."
    )
