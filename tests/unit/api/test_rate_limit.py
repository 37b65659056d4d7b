"""The rate limit: a bucket for each caller, refilled as time goes by."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.http import rate_limit
from stoker.api.http.rate_limit import RateLimiter
from stoker.domain.errors import ErrorCode, StokerError


class FakeTimer:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _taken(limit: RateLimiter, who: str, tries: int) -> int:
    """How many of these tries are let through."""
    taken = 0
    for _ in range(tries):
        with contextlib.suppress(StokerError):
            limit.acquire(who)
            taken += 1
    return taken


def test_as_many_at_once_as_the_limit_and_no_more() -> None:
    assert _taken(RateLimiter(5, FakeTimer()), "li", 20) == 5


def test_what_was_used_comes_back_with_time() -> None:
    watch = FakeTimer()
    limit = RateLimiter(10, watch)
    assert _taken(limit, "li", 20) == 10
    watch.now = 0.3
    assert _taken(limit, "li", 20) == 3
    watch.now = 0.35
    assert _taken(limit, "li", 20) == 0
    watch.now = 0.4
    assert _taken(limit, "li", 20) == 1
    watch.now = 1000.0
    assert _taken(limit, "li", 20) == 10


def test_a_refusal_costs_nothing() -> None:
    watch = FakeTimer()
    limit = RateLimiter(1, watch)
    assert _taken(limit, "li", 1) == 1
    for tenth in range(1, 10):
        watch.now = tenth / 10
        assert _taken(limit, "li", 5) == 0
    watch.now = 1.0
    assert _taken(limit, "li", 5) == 1


def test_each_has_a_bucket_of_its_own() -> None:
    limit = RateLimiter(2, FakeTimer())
    assert [_taken(limit, who, 3) for who in ("li", "wu", "li")] == [2, 2, 0]


def test_zero_is_no_limit() -> None:
    assert _taken(RateLimiter(0, FakeTimer()), "li", 1000) == 1000


def test_the_message_says_the_limit_and_what_to_do() -> None:
    limit = RateLimiter(1, FakeTimer())
    limit.acquire("li")
    with pytest.raises(StokerError) as raised:
        limit.acquire("li")
    assert raised.value.message == "Too many requests: the limit is 1 a second. Try again in a second."
    assert (raised.value.code, raised.value.retry_after_seconds) == (ErrorCode.TOO_MANY_REQUESTS, 1)


def test_it_remembers_the_latest_callers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_TRACKED_CALLERS", 3)
    limit = RateLimiter(1, FakeTimer())
    assert [_taken(limit, who, 1) for who in ("a", "b", "c", "d")] == [1, 1, 1, 1]
    assert [_taken(limit, who, 1) for who in ("b", "c", "d", "a")] == [0, 0, 0, 1]


@given(st.integers(1, 50), st.lists(st.floats(0, 2), max_size=30))
def test_over_any_time_no_more_than_the_limit_and_its_burst(per_second: int, pauses: list[float]) -> None:
    watch = FakeTimer()
    limit = RateLimiter(per_second, watch)
    taken = _taken(limit, "li", 3)
    for pause in pauses:
        watch.now += pause
        taken += _taken(limit, "li", 3)
    assert taken <= per_second + watch.now * per_second + 1e-6
