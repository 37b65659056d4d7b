"""Whatever readings, clocks and policies do, nothing is stopped that was not warned and had its whole grace since."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from stoker.domain.workload import idle as idleness
from stoker.domain.workload.idle import IdleAction, IdleDecision, IdlePolicy, IdleSpan, format_duration

pytestmark = pytest.mark.slow

PERIOD_MS = 15_000


class IdleSample(Struct, frozen=True):
    """One reading: how long after the one before by the clock, what it says, in which run, under which policy."""

    passed_ms: int
    idle: bool | None
    run: int
    policy: IdlePolicy


policies = st.builds(
    IdlePolicy,
    st.sampled_from(IdleAction),
    st.none(),
    st.integers(1, 120),
    st.integers(0, 120),
)
steps = st.one_of(st.just(PERIOD_MS), st.integers(-600_000, 600_000), st.sampled_from([0, PERIOD_MS * 2, -1, 10**9]))
idle = st.sampled_from([True, True, True, True, True, None, False])


@st.composite
def stories(draw: st.DrawFn) -> list[IdleSample]:
    policy = draw(policies)
    found = []
    for _ in range(draw(st.integers(1, 60))):
        if draw(st.integers(0, 15)) == 0:
            policy = draw(policies)
        found.append(IdleSample(draw(steps), draw(idle), draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])), policy))
    return found


def told(story: list[IdleSample]) -> list[tuple[IdleDecision, IdleSpan | None]]:
    span: IdleSpan | None = None
    at, found = 1_790_000_000_000, []
    for look in story:
        at += look.passed_ms
        span, step = idleness.update_idle_span(look.policy, span, look.run, look.idle, at, PERIOD_MS)
        found.append((step, span))
    return found


@given(stories())
def test_a_stop_comes_after_a_warning_and_the_whole_grace_in_one_unbroken_span(story: list[IdleSample]) -> None:
    steps = told(story)
    for place, (step, _) in enumerate(steps):
        if step is not IdleDecision.STOP:
            continue
        warned = max(number for number in range(place) if steps[number][0] is IdleDecision.WARN)
        between = story[warned + 1 : place + 1]
        assert all(look.idle is not False for look in between)  # activity begins anew
        assert len({look.run for look in story[warned : place + 1]}) == 1
        assert all(look.policy.action is not IdleAction.OFF for look in between)
        seen = PERIOD_MS * sum(1 for look in between if look.idle)  # each reading stands for one period
        promised = max(story[warned].policy.grace_seconds, story[place].policy.grace_seconds)
        assert seen >= promised * 1000
        assert story[warned].policy.action is story[place].policy.action is IdleAction.STOP


@given(stories())
def test_only_measured_time_counts(story: list[IdleSample]) -> None:
    looked = sum(1 for look in story if look.idle)
    for _, span in told(story):
        assert span is None or span.idle_ms <= looked * PERIOD_MS


@given(stories())
def test_what_is_told_is_told_once_in_a_span(story: list[IdleSample]) -> None:
    action: IdleAction | None = None
    for look, (step, span) in zip(story, told(story), strict=True):
        if step in {IdleDecision.REPORT, IdleDecision.WARN}:
            assert action is not look.policy.action
        action = span.told if span is not None else None


@given(stories())
def test_nothing_is_done_without_an_idle_reading_nor_more_than_the_policy_says(story: list[IdleSample]) -> None:
    for look, (step, _) in zip(story, told(story), strict=True):
        if not look.idle:
            assert step is IdleDecision.NONE
        match look.policy.action:
            case IdleAction.OFF:
                assert step is IdleDecision.NONE
            case IdleAction.REPORT:
                assert step in {IdleDecision.NONE, IdleDecision.REPORT}
            case IdleAction.WARN:
                assert step in {IdleDecision.NONE, IdleDecision.WARN}


def test_a_gpu_that_stays_idle_is_warned_after_the_window_and_stopped_after_the_grace() -> None:
    policy = IdlePolicy(IdleAction.STOP, None, window_seconds=60, grace_seconds=30)
    steps = [step for step, _ in told([IdleSample(PERIOD_MS, True, 1, policy)] * 8)]
    assert steps == [*["nothing"] * 4, "warn", "nothing", "stop", "stop"]


def test_durations_are_words() -> None:
    found = [format_duration(seconds) for seconds in (0, 119, 120, 1800, 3600, 5400, 90_000)]
    assert found == ["0 s", "119 s", "2 min", "30 min", "1 h", "1 h 30 min", "25 h"]
