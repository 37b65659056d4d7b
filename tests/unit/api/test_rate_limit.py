"""The rate limit: a bucket for each caller, refilled as time goes by."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api import limits
from stoker.api.limits import RateLimit
from stoker.domain.errors import ErrorCode, StokerError


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _taken(limit: RateLimit, who: str, tries: int) -> int:
    """How many of these tries are let through."""
    taken = 0
    for _ in range(tries):
        with contextlib.suppress(StokerError):
            limit.take(who)
            taken += 1
    return taken


def test_as_many_at_once_as_the_limit_and_no_more() -> None:
    assert _taken(RateLimit(5, Watch()), "li", 20) == 5


def test_what_was_used_comes_back_with_time() -> None:
    watch = Watch()
    limit = RateLimit(10, watch)
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
    watch = Watch()
    limit = RateLimit(1, watch)
    assert _taken(limit, "li", 1) == 1
    for tenth in range(1, 10):
        watch.now = tenth / 10
        assert _taken(limit, "li", 5) == 0
    watch.now = 1.0
    assert _taken(limit, "li", 5) == 1


def test_each_has_a_bucket_of_its_own() -> None:
    limit = RateLimit(2, Watch())
    assert [_taken(limit, who, 3) for who in ("li", "wu", "li")] == [2, 2, 0]


def test_zero_is_no_limit() -> None:
    assert _taken(RateLimit(0, Watch()), "li", 1000) == 1000


def test_the_message_says_the_limit_and_what_to_do() -> None:
    limit = RateLimit(1, Watch())
    limit.take("li")
    with pytest.raises(StokerError) as raised:
        limit.take("li")
    assert raised.value.message == "Too many requests: the limit is 1 a second. Try again in a second."
    assert (raised.value.code, raised.value.retry_after_seconds) == (ErrorCode.TOO_MANY_REQUESTS, 1)


def test_it_remembers_the_latest_callers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REMEMBERED", 3)
    limit = RateLimit(1, Watch())
    assert [_taken(limit, who, 1) for who in ("a", "b", "c", "d")] == [1, 1, 1, 1]
    assert [_taken(limit, who, 1) for who in ("b", "c", "d", "a")] == [0, 0, 0, 1]


@given(st.integers(1, 50), st.lists(st.floats(0, 2), max_size=30))
def test_over_any_time_no_more_than_the_limit_and_its_burst(per_second: int, pauses: list[float]) -> None:
    watch = Watch()
    limit = RateLimit(per_second, watch)
    taken = _taken(limit, "li", 3)
    for pause in pauses:
        watch.now += pause
        taken += _taken(limit, "li", 3)
    assert taken <= per_second + watch.now * per_second + 1e-6
