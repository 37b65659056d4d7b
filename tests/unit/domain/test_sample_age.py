"""One rule says how old a sample may be: five minutes as the current value, ten between two samples of a history."""

import numpy as np
import pytest

from stoker.domain.cluster.sample_age import MAX_SAMPLE_AGE_MS, MAX_SAMPLE_GAP_MS, max_sample_age
from stoker.domain.workload.idle import IdleAction, IdlePolicy, IdleSpan, update_idle_span
from stoker.usage.inputs import sample_validity

MINUTE = 60_000
POLICY = IdlePolicy(IdleAction.WARN)


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (MAX_SAMPLE_AGE_MS, MAX_SAMPLE_GAP_MS) == (5 * MINUTE, 10 * MINUTE)


@pytest.mark.parametrize(
    ("period_ms", "limit"), [(1000, 5 * MINUTE), (150_000, 5 * MINUTE), (200_000, 400_000), (3_600_000, 7_200_000)]
)
def test_at_long_periods_a_sample_is_current_until_a_second_one_is_missing(period_ms: int, limit: int) -> None:
    assert max_sample_age(period_ms) == limit


@pytest.mark.parametrize("period_ms", [15_000, 100_000, 200_000, 3_600_000])
def test_an_idle_span_continues_for_as_long_as_its_last_sample_is_current(period_ms: int) -> None:
    before = IdleSpan(run=1, seen_at=1000, idle_ms=60_000)
    last = before.seen_at + max_sample_age(period_ms)
    continued, _ = update_idle_span(POLICY, before, 1, True, last, period_ms)
    restarted, _ = update_idle_span(POLICY, before, 1, True, last + 1, period_ms)
    assert continued is not None
    assert continued.idle_ms >= before.idle_ms
    assert restarted == IdleSpan(1, last + 1)


def test_the_ledger_counts_a_sample_for_no_longer_than_the_gap() -> None:
    ats = np.array([0, MINUTE, 61 * MINUTE])
    assert sample_validity(ats).tolist() == [2 * MINUTE, 2 * MINUTE, MAX_SAMPLE_GAP_MS]
    assert sample_validity(ats[:1]).tolist() == [MAX_SAMPLE_GAP_MS]
