"""Times as people type them: a while such as 90d, or an instant in RFC 3339.

A while always says its unit, so that 5 is never five of another: only 0 needs none.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stoker.domain.clock import parse_rfc3339

_WHILE = re.compile(r"(\d{1,9})([smhdw])\Z", re.ASCII)

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Now = Callable[[], datetime]


class Moment(click.ParamType):
    """An instant; `90d` is that long from now, or ago where `ago` is set."""

    name = "TIME"

    def __init__(self, *, ago: bool, now: Now = lambda: datetime.now(UTC)) -> None:
        self._direction = -1 if ago else 1
        self._now = now

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            if (seconds := _seconds(value)) is not None:
                return self._now() + self._direction * timedelta(seconds=seconds)
            at = parse_rfc3339(value)
        except OverflowError:
            at = None
        if at is None:
            self.fail(_no_time(value), param, ctx)
        return datetime.fromtimestamp(at / 1000, UTC)


class Duration(click.ParamType):
    """How long, in seconds: `90s`, `30m`, `12h`, `2d`, `1w`, or `0`; within bounds, where there are any."""

    name = "DURATION"

    def __init__(self, least: str = "0s", most: str = "999999999w") -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        seconds = 0 if value == "0" else _seconds(value)
        if seconds is None:
            self.fail(_no_duration(value), param, ctx)
        if not (_seconds(self._least) or 0) <= seconds <= (_seconds(self._most) or 0):
            self.fail(f'"{value}" is not between {self._least} and {self._most}.', param, ctx)
        return seconds


def _seconds(text: str) -> int | None:
    found = _WHILE.match(text)
    return int(found[1]) * SECONDS[found[2]] if found else None


def _no_time(text: str) -> str:
    if text.isdecimal():
        return f'"{text}" has no unit. Say {_units(text)}, or an instant such as 2027-01-31T00:00:00Z.'
    return f'"{text}" is not a time. Use for example 30m, 12h, 90d or 2027-01-31T00:00:00Z.'


def _no_duration(text: str) -> str:
    if text.isdecimal():
        return f'"{text}" has no unit. Say {_units(text)}: seconds, minutes, hours or days.'
    return f'"{text}" is not a duration. Use for example 90s, 30m, 12h or 2d.'


def _units(text: str) -> str:
    return f"{text}s, {text}m, {text}h or {text}d"
