from msgspec import structs
from tests.unit.scheduler.harness import NOW, cluster, job, node, orders, places, reasons, team

from stoker.domain.access.identity import QueuePolicy
from stoker.scheduler import DependencyFailure, plan
from stoker.scheduler.explain.reasons import (
    BehindHigherPriority,
    BehindQueueHead,
    DependencyPending,
    StartTimeNotReached,
)

FULL = [node("a", gpus=0)]
ONE = [node("a", gpus=1)]
BALANCE = [team(policy=QueuePolicy.BALANCE)]


def test_requeued_goes_first_then_priority_then_submit_time_then_uid() -> None:
    waiting = [
        job("d", priority=50),
        job("c", priority=150, submitted_at=NOW + 1),
        job("b", priority=150),
        job("a", priority=150),
        job("e", priority=10, requeued=True),
    ]
    assert orders(plan(cluster(FULL, waiting))) == {"e": 1, "a": 2, "b": 3, "c": 4, "d": 5}


def test_what_others_were_preempted_for_goes_before_everything() -> None:
    waiting = [job("back", requeued=True, priority=150), job("owed", reserved_nodes=("gone",), priority=10)]
    assert places(plan(cluster(ONE, waiting))) == {"owed": ("a",)}


def test_a_preempted_workload_does_not_take_its_capacity_back_from_a_higher_priority() -> None:
    waiting = [job("low", priority=50, preemptible=True, requeued=True), job("high", priority=150)]
    assert places(plan(cluster(ONE, waiting))) == {"high": ("a",)}
    calm = [team(preemption=False)]
    assert places(plan(cluster(ONE, waiting, queues=calm))) == {"low": ("a",)}


def test_a_place_in_the_queue_is_counted_for_those_that_wait_for_their_time_too() -> None:
    waiting = [job("first"), job("later", submitted_at=NOW + 1, not_before=NOW + 60), job("last", submitted_at=NOW + 2)]
    assert orders(plan(cluster(FULL, waiting))) == {"first": 1, "later": 2, "last": 3}


def test_those_that_start_give_up_their_place() -> None:
    waiting = [job("first"), job("second", submitted_at=NOW + 1), job("third", submitted_at=NOW + 2)]
    made = plan(cluster(ONE, waiting))
    assert places(made) == {"first": ("a",)}
    assert orders(made) == {"second": 1, "third": 2}


def test_under_fifo_the_head_holds_up_everybody() -> None:
    waiting = [job("big", gpus=8), job("small", submitted_at=NOW + 1)]
    made = plan(cluster(ONE, waiting))
    assert not made.placements
    assert reasons(made)["small"] == BehindQueueHead("big", 1)


def test_under_balance_what_does_not_fit_is_skipped() -> None:
    waiting = [job("big", gpus=8), job("small", submitted_at=NOW + 1)]
    assert places(plan(cluster(ONE, waiting, queues=BALANCE))) == {"small": ("a",)}


def test_under_balance_nothing_passes_a_higher_priority_that_was_skipped() -> None:
    waiting = [job("big", gpus=8, priority=80), job("small", priority=50)]
    made = plan(cluster(ONE, waiting, queues=BALANCE))
    assert not made.placements
    assert reasons(made)["small"] == BehindHigherPriority("big", 80)


def test_under_balance_a_job_that_names_its_nodes_holds_up_nobody() -> None:
    waiting = [job("named", gpus=8, priority=80, specified_nodes=("a",)), job("small", priority=50)]
    assert places(plan(cluster(ONE, waiting, queues=BALANCE))) == {"small": ("a",)}


def test_what_waits_for_its_time_or_for_others_holds_up_nobody() -> None:
    waiting = [
        job("later", priority=150, not_before=NOW + 1),
        job("after", priority=140, unfinished_dependencies=("other",)),
        job("ready"),
    ]
    made = plan(cluster(ONE, waiting))
    assert places(made) == {"ready": ("a",)}
    assert reasons(made) == {"later": StartTimeNotReached(NOW + 1), "after": DependencyPending(("other",))}


def test_a_start_time_that_has_come_is_no_reason_to_wait() -> None:
    assert places(plan(cluster(ONE, [job("now", not_before=NOW)]))) == {"now": ("a",)}


def test_a_failed_dependency_fails_the_workload() -> None:
    made = plan(cluster(ONE, [job("a", failed_dependency="base"), job("b")]))
    assert made.failures == (DependencyFailure("a", "base"),)
    assert made.failures[0].message == "The dependency base did not succeed."
    assert places(made) == {"b": ("a",)}
    assert not made.pending


def test_the_workspace_that_uses_the_smaller_share_of_its_quota_is_served_first() -> None:
    waiting = [
        *(job(f"a{number}", workspace_id=1, submitted_at=NOW + number) for number in range(4)),
        *(job(f"b{number}", workspace_id=2, submitted_at=NOW + 10 + number) for number in range(4)),
    ]
    two = [team(1, gpus=8), team(2, gpus=4)]
    made = plan(cluster([node("a", gpus=3)], waiting, queues=two))
    assert places(made).keys() == {"a0", "a1", "b0"}


def test_who_is_inside_the_quota_goes_before_who_borrows() -> None:
    borrower = job("borrower", workspace_id=1, preemptible=True, requeued=True)
    owner = job("owner", workspace_id=2, submitted_at=NOW + 1)
    made = plan(cluster(ONE, [borrower, owner], queues=[team(1, gpus=0), team(2, gpus=1)]))
    assert places(made) == {"owner": ("a",)}


def test_a_workspace_that_nobody_described_has_no_quota_and_is_first_in_first_out() -> None:
    waiting = [job("big", gpus=8, workspace_id=7), job("small", workspace_id=7, submitted_at=NOW + 1)]
    assert not plan(cluster(ONE, waiting)).placements
    assert places(plan(cluster(ONE, [structs.replace(waiting[1])]))) == {"small": ("a",)}
