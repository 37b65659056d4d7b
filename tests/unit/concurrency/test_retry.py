"""The back-off: doubles, is capped, and survives any number of failures."""

import pytest

from stoker.concurrency.retry import backoff_seconds


@pytest.mark.parametrize(("failures", "seconds"), [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (6, 60.0), (40, 60.0)])
def test_the_wait_doubles_up_to_the_longest(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures, first=2.0, longest=60.0) == seconds


@pytest.mark.parametrize("failures", [1024, 1025, 1026, 10**6, 10**30])
def test_any_number_of_failures_has_a_finite_wait(failures: int) -> None:
    assert backoff_seconds(failures, first=2.0, longest=60.0) == 60.0


def test_jitter_only_shortens_and_by_no_more_than_its_share() -> None:
    waits = [backoff_seconds(3, first=1.0, longest=60.0, jitter=0.5) for _ in range(200)]
    assert min(waits) >= 2.0
    assert max(waits) <= 4.0
    assert len(set(waits)) > 1
