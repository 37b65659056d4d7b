"""`stoker check`."""

from collections.abc import Iterator
from pathlib import Path

import click

from stoker.cli.local import config_option, data_dir_option, resolved
from stoker.cli.options import SERVER, connection_options, output_options
from stoker.cli.output import Column, chosen_output, is_text, show_list, show_one
from stoker.client.address import is_loopback, server_address
from stoker.domain.errors import StokerError
from stoker.server.checks import data, jobs, machine, server, sources
from stoker.server.checks.finding import SIGNS, Finding, Verdict, broken, ok, warning

COLORS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.BROKEN: "red"}
COLUMNS = (
    Column("CHECK", "name"),
    Column("VERDICT", "verdict"),
    Column("FOUND", "message"),
    Column("ADVICE", "advice"),
)


@click.command("check")
@config_option
@data_dir_option
@connection_options()
@output_options()
@click.pass_context
def command(ctx: click.Context, config: str | None, data_dir: str | None) -> None:
    """Find out what is wrong with this installation, and what to do about it.

    Looks at Python, the settings, the data directory, the database and the running server; changes nothing.

    \b
    stoker check
    """
    asked = ctx.meta.get(SERVER)
    findings = list(examine(config, data_dir, server_address(asked) if asked else None))
    healthy = all(finding.verdict is not Verdict.BROKEN for finding in findings)
    if is_text():
        for finding in findings:
            _print(finding)
    elif chosen_output() == "csv":
        show_list(findings, COLUMNS)
    else:
        show_one({"ok": healthy, "checks": findings}, COLUMNS)
    ctx.exit(0 if healthy else 1)


def examine(config: str | None, data_dir: str | None, asked: str | None) -> Iterator[Finding]:
    """Every check, from the machine up to the server."""
    yield machine.python_version()
    try:
        found = resolved(config, {"data_dir": data_dir})
    except StokerError as error:
        yield broken("settings", error.message, error.hint or "stoker config show")
        return
    for stray in found.warnings:
        yield warning("settings", stray, "Unset it.")
    if not found.warnings:
        changed = sum(origin != "default" for origin in found.origins.values())
        yield ok("settings", f"All can be taken; not the default: {changed}.")
    settings = found.settings
    folder = Path(settings.data_dir)
    yield machine.clock(folder)
    yield machine.extras(settings)
    yield data.data_dir(folder)
    yield data.space(settings)
    process = data.holder(folder)
    yield data.lock(folder, process)
    yield data.database(settings)
    yield from jobs.kept(settings)
    yield from sources.readings(settings)
    yield machine.tls(settings)
    address = asked or server.local_address(settings)
    reached = server.reach(address, process, asked_for=asked is not None)
    yield reached.finding
    yield from server.skew(address, reached)
    if asked is None:
        yield server.port(settings, reached)
    if is_loopback(address):
        yield from server.admin_key(address, folder, reached)


def _print(finding: Finding) -> None:
    sign = click.style(SIGNS[finding.verdict], fg=COLORS[finding.verdict], bold=True)
    click.echo(f"{sign} {finding.name}: {finding.message}")
    if finding.advice:
        click.echo(f"    {finding.advice}")
