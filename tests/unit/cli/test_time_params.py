"""Times as people type them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click
import pytest

from stoker.cli.input.time_params import DurationParam, InstantParam
from stoker.cli.main import cli

NOW = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


def moment(text: str, *, ago: bool = False) -> datetime:
    return InstantParam(ago=ago, now=lambda: NOW).convert(text, None, None)


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


@pytest.mark.parametrize("text", ["0", "7", "1794856784"])
def test_a_number_alone_is_no_time_and_what_may_be_meant_is_said(text: str) -> None:
    meant = f'"{text}" has no unit. Say {text}s, {text}m, {text}h or {text}d, or an instant such as 2027-'
    with pytest.raises(click.BadParameter, match=meant):
        moment(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("0s", 0), ("90s", 90), ("30m", 1800), ("12h", 43_200), ("2d", 172_800), ("1w", 604_800)],
)
def test_a_duration_is_counted_in_seconds(text: str, seconds: int) -> None:
    assert DurationParam().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["5", "05", "00", "300"])
def test_a_number_alone_is_no_duration_and_what_may_be_meant_is_said(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f'"{text}" has no unit. Say {text}s, {text}m, {text}h or {text}d'):
        DurationParam().convert(text, None, None)


@pytest.mark.parametrize("text", ["", "soon", "-5m", "1.5h", "5 m", "5min", "5M", "-5"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a duration\. Use for example 90s"):
        DurationParam().convert(text, None, None)


def test_a_duration_out_of_bounds_is_told_them() -> None:
    assert DurationParam("1s", "1h").convert("1h", None, None) == 3600
    for text in ("0", "61m"):
        with pytest.raises(click.BadParameter, match=f'"{text}" is not between 1s and 1h.'):
            DurationParam("1s", "1h").convert(text, None, None)


def options(command: click.Command, path: str = "stoker") -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found, f"{path} {name}")
    for param in command.params:
        yield f"{path} {param.opts[0]}", param


def test_whatever_takes_a_while_takes_it_with_a_unit() -> None:
    timed = re.compile(r"timeout|window|grace|every|step|idle$|keep-old|since|until|expires|start-after")
    found = {name: param.type for name, param in options(cli) if timed.search(name.split()[-1])}
    takers = {name for name, kind in found.items() if isinstance(kind, DurationParam | InstantParam)}
    in_their_names = {name for name in found if name.endswith("-seconds")}
    assert {
        "stoker workspace edit --idle-window",
        "stoker top --every",
        "stoker webhook renew-secret --keep-old",
    } <= takers
    assert set(found) == takers | in_their_names
