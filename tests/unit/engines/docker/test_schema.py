"""Timestamps of Docker have up to nine decimals; its zero time is no time."""

import pytest

from stoker.engines.docker.api.schema import parse_time_ms, parse_time_ns


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.000000001Z", 1_000_000_001),
        ("1970-01-01T02:00:01.25+02:00", 1_250_000_000),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("soon", None),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, expected: int | None) -> None:
    assert parse_time_ns(text) == expected


def test_milliseconds_are_cut() -> None:
    assert parse_time_ms("1970-01-01T00:00:01.999999999Z") == 1999
