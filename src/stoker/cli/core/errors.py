"""How a command fails: the message, the next command to type, and the exit code for scripts."""

import re
from typing import IO, Any

import click

from stoker.cli.core.click_group import COMMAND_KEY
from stoker.cli.core.options import CREDENTIAL_KEY, SERVER_KEY, command_line
from stoker.cli.render.sanitize import sanitize_paragraph
from stoker.client.transport.request_flow import Unreachable
from stoker.client.transport.server_address import DEFAULT_SERVER, is_loopback
from stoker.client.transport.unix_socket import local_data_dir, socket_path
from stoker.domain.errors import ErrorCode, StokerError

_COMMAND_BY_NOUN = {"API key": "key", "application": "app"}
_LISTABLE_NOUNS = ("user", "workspace", "department", "cluster", "API key", "application")


class CommandError(click.ClickException):
    """A failure, printed on stderr; each kind has an exit code."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", following: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.following = following

    def show(self, file: IO[Any] | None = None) -> None:
        lines = [f"{click.style('Error:', fg='red', bold=True)} {sanitize_paragraph(self.message)}"]
        lines += [sanitize_paragraph(self.hint)] if self.hint else []
        lines += [f"Next: {self.following}"] if self.following else []
        click.echo("\n".join(lines), file=file, err=file is None, color=self.show_color)


class BadUsageError(CommandError):
    exit_code = 2


class NotFoundError(CommandError):
    exit_code = 3


class NotAllowedError(CommandError):
    exit_code = 4


class ServerUnreachableError(CommandError):
    exit_code = 5


_ERROR_BY_CODE = {
    ErrorCode.BAD_REQUEST: BadUsageError,
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.UNAUTHENTICATED: NotAllowedError,
    ErrorCode.FORBIDDEN: NotAllowedError,
}


def to_command_error(error: Exception, ctx: click.Context) -> Exception:
    """The failure for an error; errors that are bugs are returned unchanged."""
    match error:
        case Unreachable():
            return ServerUnreachableError(error.message, _server_hint(error, ctx), _reach_command(error.server, ctx))
        case StokerError():
            kind = _ERROR_BY_CODE.get(error.code, CommandError)
            return kind(error.message, _credential_hint(error, ctx) or error.hint, _next_command(error, ctx))
        case OSError(filename=str() as name, strerror=str() as reason):
            return CommandError(f"{name}: {reason}.", following="stoker check")
        case _:
            return error


def _credential_hint(error: StokerError, ctx: click.Context) -> str:
    """Where a rejected credential came from, which the server cannot know."""
    used = ctx.meta.get(CREDENTIAL_KEY) if error.code is ErrorCode.UNAUTHENTICATED else None
    return f"Credential: {used}." if used else ""


def _server_hint(error: Unreachable, ctx: click.Context) -> str:
    """Which other addresses were tried when no server was given."""
    if SERVER_KEY in ctx.meta or socket_path(error.server) is not None or error.broke_off:
        return error.hint
    return f"No server runs on the data dir {local_data_dir()} either."


def _reach_command(server: str, ctx: click.Context) -> str:
    if not is_loopback(server):
        return f"stoker --server {server} check"
    return "stoker serve" if SERVER_KEY not in ctx.meta or server == DEFAULT_SERVER else "stoker check"


def _next_command(error: StokerError, ctx: click.Context) -> str:
    """The next command to type."""
    stoker = command_line()
    command: str = ctx.meta.get(COMMAND_KEY, "stoker")
    match error.code:
        case ErrorCode.UNAUTHENTICATED:
            return f"{stoker} login"
        case ErrorCode.FORBIDDEN:
            return f"{stoker} whoami"
        case ErrorCode.BAD_REQUEST:
            return f"{command} --help"
        case ErrorCode.NOT_FOUND | ErrorCode.ALREADY_EXISTS:
            return _list_command(error.message, stoker)
        case ErrorCode.INTERNAL | ErrorCode.UNAVAILABLE:
            return f"{stoker} check"
        case _:
            return ""


def _list_command(message: str, stoker: str) -> str:
    if 'here is no workload "' in message:
        return f"{stoker} list"
    found = re.match(rf'There is (?:no|already an?) ({"|".join(_LISTABLE_NOUNS)}) "', message)
    return f"{stoker} {_COMMAND_BY_NOUN.get(found[1], found[1])} list" if found else ""
