"""Times as options: a duration such as 90d, or an instant in RFC 3339.

A duration always has a unit, except 0, so that no number can be misread.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stoker.domain.clock import parse_rfc3339

_DURATION_PATTERN = re.compile(r"(\d{1,9})([smhdw])\Z", re.ASCII)

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

NowFn = Callable[[], datetime]


class InstantParam(click.ParamType):
    """An instant; `90d` means that long from now, or that long ago if `ago` is set."""

    name = "TIME"

    def __init__(self, *, ago: bool, now: NowFn = lambda: datetime.now(UTC)) -> None:
        self._direction = -1 if ago else 1
        self._now = now

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if (seconds := _parse_seconds(value)) is not None:
                return self._now() + self._direction * timedelta(seconds=seconds)
            at = parse_rfc3339(value)
        except OverflowError:
            at = None
        if at is None:
            self.fail(_invalid_time_message(value), param, ctx)
        return datetime.fromtimestamp(at / 1000, UTC)


class DurationParam(click.ParamType):
    """A duration in seconds: `90s`, `30m`, `12h`, `2d`, `1w`, or `0`; optionally with bounds."""

    name = "DURATION"

    def __init__(self, least: str = "0s", most: str = "999999999w") -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        seconds = 0 if value == "0" else _parse_seconds(value)
        if seconds is None:
            self.fail(_invalid_duration_message(value), param, ctx)
        if not (_parse_seconds(self._least) or 0) <= seconds <= (_parse_seconds(self._most) or 0):
            self.fail(f'"{value}" is not between {self._least} and {self._most}.', param, ctx)
        return seconds


def format_interval(start: datetime, end: datetime) -> str:
    """A time range as text; the end has a date if it differs from that of the start."""
    begin, until = start.astimezone(UTC), end.astimezone(UTC)
    form = "%H:%M:%S" if begin.date() == until.date() else "%Y-%m-%d %H:%M:%S"
    return f"{begin:%Y-%m-%d %H:%M:%S} to {until:{form}} UTC"


def _parse_seconds(text: str) -> int | None:
    found = _DURATION_PATTERN.match(text)
    return int(found[1]) * SECONDS_PER_UNIT[found[2]] if found else None


def _invalid_time_message(text: str) -> str:
    if text.isdecimal():
        return f'"{text}" has no unit. Say {_unit_examples(text)}, or an instant such as 2027-01-31T00:00:00Z.'
    return f'"{text}" is not a time. Use for example 30m, 12h, 90d or 2027-01-31T00:00:00Z.'


def _invalid_duration_message(text: str) -> str:
    if text.isdecimal():
        return f'"{text}" has no unit. Say {_unit_examples(text)}: seconds, minutes, hours or days.'
    return f'"{text}" is not a duration. Use for example 90s, 30m, 12h or 2d.'


def _unit_examples(text: str) -> str:
    return f"{text}s, {text}m, {text}h or {text}d"
