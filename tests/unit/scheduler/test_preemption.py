from msgspec import structs
from tests.unit.scheduler.harness import NOW, cluster, job, node, places, reasons, running, team, victims

from stoker.domain.access.identity import QueuePolicy
from stoker.scheduler import plan
from stoker.scheduler.explain.reasons import OverQuota, Preempting, ResourceName

FULL = [node("a", gpus=0)]


def test_a_workload_never_takes_its_workspace_over_the_quota() -> None:
    made = plan(cluster([node("a", 6)], [job("x", gpus=4)], [running("r", "a", gpus=2)], [team(gpus=5)]))
    assert reasons(made) == {"x": OverQuota(ResourceName.GPU, 4000, 2000, 5000)}
    assert reasons(made)["x"].message() == "Needs 4 GPUs; the workspace uses 2 of its quota of 5 GPUs."


def test_a_preemptible_workload_borrows_what_lies_idle() -> None:
    made = plan(cluster([node("a", 6)], [job("x", gpus=4, preemptible=True)], queues=[team(gpus=0)]))
    assert places(made) == {"x": ("a",)}


def test_borrowing_gpus_does_not_stop_a_cpu_job() -> None:
    placed = [running("r", "a", gpus=4, preemptible=True)]
    made = plan(cluster([node("a", 4)], [job("x", gpus=0)], placed, [team(gpus=2)]))
    assert places(made) == {"x": ("a",)}


def test_the_owner_takes_back_what_was_borrowed() -> None:
    placed = [running("borrower", "a", gpus=8, workspace_id=2, priority=150, preemptible=True)]
    made = plan(cluster(FULL, [job("owner", gpus=8, priority=50)], placed, [team(1, gpus=8), team(2, gpus=0)]))
    assert victims(made) == {"borrower": "owner"}
    assert reasons(made) == {"owner": Preempting(("borrower",))}


def test_what_is_inside_its_quota_is_left_alone() -> None:
    placed = [running("other", "a", gpus=8, workspace_id=2, preemptible=True)]
    made = plan(cluster(FULL, [job("x", gpus=8)], placed, [team(1, gpus=8), team(2, gpus=8)]))
    assert not made.preemptions


def test_what_is_not_preemptible_is_left_alone() -> None:
    placed = [running("other", "a", gpus=8, workspace_id=2)]
    made = plan(cluster(FULL, [job("x", gpus=8)], placed, [team(1, gpus=8), team(2, gpus=0)]))
    assert not made.preemptions


def test_who_is_over_its_own_quota_preempts_nobody() -> None:
    placed = [running("borrower", "a", gpus=8, workspace_id=2, preemptible=True)]
    waiting = [job("x", gpus=8, preemptible=True)]
    made = plan(cluster(FULL, waiting, placed, [team(1, gpus=4), team(2, gpus=0)]))
    assert not made.preemptions


def test_in_its_own_workspace_a_workload_preempts_lower_priorities_only() -> None:
    placed = [
        running("same", "a", gpus=4, preemptible=True),
        running("low", "a", gpus=4, priority=50, preemptible=True),
    ]
    assert victims(plan(cluster(FULL, [job("x", gpus=4)], placed))) == {"low": "x"}
    assert not plan(cluster(FULL, [job("x", gpus=8)], placed)).preemptions


def test_a_workspace_without_preemption_keeps_its_own() -> None:
    placed = [running("low", "a", gpus=4, priority=50, preemptible=True)]
    made = plan(cluster(FULL, [job("x", gpus=4)], placed, [team(preemption=False)]))
    assert not made.preemptions


def test_a_higher_priority_may_use_the_quota_of_a_lower_one() -> None:
    placed = [running("low", "a", gpus=4, priority=50, preemptible=True)]
    made = plan(cluster([node("a", 4)], [job("x", gpus=4)], placed, [team(gpus=4)]))
    assert victims(made) == {"low": "x"}


def test_the_lowest_priority_goes_first_then_the_newest_then_the_smallest() -> None:
    placed = [
        running("old", "a", priority=10, admitted_at=NOW - 9, preemptible=True),
        running("new", "a", priority=10, admitted_at=NOW - 1, preemptible=True),
        running("other", "a", priority=20, admitted_at=NOW, preemptible=True),
    ]
    assert victims(plan(cluster(FULL, [job("x")], placed))) == {"new": "x"}
    same = [
        running("large", "a", gpus=2, priority=10, preemptible=True),
        running("small", "a", gpus=1, priority=10, preemptible=True),
    ]
    assert victims(plan(cluster(FULL, [job("x")], same))) == {"small": "x"}


def test_nobody_leaves_needlessly() -> None:
    nodes = [node("a", 0), node("b", 0)]
    placed = [
        running("first", "a", gpus=2, priority=10, preemptible=True),
        running("second", "b", gpus=4, priority=20, preemptible=True),
    ]
    assert victims(plan(cluster(nodes, [job("x", gpus=4)], placed))) == {"second": "x"}


