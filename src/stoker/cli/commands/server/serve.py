"""`stoker serve`: runs a server with the resolved settings and prints its address and the next command."""

import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.core.settings_options import load_settings, print_warnings, settings_options
from stoker.domain.settings.schema import Settings

if TYPE_CHECKING:
    from stoker.server.composition import Installation

PLAINTEXT_WARNING = (
    "The server listens on {host} without TLS: whoever is on the way reads passwords, keys and what jobs print. "
    "Set tls_cert and tls_key, or listen on 127.0.0.1 behind a proxy that has TLS."
)
SIMULATED_NOTICE = 'Simulated: everything of cluster "demo" is made up: its nodes, people, workloads and readings.'


@click.command("serve")
@settings_options
def serve_command(config: str | None, **flags: str | None) -> None:
    """Run the server until it is stopped with Ctrl-C or SIGTERM.

    Each setting can also be given in the environment or in a TOML file; docs/settings.md has them all.

    \b
    stoker serve
    stoker serve --port 9000 --data-dir /srv/stoker
    """
    found = load_settings(config, flags)
    print_warnings(found.warnings)

    from stoker.server.addresses import is_loopback_host, machine_addresses
    from stoker.server.http_server import serve

    if not found.settings.tls_cert and not is_loopback_host(found.settings.host):
        print_warnings((PLAINTEXT_WARNING.format(host=found.settings.host),))
    others = machine_addresses(found.settings.host)

    def announce(address: str, installation: "Installation") -> None:
        with contextlib.suppress(OSError):  # the program that started the server may have closed the pipe
            click.echo(startup_message(address, installation.admin_key_file, found.settings, others))

    serve(found.settings, announce)


def startup_message(address: str, admin_key_file: Path, settings: Settings, others: Sequence[str] = ()) -> str:
    """The address of the server, the path of its key, and a command that uses it; `others` are the addresses of this
    machine for other machines."""
    scheme, port = address.partition(":")[0], address.rpartition(":")[2]
    lines = (
        f"Stoker is ready at {address}",
        *(f"           and at {scheme}://{f'[{each}]' if ':' in each else each}:{port}" for each in others),
        *([SIMULATED_NOTICE] if settings.demo else []),
        f"Data dir:  {settings.data_dir}",
        f"Admin key: {admin_key_file}",
        f"API docs:  {address}/docs",
        f"Next:      {next_command(settings)}",
    )
    return "\n".join(lines)


def next_command(settings: Settings) -> str:
    """`stoker whoami`, with the data dir if it is not the default one, because the socket is in it."""
    if settings.data_dir == str(Path("~/.stoker").expanduser()):
        return "stoker whoami"
    return f"STOKER_DATA_DIR={shlex.quote(settings.data_dir)} stoker whoami"
