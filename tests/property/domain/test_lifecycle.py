"""Whatever happens to a workload, in whatever order, its life keeps the rules."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.workload import events
from stoker.domain.workload.durations import total_running_ms
from stoker.domain.workload.events import LifecycleEvent
from stoker.domain.workload.lifecycle import submit_transition, transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import ConditionType, Phase
from stoker.domain.workload.spec import Kind, Spec


def workload_of(kind: Kind, max_retry: int = 2) -> Workload:
    return Workload(
        uid="u",
        slug="job-bcdfg",
        name="job",
        kind=kind,
        cluster_id="c",
        workspace_id=1,
        namespace="default",
        user_id="1",
        user_name="li.wei",
        origin_api="management",
        spec=Spec(),
        max_retry=max_retry,
        timeout_seconds=60,
        submitted_at=0,
        phase_at=0,
    )


def event_at(at: int) -> st.SearchStrategy[LifecycleEvent]:
    left = st.booleans()
    return st.one_of(
        st.builds(events.Dispatched, st.just(at), st.just(()), st.sampled_from((None, at + 1_000, at + 5_000))),
        st.just(events.PodsReady(at)),
        st.just(events.PodsNotReady(at, "1 of 2 pods are up")),
        st.just(events.LaunchRetrying(at, "the engine is down")),
        st.builds(events.LaunchRejected, st.just(at), st.just("no such image"), left),
        st.builds(events.PodsFinished, st.just(at), st.booleans(), st.just("ended"), left),
        st.builds(events.PodsLost, st.just(at), st.just("lost"), left),
        st.just(events.PodsTerminated(at)),
        st.just(events.StopRequested(at, "zhang")),
        st.just(events.DeleteRequested(at, "zhang")),
        st.just(events.ResumeRequested(at, "zhang")),
        st.just(events.TimedOut(at)),
        st.just(events.Preempted(at, "other")),
        st.builds(events.NodesReserved, st.just(at), st.sampled_from(((), ("node-1",), ("node-1", "node-2")))),
        st.just(events.DependencyFailed(at, "the other failed")),
        st.just(events.SpecChanged(at, "zhang", Spec(image="new"))),
        st.just(events.EngineUnreachable(at, "no answer")),
        st.just(events.EngineReachable(at)),
    )


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]]:
    """A life: what it was, what happened, what it became (None: nothing), and what was written."""
    now = workload_of(draw(st.sampled_from(Kind)), draw(st.integers(0, 3)))
    steps = []
    for tick in range(draw(st.integers(1, 25))):
        event = draw(event_at((tick + 1) * 1000))
        change = transition(now, event)
        after = change.workload if change else None
        steps.append((now, event, after, tuple(each.type for each in change.conditions) if change else ()))
        now = after or now
    return steps


@given(lives())
def test_completed_and_failed_are_never_left_and_stopped_only_by_a_resume(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, event, after, _ in life:
        if after is None or not before.phase.is_finished or after.phase is before.phase:
            continue
        assert before.phase is Phase.STOPPED
        assert isinstance(event, events.ResumeRequested)


@given(lives())
def test_every_change_has_a_condition_and_makes_the_version_one_more(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, _, after, written in life:
        if after is not None:
            assert written
            assert after.version == before.version + 1


@given(lives())
def test_the_end_is_set_exactly_while_it_has_ended_and_the_start_never_moves(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, _, after, _ in life:
        if after is None:
            continue
        assert (after.ended_at is not None) == after.phase.is_finished
        assert after.running_since is None or not (after.phase.is_finished or after.phase.is_pending)
        if before.started_at is not None:
            assert after.started_at == before.started_at
        assert after.attempt - before.attempt in {0, 1}


@given(lives())
def test_the_time_it_ran_never_shrinks(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, event, after, _ in life:
        if after is not None:
            assert total_running_ms(after, event.at) >= before.running_ms
            assert total_running_ms(after, event.at) == total_running_ms(before, event.at) or before.started_at is None


@given(lives())
def test_retries_never_exceed_what_was_allowed_and_only_failures_spend_them(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, event, after, _ in life:
        if after is None:
            continue
        assert after.retries <= after.max_retry
        if after.retries > before.retries:
            assert isinstance(event, events.PodsFinished)
            assert not event.success


@given(lives())
def test_a_deleted_workload_is_never_placed_again(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, _, after, _ in life:
        if before.deleted_at is not None and after is not None:
            assert after.deleted_at == before.deleted_at
            assert after.phase in {Phase.DELETING, Phase.STOPPED, Phase.FAILED, Phase.COMPLETED}


@given(lives())
def test_a_guarantee_is_given_with_a_place_and_goes_with_it(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, event, after, _ in life:
        if after is None:
            continue
        if (
            after.phase.is_pending
            or after.phase.is_finished
            or after.phase.is_terminating
            or after.next_phase is not None
        ):
            assert after.guaranteed_until is None
        elif isinstance(event, events.Dispatched):
            assert after.guaranteed_until == event.guaranteed_until
            assert after.attempt == before.attempt + 1
        else:
            assert after.guaranteed_until == before.guaranteed_until


@given(lives())
def test_reserved_capacity_goes_with_its_use_its_end_and_any_other_request(
    life: list[tuple[Workload, LifecycleEvent, Workload | None, tuple[ConditionType, ...]]],
) -> None:
    for before, event, after, _ in life:
        if after is None:
            continue
        match event:
            case events.NodesReserved(nodes=nodes):
                assert after.reserved_nodes == nodes
            case events.Dispatched() | events.SpecChanged():
                assert after.reserved_nodes == ()
            case _:
                assert after.reserved_nodes in {(), before.reserved_nodes}
        if after.phase.is_finished or after.phase.is_terminating:
            assert after.reserved_nodes == ()


def test_pods_that_are_placed_again_in_a_running_workload_renew_no_guarantee() -> None:
    change = transition(workload_of(Kind.DEPLOYMENT), events.Dispatched(1_000, (), 9_000))
    assert change is not None
    up = transition(change.workload, events.PodsReady(2_000))
    assert up is not None
    assert transition(up.workload, events.Dispatched(8_000, (), 99_000)) is None
    rolled = transition(up.workload, events.SpecChanged(8_000, "zhang", Spec(image="new")))
    assert rolled is not None
    assert rolled.workload.guaranteed_until == 9_000


def test_a_new_workload_says_who_submitted_it() -> None:
    change = submit_transition(workload_of(Kind.JOB))
    assert [(each.type, each.message) for each in change.conditions] == [(ConditionType.QUEUED, "submitted by li.wei")]


def test_a_stopped_workload_that_is_resumed_keeps_its_start_and_adds_up_its_runs() -> None:
    workload = workload_of(Kind.JOB)
    happened = (
        events.Dispatched(1_000),
        events.PodsReady(2_000),
        events.StopRequested(5_000, "zhang"),
        events.PodsTerminated(6_000),
        events.ResumeRequested(100_000, "zhang"),
        events.Dispatched(101_000),
        events.PodsReady(102_000),
    )
    for event in happened:
        change = transition(workload, event)
        assert change is not None
        workload = change.workload
    assert workload.phase is Phase.RUNNING
    assert workload.started_at == 2_000
    assert workload.ended_at is None
    assert total_running_ms(workload, 103_000) == 5_000
    assert workload.attempt == 2


def test_a_failing_job_is_tried_again_as_often_as_allowed_and_waits_longer_each_time() -> None:
    workload = workload_of(Kind.JOB, max_retry=2)
    waits = []
    for _ in range(3):
        for event in (
            events.Dispatched(0),
            events.PodsReady(0),
            events.PodsFinished(0, False, "pod exited with code 3"),
        ):
            change = transition(workload, event)
            assert change is not None
            workload = change.workload
        waits.append(workload.not_before)
    assert waits == [1_000, 2_000, None]
    assert workload.phase is Phase.FAILED
    assert workload.message == "pod exited with code 3"
    assert workload.attempt == 3


def test_what_gives_its_place_away_goes_back_to_the_queue_without_spending_a_retry() -> None:
    workload = structs.replace(workload_of(Kind.JOB), preemptible=True)
    for event in (
        events.Dispatched(0),
        events.PodsReady(0),
        events.Preempted(5, "urgent-bcdfg"),
        events.PodsTerminated(9),
    ):
        change = transition(workload, event)
        assert change is not None
        workload = change.workload
    assert workload.phase is Phase.PENDING
    assert workload.requeued
    assert workload.retries == 0
