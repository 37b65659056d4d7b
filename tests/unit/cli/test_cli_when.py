"""Times as people type them."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from stoker.cli.when import Moment

NOW = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


def moment(text: str, *, ago: bool = False) -> datetime:
    return Moment(ago=ago, now=lambda: NOW).convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("12h", timedelta(hours=12)),
        ("90d", timedelta(days=90)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_while_is_from_now_or_ago(text: str, long: timedelta) -> None:
    assert moment(text) == NOW + long
    assert moment(text, ago=True) == NOW - long


def test_an_instant_is_itself_in_any_zone() -> None:
    assert moment("2027-01-31T01:00:00+01:00") == datetime(2027, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "90", "d", "-1d", "999999w", "1.5h", "2027-02-31T00:00:00Z"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="90d"):
        moment(text)
