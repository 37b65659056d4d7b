"""Instants: epoch milliseconds inside, RFC 3339 outside."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.clock import MAX_TIMESTAMP_MS, SystemClock, format_rfc3339, parse_rfc3339

AT = 1_736_937_000_000


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (AT, "2025-01-15T10:30:00.000Z"),
        (AT + 7, "2025-01-15T10:30:00.007Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_827_696_789, "2000-02-29T12:34:56.789Z"),
        (MAX_TIMESTAMP_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_an_instant_is_shown_in_utc_with_three_decimals(at: int, text: str) -> None:
    assert format_rfc3339(at) == text


@pytest.mark.parametrize(
    "text",
    [
        "2025-01-15T10:30:00Z",
        "2025-01-15T10:30:00.000Z",
        "2025-01-15T10:30:00+00:00",
        "2025-01-15T18:30:00+08:00",
        "2025-01-14T22:30:00-12:00",
        "2025-01-15T10:30:00",
        "2025-01-15 10:30:00Z",
        "2025-01-15T10:30:00.0009Z",
    ],
)
def test_any_offset_is_read_and_none_is_utc(text: str) -> None:
    assert parse_rfc3339(text) == AT


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "1736937000", "2025-01-15T25:00:00Z", "2025-02-30T00:00:00Z", "2025-01-15T10:30:00+25:00"),
        *("2025-01-15T10:30:60Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "10000-01-01T00:00:00Z"),
        *("9999-12-31T23:59:59-12:00", "2025-01-15T10:30:00Zulu"),
    ],
)
def test_what_is_no_instant_of_ours_is_none(text: str) -> None:
    assert parse_rfc3339(text) is None


@given(st.integers(0, MAX_TIMESTAMP_MS))
def test_what_is_shown_is_read_back(at: int) -> None:
    assert parse_rfc3339(format_rfc3339(at)) == at


@given(st.text(max_size=40))
def test_any_text_is_an_instant_or_none(text: str) -> None:
    at = parse_rfc3339(text)
    assert at is None or 0 <= at <= MAX_TIMESTAMP_MS


def test_the_systems_clock_counts_milliseconds_of_the_epoch() -> None:
    assert abs(SystemClock().now() - time.time() * 1000) < 1000
