"""From one revision to the next, and more or fewer replicas."""

import asyncio

import pytest
from tests.integration.local.harness import Harness, new_pods, revise

from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind
from stoker.engines.model import LaunchSpec
from stoker.engines.replicas.readiness import MIN_READY_SECONDS

pytestmark = pytest.mark.slow

FOREVER = "echo up; sleep 600"


def revised(order: LaunchSpec, script: str, replicas: int) -> LaunchSpec:
    """The order at its next revision, with pods of its own."""
    pods = new_pods(order.ref.slug, replicas)
    return revise(order, script, pods)


def rolling(harness: Harness, replicas: int) -> LaunchSpec:
    order = harness.start(FOREVER, kind=Kind.DEPLOYMENT, replicas=replicas, restart=True, rolling=True, grace_seconds=5)
    for pod in order.pods:
        harness.until(pod.uid, lambda seen: seen.ready)
    return order


def test_pods_are_replaced_one_at_a_time(any_harness: Harness) -> None:
    first = rolling(any_harness, 3)
    second = revised(first, "echo second; sleep 600", 3)
    any_harness.history.clear()
    any_harness.run(any_harness.engine.apply(second))
    any_harness.run(any_harness.engine.apply(second))
    any_harness.until(second.pods[2].uid, lambda seen: seen.ready)
    any_harness.end(first.pods[2].uid)
    up = {pod.uid for pod in first.pods}
    fewest = most = len(up)
    for seen in any_harness.history:
        (up.add if seen.ready else up.discard)(seen.uid)
        fewest, most = min(fewest, len(up)), max(most, len(up))
    assert (fewest, most) == (3, 4)
    assert up == {pod.uid for pod in second.pods}
    started = [any_harness.seen[pod.uid].started_at or 0 for pod in second.pods]
    assert started[1] - started[0] >= MIN_READY_SECONDS * 1000
    assert started[2] - started[1] >= MIN_READY_SECONDS * 1000


def test_a_new_revision_that_does_not_stay_up_leaves_the_old_one_standing(any_harness: Harness) -> None:
    first = rolling(any_harness, 2)
    broken = revised(first, "exit 1", 2)
    any_harness.run(any_harness.engine.apply(broken))
    any_harness.until(broken.pods[0].uid, lambda seen: not seen.ready)
    any_harness.until(broken.pods[0].uid, lambda seen: seen.restarts == 1)
    assert any_harness.seen[first.pods[1].uid].ready
    assert broken.pods[1].uid not in any_harness.seen
    mended = revised(broken, FOREVER, 2)
    any_harness.run(any_harness.engine.apply(mended))
    any_harness.until(mended.pods[1].uid, lambda seen: seen.ready)
    assert any_harness.end(first.pods[1].uid).phase.is_finished
    assert any_harness.seen[broken.pods[0].uid].phase.is_finished


def test_a_stop_ends_a_replacement_too(any_harness: Harness) -> None:
    first = rolling(any_harness, 3)
    second = revised(first, FOREVER, 3)
    any_harness.run(any_harness.engine.apply(second))
    any_harness.until(second.pods[0].uid, lambda seen: seen.ready)
    any_harness.stop(second.pods[0].uid)
    any_harness.end(second.pods[0].uid)
    any_harness.end(first.pods[2].uid)
    any_harness.run(asyncio.sleep(0.1))
    assert second.pods[1].uid not in any_harness.seen
    assert all(pod.phase.is_finished for pod in any_harness.seen.values())
    assert PodPhase.LOST not in {pod.phase for pod in any_harness.seen.values()}


def test_a_replacement_that_fails_is_told_costs_no_replica_and_is_tried_again(any_harness: Harness) -> None:
    first = rolling(any_harness, 1)
    second = revised(first, FOREVER, 1)
    in_the_way = any_harness.data_dir / "local" / "pods" / second.pods[0].uid
    in_the_way.write_text("no room for a folder")
    any_harness.run(any_harness.engine.apply(second))
    remark = any_harness.remarked()
    assert (remark.workload_uid, remark.attempt, remark.pending_pods) == (first.ref.uid, 1, (second.pods[0].uid,))
    assert "File exists" in remark.message
    assert any_harness.seen[first.pods[0].uid].ready
    in_the_way.unlink()
    any_harness.until(second.pods[0].uid, lambda seen: seen.ready)
    any_harness.end(first.pods[0].uid)


def test_a_replacement_that_can_never_be_made_is_told_to_whoever_listens_later_too(any_harness: Harness) -> None:
    first = rolling(any_harness, 1)
    second = revised(first, "", 1)
    any_harness.run(any_harness.engine.apply(second))
    assert "entryPoint" in any_harness.remarked().message

    async def look() -> tuple[str, ...]:
        async for report in any_harness.engine.watch():
            return tuple(remark.reason for remark in report.events)
        return ()

    assert any_harness.run(look()) == ("StartDelayed",)
    assert any_harness.seen[first.pods[0].uid].ready
