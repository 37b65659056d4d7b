"""Which changes of a workload are events, and when an event that failed comes again."""

from msgspec import structs

from stoker.domain.events import (
    DeleteAsked,
    Event,
    IdleNoted,
    Placed,
    PodsEnded,
    PodsGone,
    PodsLost,
    PodsUp,
    Preempted,
    ResumeAsked,
    StopAsked,
    TimedOut,
)
from stoker.domain.idleness import REPORTED
from stoker.domain.lifecycle import Change, created, transition
from stoker.domain.webhooks import RETRY_SECONDS, EventType, event_of, wait_seconds, workload_event
from stoker.domain.workload import Kind, Spec, Workload

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
    origin_api="safe",
    spec=Spec(),
    max_retry=1,
    submitted_at=1,
    phase_at=1,
)


def told(*events: Event) -> list[EventType]:
    workload, found = created(JOB).workload, []
    for event in events:
        step = transition(workload, event)
        assert step is not None, (workload, event)
        if kind := event_of(workload, step):
            found.append(kind)
        workload = step.workload
    return found


def test_every_end_is_one_event_however_it_comes_about() -> None:
    up, bad = (Placed(2), PodsUp(3)), PodsEnded(4, False, "exited with code 1")
    assert told(*up, PodsEnded(4, True, "")) == ["workload.completed"]
    assert told(*up, bad, *up, bad) == ["workload.failed"]  # the first time it is tried again
    assert told(*up, bad, *up, structs.replace(bad, left=True), PodsGone(5)) == ["workload.failed"]
    assert told(StopAsked(2, "li")) == ["workload.stopped"]
    assert told(*up, StopAsked(4, "li"), PodsGone(5), ResumeAsked(6, "li")) == ["workload.stopped"]
    assert told(*up, TimedOut(4), PodsGone(5), DeleteAsked(6, "li")) == ["workload.stopped"]
    assert told(*up, DeleteAsked(4, "li"), PodsGone(5)) == ["workload.stopped"]


def test_a_preemption_and_a_notice_are_events_and_a_failover_is_none() -> None:
    up = (Placed(2), PodsUp(3))
    assert told(*up, Preempted(4, "urgent"), PodsGone(5), *up) == ["workload.preempted"]
    assert told(*up, IdleNoted(4, REPORTED, "nobody uses it")) == ["workload.idle"]
    assert told(*up, PodsLost(4, "the node is gone")) == []


def test_the_same_change_is_the_same_event_and_another_one_is_not() -> None:
    def worded(change: Change) -> str:
        event = workload_event(EventType.WORKLOAD_STOPPED, change, workspace="v", cluster="c", exit_code=None)
        return event.id

    steps = [transition(JOB, StopAsked(at, "li")) for at in (2, 2, 3)]
    ids = [worded(step) for step in steps if step is not None]
    assert ids[0] == ids[1] != ids[2]
    assert "." not in ids[0]


def test_waits_grow_are_spread_a_little_and_come_to_an_end() -> None:
    for tries, wait in enumerate(RETRY_SECONDS[1:], 1):
        assert wait_seconds(tries, 0.0) == wait
        assert wait <= (wait_seconds(tries, 1.0) or 0) <= wait * 1.1 + 0.001
    assert wait_seconds(len(RETRY_SECONDS), 0.0) is None


def test_a_receiver_may_ask_for_longer_but_not_for_ever() -> None:
    assert wait_seconds(1, 0.0, 60) == 60
    assert wait_seconds(3, 0.0, 60) == 1800
    assert wait_seconds(1, 0.0, 10**9) == 86_400
