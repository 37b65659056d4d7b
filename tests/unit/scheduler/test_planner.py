from msgspec import structs
from tests.unit.scheduler.lab import NOW, cluster, job, node, places, reasons, running, team

from stoker.scheduler import Change, Planner, difference, plan
from stoker.scheduler.reasons import NotYet


def test_a_workload_that_ends_lets_the_next_one_start() -> None:
    planner = Planner(cluster([node("a", 0)], [job("x", gpus=8)], [running("r", "a", gpus=8)]))
    assert not planner.plan().placements
    made = planner.replan(Change(now=NOW, not_placed=("r",), nodes=(node("a", 8),)))
    assert places(made) == {"x": ("a",)}


def test_a_start_time_comes_by_itself() -> None:
    planner = Planner(cluster([node("a")], [job("x", not_before=NOW + 5)]))
    assert reasons(planner.plan()) == {"x": NotYet(NOW + 5)}
    assert not planner.replan(Change(now=NOW + 4)).placements
    assert places(planner.replan(Change(now=NOW + 5))) == {"x": ("a",)}


def test_a_plan_is_not_changed_by_what_comes_after_it() -> None:
    planner = Planner(cluster([node("a", 0)], [job("x"), job("y", submitted_at=NOW + 1)]))
    old = planner.plan()
    planner.replan(Change(now=NOW, not_waiting=("x",), nodes=(node("a", 8),)))
    assert {uid: wait.order for uid, wait in old.waits.items()} == {"x": 1, "y": 2}
    assert old.waits["x"].reason.code == "no_room"


def test_a_workload_that_moves_to_another_workspace_leaves_its_old_queue() -> None:
    planner = Planner(cluster([node("a", 0)], [job("x")], queues=[team(1), team(2)]))
    made = planner.replan(Change(now=NOW, waiting=(job("x", workspace_id=2),)))
    assert list(made.waits) == ["x"]
    assert made.waits["x"].order == 1


def test_a_queue_that_turns_preemption_off_is_ordered_anew() -> None:
    waiting = [job("low", priority=50, preemptible=True, requeued=True), job("high", priority=150)]
    planner = Planner(cluster([node("a", 1)], waiting))
    assert places(planner.plan()) == {"high": ("a",)}
    assert places(planner.replan(Change(now=NOW, queues=(team(preemption=False),)))) == {"low": ("a",)}


def test_what_is_the_same_in_two_snapshots_is_not_in_their_difference() -> None:
    before = cluster([node("a"), node("b")], [job("x"), job("y")], [running("r", "a")])
    after = structs.replace(before, now=NOW + 1, nodes=before.nodes[:1], waiting=(job("y"), job("z")), placed=())
    assert difference(before, after) == Change(
        now=NOW + 1, waiting=(job("z"),), not_waiting=("x",), not_placed=("r",), lost_nodes=("b",)
    )


def test_an_empty_cluster_is_planned_too() -> None:
    assert reasons(plan(cluster([], [job("x")])))["x"].sentence() == (
        "Needs 1 GPU; there is no usable node in its pools."
    )