def test_nobody_leaves_when_those_who_leave_already_are_enough() -> None:
    nodes = [node("a", 0), node("b", 0)]
    placed = [
        running("going", "a", gpus=4, is_terminating=True),
        running("low", "b", gpus=4, priority=10, preemptible=True),
    ]
    made = plan(cluster(nodes, [job("x", gpus=4)], placed))
    assert not made.preemptions
    assert reasons(made) == {"x": Preempting(("going",))}
    assert reasons(made)["x"].message({"going": "demo"}) == "Capacity is being freed: waits for demo to terminate."


def test_capacity_that_is_kept_for_one_is_not_given_to_another() -> None:
    placed = [running("going", "a", gpus=4, is_terminating=True)]
    waiting = [job("big", gpus=8, workspace_id=1), job("small", gpus=1, workspace_id=2, submitted_at=NOW + 1)]
    queues = [team(1, gpus=8), team(2, gpus=10)]
    held = [running("other", "b", gpus=8, workspace_id=2)]
    made = plan(cluster([node("a", 4), node("b", 0)], waiting, [*placed, *held], queues))
    assert not made.placements
    assert reasons(made)["big"] == Preempting(("going",))


def test_what_was_preempted_does_not_come_back_before_its_owner_has_started() -> None:
    borrower = job("borrower", gpus=8, workspace_id=2, preemptible=True, requeued=True, submitted_at=0)
    owner = job("owner", gpus=8)
    made = plan(cluster([node("a", 8)], [borrower, owner], queues=[team(1, gpus=8), team(2, gpus=0)]))
    assert places(made) == {"owner": ("a",)}


def test_a_part_of_a_gpu_that_leaves_makes_the_device_whole_again() -> None:
    shared = node("a", 0, shared_free_milli=(500,), shared_devices=(3,))
    placed = [running("half", "a", gpus=0.5, priority=10, preemptible=True, devices=(3,))]
    assert victims(plan(cluster([shared], [job("x")], placed))) == {"half": "x"}
    unknown = [structs.replace(placed[0], devices=())]
    assert not plan(cluster([shared], [job("x")], unknown)).preemptions


def test_under_balance_several_are_promised_capacity_at_once() -> None:
    placed = [running(f"low-{number}", "a", gpus=2, priority=10, preemptible=True) for number in range(4)]
    waiting = [job("x", gpus=4), job("y", gpus=4)]
    made = plan(cluster(FULL, waiting, placed, [team(policy=QueuePolicy.BALANCE)]))
    assert sorted(victims(made).values()) == ["x", "x", "y", "y"]


def test_a_workload_does_not_preempt_its_own_pods() -> None:
    placed = [running("x", "a", gpus=4, priority=10, preemptible=True)]
    assert not plan(cluster(FULL, [job("x", gpus=4)], placed)).preemptions


def test_nothing_borrows_in_a_workspace_that_owes_somebody_its_quota() -> None:
    placed = [running("going", "a", gpus=2, is_terminating=True)]
    waiting = [job("x", gpus=2), job("y", gpus=2, preemptible=True, submitted_at=NOW + 1)]
    made = plan(cluster([node("a", 6)], waiting, placed, [team(gpus=3, policy=QueuePolicy.BALANCE)]))
    assert not made.placements
    assert reasons(made) == {"x": Preempting(("going",)), "y": OverQuota(ResourceName.GPU, 2000, 4000, 3000)}


def test_when_a_single_node_has_to_be_cleared_the_others_keep_their_workloads() -> None:
    nodes = [node("a", 0), node("b", 0)]
    placed = [
        running("a1", "a", gpus=4, priority=10, preemptible=True),
        running("b1", "b", gpus=4, priority=20, preemptible=True),
        running("b2", "b", gpus=4, priority=20, preemptible=True, admitted_at=NOW),
        running("a2", "a", gpus=4, priority=30, preemptible=True),
    ]
    assert victims(plan(cluster(nodes, [job("x", gpus=8)], placed))) == {"b1": "x", "b2": "x"}


def test_what_is_left_over_of_the_capacity_of_one_that_leaves_goes_to_the_next_before_others_have_to() -> None:
    nodes = [node("a", 0), node("b", 0), node("c", 0)]
    placed = [
        running("tiny", "c", gpus=1, workspace_id=3, is_terminating=True),
        running("new", "a", gpus=8, workspace_id=3, preemptible=True, admitted_at=NOW),
        running("old", "b", gpus=8, workspace_id=3, preemptible=True),
    ]
    waiting = [job("x", gpus=4, workspace_id=1), job("y", gpus=4, workspace_id=2)]
    made = plan(cluster(nodes, waiting, placed, [team(1, gpus=8), team(2, gpus=8), team(3, gpus=0)]))
    assert victims(made) == {"new": "x"}
    assert reasons(made) == {"x": Preempting(("new",)), "y": Preempting(("new",))}
