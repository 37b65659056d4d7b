"""Chooses the directory in which a job starts that is submitted on the server's own machine: the current one.

If the job could not enter it, the submission is refused when `--here` was given or the command names a file in it. Any
other command runs in the workload's own directory, and a message says so.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.cli.core.errors import CommandError
from stoker.client.transport.server_address import is_loopback
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client import Stoker

C = TypeVar("C", bound=Callable[..., Any])
MAX_WORD_CHARS = 4096
CHANGE_DIRECTORY_ADVICE = "Go to a directory that jobs can enter, or add --not-here to begin in the workload's own."


def working_directory_option(command: C) -> C:
    return click.option(
        "--here/--not-here",
        default=None,
        help="Start in the current directory, if the server is on this machine, or fail; or in the workload's own "
        "[default here, or the workload's own if the job cannot enter it and the command names nothing in it].",
    )(command)


def resolve_working_directory(
    client: "Stoker", workspace: str | None, here: bool | None, command: Sequence[str]
) -> str:
    """The current directory if the server is on this machine and a job can start in it; otherwise None, or an error."""
    if here is False or not is_loopback(client.server):
        return ""
    try:
        path = str(Path.cwd())
    except FileNotFoundError:
        if here:
            raise CommandError(
                "A job cannot begin here: this directory was removed.", CHANGE_DIRECTORY_ADVICE
            ) from None
        click.echo("[stoker] The job begins in its own working directory: this one was removed.", err=True)
        return ""
    try:
        found = client.workloads.working_directory(path, workspace=workspace or "")
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
        return path  # an older server, or an unknown workspace, which the create request reports
    if found.enterable:
        return path
    if here or (named := _word_naming_local_file(command)):
        needs = "" if here else f" The command names {named}."
        raise CommandError(f"A job cannot begin in {path}.{needs} {found.reason}", CHANGE_DIRECTORY_ADVICE)
    click.echo(f"[stoker] The job begins in its own working directory, not in {path}. {found.reason}", err=True)
    return ""


def _word_naming_local_file(command: Sequence[str]) -> str:
    """A word of the command that names a file in the current directory."""
    words = (word for word in command if word and not word.startswith(("-", "/")))
    return next((word for word in words if len(word) < MAX_WORD_CHARS and "\0" not in word and Path(word).exists()), "")
