"""From one revision to the next, and more or fewer replicas."""

import asyncio

import msgspec
from tests.engine.local.lab import Lab, new_order, new_pods

from stoker.domain.workload import Kind, PodPhase
from stoker.engines.base import Order

FOREVER = "echo up; sleep 600"


def revised(order: Order, script: str, replicas: int) -> Order:
    """The order at its next revision, with pods of its own."""
    pods = new_pods(order.slug, replicas)
    return msgspec.structs.replace(order, revision=order.revision + 1, entry_point=script, pods=pods)


def rolling(lab: Lab, replicas: int) -> Order:
    order = lab.start(FOREVER, kind=Kind.DEPLOYMENT, replicas=replicas, restart=True, rolling=True, grace_seconds=5)
    for pod in order.pods:
        lab.until(pod.uid, lambda seen: seen.ready)
    return order


def test_pods_are_replaced_one_at_a_time(any_lab: Lab) -> None:
    first = rolling(any_lab, 3)
    second = revised(first, "echo second; sleep 600", 3)
    any_lab.history.clear()
    any_lab.run(any_lab.engine.apply(second))
    any_lab.run(any_lab.engine.apply(second))
    any_lab.until(second.pods[2].uid, lambda seen: seen.ready)
    up = {pod.uid for pod in first.pods}
    fewest = len(up)
    for seen in any_lab.history:
        (up.add if seen.ready else up.discard)(seen.uid)
        fewest = min(fewest, len(up))
    assert fewest == 2
    assert up == {pod.uid for pod in second.pods}
    started = [any_lab.seen[pod.uid].started_at or 0 for pod in second.pods]
    assert started[1] - started[0] >= 1000
    assert started[2] - started[1] >= 1000


def test_a_new_revision_that_does_not_stay_up_leaves_the_old_one_standing(any_lab: Lab) -> None:
    first = rolling(any_lab, 2)
    broken = revised(first, "exit 1", 2)
    any_lab.run(any_lab.engine.apply(broken))
    any_lab.until(broken.pods[0].uid, lambda seen: not seen.ready)
    any_lab.until(broken.pods[0].uid, lambda seen: seen.restarts == 1)
    assert any_lab.seen[first.pods[1].uid].ready
    assert broken.pods[1].uid not in any_lab.seen
    mended = revised(broken, FOREVER, 2)
    any_lab.run(any_lab.engine.apply(mended))
    any_lab.until(mended.pods[1].uid, lambda seen: seen.ready)
    assert any_lab.seen[first.pods[1].uid].phase.ended
    assert any_lab.seen[broken.pods[0].uid].phase.ended


def test_a_replacement_goes_on_after_a_crash_when_it_is_applied_again(any_lab: Lab) -> None:
    first = rolling(any_lab, 2)
    second = revised(first, FOREVER, 2)
    any_lab.run(any_lab.engine.apply(second))
    any_lab.until(second.pods[0].uid, lambda seen: seen.ready)
    any_lab.open()
    assert any_lab.until(first.pods[1].uid, lambda seen: True).ready
    any_lab.run(any_lab.engine.apply(second))
    any_lab.until(second.pods[1].uid, lambda seen: seen.ready)
    assert any_lab.seen[first.pods[1].uid].phase.ended


def test_more_replicas_are_added_and_those_that_stay_are_left_alone(any_lab: Lab) -> None:
    first = rolling(any_lab, 1)
    began = any_lab.seen[first.pods[0].uid].started_at
    more = msgspec.structs.replace(first, revision=2, pods=(*first.pods, *new_pods(first.slug, 3)[1:]))
    any_lab.run(any_lab.engine.apply(more))
    for pod in more.pods:
        assert any_lab.until(pod.uid, lambda seen: seen.ready and seen.revision == 2)
    assert any_lab.seen[first.pods[0].uid].started_at == began
    fewer = msgspec.structs.replace(more, revision=3, pods=more.pods[:2])
    any_lab.run(any_lab.engine.apply(fewer))
    assert any_lab.end(more.pods[2].uid).phase.ended
    assert [any_lab.seen[pod.uid].ready for pod in fewer.pods] == [True, True]


def test_a_gang_is_stopped_as_a_whole_before_the_next_one_starts(any_lab: Lab) -> None:
    first = any_lab.start("trap 'sleep 0.3; exit 0' TERM; echo up; sleep 600 & wait", replicas=2)
    for pod in first.pods:
        any_lab.says(pod.uid, "up")
    second = revised(first, FOREVER, 2)
    any_lab.run(any_lab.engine.apply(second))
    for pod in second.pods:
        any_lab.until(pod.uid, lambda seen: seen.ready)
    ends = [any_lab.seen[pod.uid].ended_at or 0 for pod in first.pods]
    starts = [any_lab.seen[pod.uid].started_at or 0 for pod in second.pods]
    assert max(ends) <= min(starts)


def test_a_late_order_of_an_older_revision_changes_nothing(any_lab: Lab) -> None:
    order = new_order(FOREVER)
    second = revised(order, FOREVER, 1)
    any_lab.run(any_lab.engine.apply(second))
    any_lab.run(any_lab.engine.apply(order))
    any_lab.run(asyncio.sleep(0.05))
    assert list(any_lab.seen) == [second.pods[0].uid]


def test_a_stop_ends_a_replacement_too(any_lab: Lab) -> None:
    first = rolling(any_lab, 3)
    second = revised(first, FOREVER, 3)
    any_lab.run(any_lab.engine.apply(second))
    any_lab.until(second.pods[0].uid, lambda seen: seen.ready)
    any_lab.stop(second.pods[0].uid)
    any_lab.end(second.pods[0].uid)
    any_lab.end(first.pods[2].uid)
    any_lab.run(asyncio.sleep(0.1))
    assert second.pods[1].uid not in any_lab.seen
    assert all(pod.phase.ended for pod in any_lab.seen.values())
    assert PodPhase.LOST not in {pod.phase for pod in any_lab.seen.values()}
