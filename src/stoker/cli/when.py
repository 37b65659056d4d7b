"""Times as people type them: a while such as 90d, or an instant in RFC 3339."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stoker.domain.clock import parse_rfc3339

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WHILE = re.compile(r"(\d{1,6})([smhdw])\Z")

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
            if found := _WHILE.match(value):
                return self._now() + self._direction * timedelta(**{_UNITS[found[2]]: int(found[1])})
            at = parse_rfc3339(value)
        except OverflowError:
            at = None
        if at is None:
            self.fail(f'"{value}" is not a time. Use for example 30m, 12h, 90d or 2027-01-31T00:00:00Z.', param, ctx)
        return datetime.fromtimestamp(at / 1000, UTC)


class Seconds(click.ParamType):
    """How long: `90`, `90s`, `30m`, `12h`."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.match(r"(\d{1,9})([smhdw]?)\Z", value)
        if found is None:
            self.fail(f'"{value}" is not a duration. Use for example 90s, 30m, 12h or 2d.', param, ctx)
        return int(found[1]) * SECONDS[found[2] or "s"]
