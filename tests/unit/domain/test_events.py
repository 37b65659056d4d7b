"""Which changes of a workload are events, and when an event that failed comes again."""

from msgspec import structs

from stoker.domain.webhooks.model import WebhookEventType, build_workload_event, event_type_of
from stoker.domain.webhooks.retries import RETRY_DELAYS_SECONDS, retry_delay_seconds
from stoker.domain.workload.events import (
    DeleteRequested,
    Dispatched,
    IdleDetected,
    LifecycleEvent,
    PodsFinished,
    PodsLost,
    PodsReady,
    PodsTerminated,
    Preempted,
    ResumeRequested,
    StopRequested,
    TimedOut,
)
from stoker.domain.workload.idle import REASON_IDLE
from stoker.domain.workload.lifecycle import submit_transition, transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.spec import Kind, Spec

JOB = Workload(
    uid="u",
    slug="job-bcdfg",
    name="job",
    kind=Kind.JOB,
    cluster_id="c",
    workspace_id=1,
    namespace="vision",
    user_id="1",
    user_name="li",
    origin_api="management",
    spec=Spec(),
    max_retry=1,
    submitted_at=1,
    phase_at=1,
)


def told(*events: LifecycleEvent) -> list[WebhookEventType]:
    workload, found = submit_transition(JOB).workload, []
    for event in events:
        step = transition(workload, event)
        assert step is not None, (workload, event)
        if kind := event_type_of(workload, step):
            found.append(kind)
        workload = step.workload
    return found


def test_every_end_is_one_event_however_it_comes_about() -> None:
    up, bad = (Dispatched(2), PodsReady(3)), PodsFinished(4, False, "exited with code 1")
    assert told(*up, PodsFinished(4, True, "")) == ["workload.completed"]
    assert told(*up, bad, *up, bad) == ["workload.failed"]  # the first time it is tried again
    assert told(*up, bad, *up, structs.replace(bad, has_remaining_pods=True), PodsTerminated(5)) == ["workload.failed"]
    assert told(StopRequested(2, "li")) == ["workload.stopped"]
    assert told(*up, StopRequested(4, "li"), PodsTerminated(5), ResumeRequested(6, "li")) == ["workload.stopped"]
    assert told(*up, TimedOut(4), PodsTerminated(5), DeleteRequested(6, "li")) == ["workload.stopped"]
    assert told(*up, DeleteRequested(4, "li"), PodsTerminated(5)) == ["workload.stopped"]


def test_a_preemption_and_a_notice_are_events_and_a_failover_is_none() -> None:
    up = (Dispatched(2), PodsReady(3))
    assert told(*up, Preempted(4, "urgent"), PodsTerminated(5), *up) == ["workload.preempted"]
    assert told(*up, IdleDetected(4, REASON_IDLE, "nobody uses it")) == ["workload.idle"]
    assert told(*up, PodsLost(4, "the node is gone")) == []


def test_the_same_change_is_the_same_event_and_another_one_is_not() -> None:
    def worded(change: Transition) -> str:
        event = build_workload_event(
            WebhookEventType.WORKLOAD_STOPPED, change, workspace="v", cluster="c", exit_code=None
        )
        return event.id

    steps = [transition(JOB, StopRequested(at, "li")) for at in (2, 2, 3)]
    ids = [worded(step) for step in steps if step is not None]
    assert ids[0] == ids[1] != ids[2]
    assert "." not in ids[0]


def test_waits_grow_are_spread_a_little_and_come_to_an_end() -> None:
    for tries, wait in enumerate(RETRY_DELAYS_SECONDS[1:], 1):
        assert retry_delay_seconds(tries, 0.0) == wait
        assert wait <= (retry_delay_seconds(tries, 1.0) or 0) <= wait * 1.1 + 0.001
    assert retry_delay_seconds(len(RETRY_DELAYS_SECONDS), 0.0) is None


def test_a_receiver_may_ask_for_longer_but_not_for_ever() -> None:
    assert retry_delay_seconds(1, 0.0, 60) == 60
    assert retry_delay_seconds(3, 0.0, 60) == 1800
    assert retry_delay_seconds(1, 0.0, 10**9) == 86_400
