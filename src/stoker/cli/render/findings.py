"""Prints the findings of a check."""

import click

from stoker.cli.render.sanitize import sanitize_line
from stoker.domain.diagnostics import STATUS_SIGNS, CheckStatus

COLORS = {CheckStatus.OK: "green", CheckStatus.WARNING: "yellow", CheckStatus.BROKEN: "red"}


def print_finding(verdict: CheckStatus, name: str, message: str, advice: str) -> None:
    sign = click.style(STATUS_SIGNS[verdict], fg=COLORS[verdict], bold=True)
    click.echo(f"{sign} {sanitize_line(name)}: {sanitize_line(message)}")
    if advice:
        click.echo(f"    {sanitize_line(advice)}")
