"""Reasons why workloads wait: at once for a short queue, in turn for a long one, a few at a time."""

from tests.unit.scheduler.test_cluster_cache import NOW, under_way, workload

from stoker.controller.scheduling.pending_reasons import BATCH_INTERVAL_MS, REASON_BATCH_SIZE, PendingReasonWriter
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.phase import StatusReason
from stoker.domain.workload.spec import Kind, Spec
from stoker.scheduler import Planner
from stoker.scheduler.cache import ClusterCache


def crowd(count: int) -> tuple[ClusterCache, Planner]:
    """So many that want more than is free; the first blocks the others."""
    spec = Spec(resources=Resources(16 * MILLI, 1, 1))
    view = ClusterCache(under_way([workload(f"w{number:04}", Kind.JOB, spec=spec) for number in range(count)], []))
    return view, Planner(view.snapshot(NOW))


def test_a_short_queue_is_told_at_once_and_only_when_something_is_new() -> None:
    view, planner = crowd(3)
    waits = PendingReasonWriter()
    said = waits.changed_reasons(view, planner.plan(), NOW)
    assert {uid: why.code for uid, why in said.items()} == {
        "w0000": "no_room",
        "w0001": "behind_head",
        "w0002": "behind_head",
    }
    waits.mark_written(view, said)
    assert waits.changed_reasons(view, planner.plan(), NOW) == {}
    assert waits.next_at(NOW) is None
    waits.mark_pending(())
    assert waits.changed_reasons(view, planner.plan(), NOW) == {}


def test_a_long_queue_is_told_in_turn() -> None:
    view, planner = crowd(3 * REASON_BATCH_SIZE - 10)
    waits, now, parts = PendingReasonWriter(), NOW, []
    while waits.next_at(now) is not None:
        said = waits.changed_reasons(view, planner.plan(), now)
        waits.mark_written(view, said)
        parts.append(len(said))
        assert waits.changed_reasons(view, planner.plan(), now) == {}
        now += BATCH_INTERVAL_MS
    assert parts == [REASON_BATCH_SIZE, REASON_BATCH_SIZE, REASON_BATCH_SIZE - 10]
    assert all(each.pending_message for each in view.workloads.values())


def test_what_has_just_begun_to_wait_is_told_before_its_turn() -> None:
    view, planner = crowd(2 * REASON_BATCH_SIZE)
    waits = PendingReasonWriter()
    waits.mark_written(view, waits.changed_reasons(view, planner.plan(), NOW))
    newest = list(view.pending)[-1]
    waits.mark_pending([newest])
    assert list(waits.changed_reasons(view, planner.plan(), NOW)) == [newest]


def test_a_sentence_whose_word_is_not_known_yet_is_told_again() -> None:
    view, planner = crowd(1)
    waits = PendingReasonWriter()
    [(uid, why)] = waits.changed_reasons(view, planner.plan(), NOW).items()
    waits.mark_written(view, {uid: StatusReason("", why.message)})
    waits.mark_pending([uid])
    assert waits.changed_reasons(view, planner.plan(), NOW) == {uid: why}
