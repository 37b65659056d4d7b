"""`stoker check`."""

from collections.abc import Iterator
from pathlib import Path

import click
from msgspec import structs

from stoker.cli.core.options import SERVER_KEY, connection_options, output_options
from stoker.cli.core.settings_options import config_option, data_dir_option, load_settings
from stoker.cli.render.findings import print_finding
from stoker.cli.render.output import Column, is_text, selected_output, show_list, show_one
from stoker.client.transport.server_address import normalize_server
from stoker.client.transport.unix_socket import local_data_dir as served_data_dir
from stoker.domain.diagnostics import CheckStatus, Finding, broken, ok, warning
from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import Settings, is_redacted, redacted_settings
from stoker.server.diagnostics import collectors, host, job_isolation, running_server, storage

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
def check_command(ctx: click.Context, config: str | None, data_dir: str | None) -> None:
    """Check this installation, and suggest how to fix what is wrong.

    Looks at Python, the settings, the data directory, the database and the running server; changes nothing.

    \b
    stoker check
    """
    asked = ctx.meta.get(SERVER_KEY)
    findings = list(run_checks(config, data_dir, normalize_server(asked) if asked else None))
    healthy = all(finding.verdict is not CheckStatus.BROKEN for finding in findings)
    if is_text():
        for finding in findings:
            print_finding(finding.verdict, finding.name, finding.message, finding.advice)
    elif selected_output() == "csv":
        show_list(findings, COLUMNS)
    else:
        show_one({"ok": healthy, "checks": findings}, COLUMNS)
    ctx.exit(0 if healthy else 1)


def run_checks(config: str | None, data_dir: str | None, asked: str | None) -> Iterator[Finding]:
    """Run every check, from the machine to the server. A running server is checked with its own settings."""
    yield host.check_python_version()
    try:
        found = load_settings(config, {"data_dir": data_dir})
        if found.origins["data_dir"] == "default" and (demo := str(served_data_dir())) != found.settings.data_dir:
            found = load_settings(config, {"data_dir": demo})
    except StokerError as error:
        yield broken("settings", error.message, error.hint or "stoker config show")
        return
    for stray in found.warnings:
        yield warning("settings", stray, "Unset it.")
    folder = Path(found.settings.data_dir)
    process = storage.lock_holder(folder)
    said = running_server.read_running_server(folder) if process else None
    running = said if isinstance(said, running_server.RunningServer) else None
    settings = effective_settings(found.settings, running.settings) if running else found.settings
    if running:
        yield ok("settings", f"Settings of the running server{_differences(found.settings, settings)}.")
    elif not found.warnings:
        changed = sum(origin != "default" for origin in found.origins.values())
        yield ok("settings", f"All are valid; not the default: {changed}.")
    yield host.check_clock(folder)
    yield host.check_extras(settings)
    yield storage.check_data_dir(folder)
    yield storage.check_disk_space(settings)
    yield storage.check_lock(folder, process)
    yield running_server.check_socket(folder, process, said)
    here = running.address if running else running_server.local_address(settings)
    reached = running_server.probe_server(here, process, asked_for=False)
    yield (
        running_server.check_server_database(settings, reached)
        if is_redacted(settings.database)
        else storage.check_database(settings)
    )
    yield from job_isolation.check_isolation(settings)
    if not is_redacted(settings.prometheus_url):
        yield from collectors.check_collectors(settings)
    yield host.check_tls(settings)
    if asked is None:
        yield running_server.check_port(settings, process)
    else:
        reached = running_server.probe_server(asked, process, asked_for=True)
    yield reached.finding
    yield from running_server.check_clock_skew(asked or here, reached)
    yield from running_server.check_clusters(reached)
    yield from running_server.check_admin_key(folder, running)
    if running:
        yield running_server.check_version(running)


def effective_settings(here: Settings, running: Settings) -> Settings:
    """The settings of the running server, which hides passwords; those known on this machine are filled in."""
    ours, theirs = redacted_settings(here), redacted_settings(running)
    known = {name: getattr(here, name) for name in theirs if ours[name] == theirs[name]}
    return structs.replace(running, **known)


def _differences(here: Settings, running: Settings) -> str:
    ours, theirs = redacted_settings(here), redacted_settings(running)
    names = [name for name in theirs if ours[name] != theirs[name]]
    return f"; other than they would be here: {', '.join(names)}" if names else ""
