import pytest
from tests.unit.scheduler.harness import NOW, amount, cluster, job, node, running, team

from stoker.domain.access.identity import QueuePolicy
from stoker.domain.cluster.resources import NO_RESOURCES
from stoker.scheduler import explain
from stoker.scheduler.explain.blockers import Blocker, BlockerKind
from stoker.scheduler.explain.reasons import ResourceName
from stoker.scheduler.explain.suggestions import (
    AnyNode,
    FewerReplicas,
    MakePreemptible,
    OtherPool,
    RaisePriority,
    ReduceRequest,
)


def test_what_starts_now_needs_no_explanation() -> None:
    told = explain(cluster([node("a")], [job("x")]), "x")
    assert (told.reason, told.position, told.blockers, told.suggestions) == (None, 0, (), ())


def test_what_does_not_wait_cannot_be_explained() -> None:
    with pytest.raises(KeyError):
        explain(cluster([node("a")], []), "x")


def test_those_ahead_are_counted_with_what_they_ask_for() -> None:
    waiting = [job(f"w{number}", gpus=8, submitted_at=NOW + number) for number in range(3)]
    told = explain(cluster([node("a", 4)], waiting), "w2")
    assert (told.position, told.workloads_ahead, told.requested_ahead) == (3, 2, amount(16, cpus=2, gib=2))
    assert told.blockers == tuple(Blocker(f"w{number}", BlockerKind.AHEAD, amount(8)) for number in range(2))


def test_those_who_hold_what_it_needs_are_named_and_nobody_else() -> None:
    placed = [running("r1", "a", gpus=4), running("r2", "a", gpus=4), running("r3", "b", gpus=2)]
    told = explain(cluster([node("a", 0), node("b", 2)], [job("x", gpus=4)], placed), "x")
    assert told.blockers == (Blocker("r3", BlockerKind.ALLOCATED, amount(2)),)


def test_those_who_use_up_the_quota_are_named() -> None:
    placed = [running("mine", "a", gpus=4), running("other", "a", gpus=4, workspace_id=2)]
    queues = [team(1, gpus=4), team(2)]
    told = explain(cluster([node("a", 8)], [job("x", gpus=2)], placed, queues), "x")
    assert told.blockers == (Blocker("mine", BlockerKind.ALLOCATED, amount(4)),)


def test_dependencies_and_leavers_are_named() -> None:
    placed = [running("going", "a", gpus=8, is_terminating=True)]
    waiting = [job("x", gpus=8), job("y", unfinished_dependencies=("base",), workspace_id=2)]
    snapshot = cluster([node("a", 0)], waiting, placed)
    assert explain(snapshot, "x").blockers == (Blocker("going", BlockerKind.TERMINATING, amount(8)),)
    assert explain(snapshot, "y").blockers == (Blocker("base", BlockerKind.DEPENDENCY, NO_RESOURCES),)


def test_a_gang_that_is_too_large_is_told_what_would_start() -> None:
    told = explain(cluster([node("a", 8), node("b", 4)], [job("x", gpus=8, replicas=2)]), "x")
    assert told.suggestions == (FewerReplicas(1), ReduceRequest(ResourceName.GPU, 4000))


def test_asking_for_less_of_what_is_short_is_suggested() -> None:
    told = explain(cluster([node("a", 8, cpus=30)], [job("x", gpus=8, cpus=40)]), "x")
    assert told.suggestions == (ReduceRequest(ResourceName.CPU, 30_000),)
    assert told.suggestions[0].message() == "Ask for 30 CPUs per replica."


def test_naming_no_nodes_is_suggested_where_others_are_free() -> None:
    told = explain(cluster([node("a", 0), node("b")], [job("x", specified_nodes=("a",))]), "x")
    assert told.suggestions[0] == AnyNode()


def test_another_pool_is_suggested_where_one_is_free() -> None:
    told = explain(cluster([node("a", 0), node("b", pool="spare")], [job("x")]), "x")
    assert told.suggestions == (OtherPool("spare"),)


def test_borrowing_is_suggested_where_only_the_quota_is_short() -> None:
    told = explain(cluster([node("a", 8)], [job("x", gpus=8)], queues=[team(gpus=4)]), "x")
    assert told.suggestions == (MakePreemptible(), ReduceRequest(ResourceName.GPU, 4000))


def test_a_higher_priority_is_suggested_where_it_would_pass_the_head() -> None:
    waiting = [job("head", gpus=8, priority=80), job("x", gpus=1, priority=50)]
    told = explain(cluster([node("a", 4)], waiting), "x", priorities=(50, 80, 150))
    assert told.suggestions == (RaisePriority(150),)
    balance = [team(policy=QueuePolicy.BALANCE)]
    told = explain(cluster([node("a", 4)], waiting, queues=balance), "x", priorities=(50, 80, 150))
    assert told.suggestions == (RaisePriority(80),)


def test_nothing_is_suggested_to_what_waits_for_its_time() -> None:
    assert explain(cluster([node("a")], [job("x", not_before=NOW + 1)]), "x").suggestions == ()
