"""`stoker serve`: the settings become a running server, and the terminal says what to type next."""

import contextlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.cli.local import resolved, setting_flags, warn
from stoker.domain.settings import Settings

if TYPE_CHECKING:
    from stoker.server.build import Installation

SIMULATED = 'Simulated: everything of cluster "demo" is made up: its nodes, people, workloads and readings.'
DEFAULT_ADDRESS = "http://127.0.0.1:8080"


@click.command("serve")
@setting_flags
def command(config: str | None, **flags: str | None) -> None:
    """Run the server until it is stopped with Ctrl-C or SIGTERM.

    Each setting can also be given in the environment or in a TOML file; docs/settings.md has them all.

    \b
    stoker serve
    stoker serve --port 9000 --data-dir /srv/stoker
    """
    found = resolved(config, flags)
    warn(found.warnings)

    from stoker.server.serve import serve

    def announce(address: str, installation: "Installation") -> None:
        with contextlib.suppress(OSError):  # whoever started the server may have stopped reading
            click.echo(announcement(address, installation.admin_key_file, found.settings))

    serve(found.settings, announce)


def announcement(address: str, admin_key_file: Path, settings: Settings) -> str:
    """Where the server is, where its key is, and the command that works against it."""
    lines = (
        f"Stoker is ready at {address}",
        *([SIMULATED] if settings.demo else []),
        f"Admin key: {admin_key_file}",
        f"API docs:  {address}/docs",
        f"Next:      {following(address, settings)}",
    )
    return "\n".join(lines)


def following(address: str, settings: Settings) -> str:
    """`stoker whoami`, told the address and the data dir where it would not guess them."""
    words = ["stoker"]
    if settings.data_dir != str(Path("~/.stoker").expanduser()):
        words.insert(0, f"STOKER_DATA_DIR={shlex.quote(settings.data_dir)}")
    if address != DEFAULT_ADDRESS:
        words += ["--server", address]
    return " ".join([*words, "whoami"])
