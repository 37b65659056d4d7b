"""How a verb fails: what happened and why, what to type next, and the exit code that scripts read."""

import re
from typing import IO, Any

import click

from stoker.cli.groups import COMMAND
from stoker.cli.options import CREDENTIAL, typed
from stoker.cli.untrusted import paragraph
from stoker.client.address import DEFAULT_SERVER, is_loopback
from stoker.client.exchange import Unreachable
from stoker.domain.errors import ErrorCode, StokerError

_GROUP_OF = {"API key": "key", "application": "app"}
_LISTED = ("user", "workspace", "department", "cluster", "API key", "application")


class Failure(click.ClickException):
    """A failure, shown on stderr; each kind that a script may tell apart has its exit code."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "", following: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.following = following

    def show(self, file: IO[Any] | None = None) -> None:
        lines = [f"{click.style('Error:', fg='red', bold=True)} {paragraph(self.message)}"]
        lines += [paragraph(self.hint)] if self.hint else []
        lines += [f"Next: {self.following}"] if self.following else []
        click.echo("\n".join(lines), file=file, err=file is None, color=self.show_color)


class Misused(Failure):
    exit_code = 2


class NotFound(Failure):
    exit_code = 3


class NotAllowed(Failure):
    exit_code = 4


class NotReached(Failure):
    exit_code = 5


_KINDS = {
    ErrorCode.BAD_REQUEST: Misused,
    ErrorCode.NOT_FOUND: NotFound,
    ErrorCode.NOT_SIGNED_IN: NotAllowed,
    ErrorCode.NOT_ALLOWED: NotAllowed,
}


def explained(error: Exception, ctx: click.Context) -> Exception:
    """The failure that an error is; what is no one's fault but ours stays as it is."""
    match error:
        case Unreachable():
            return NotReached(error.message, error.hint, _to_reach(error.server))
        case StokerError():
            kind = _KINDS.get(error.code, Failure)
            return kind(error.message, _why(error, ctx) or error.hint, _following(error, ctx))
        case OSError(filename=str() as name, strerror=str() as reason):
            return Failure(f"{name}: {reason}.", following="stoker check")
        case _:
            return error


def _why(error: StokerError, ctx: click.Context) -> str:
    """Where a credential that was refused came from; the server cannot know."""
    used = ctx.meta.get(CREDENTIAL) if error.code is ErrorCode.NOT_SIGNED_IN else None
    return f"Credential: {used}." if used else ""


def _to_reach(server: str) -> str:
    if not is_loopback(server):
        return f"stoker --server {server} check"
    return "stoker serve" if server == DEFAULT_SERVER else "stoker check"


def _following(error: StokerError, ctx: click.Context) -> str:
    """The next command to type."""
    stoker = typed()
    command: str = ctx.meta.get(COMMAND, "stoker")
    match error.code:
        case ErrorCode.NOT_SIGNED_IN:
            return f"{stoker} login"
        case ErrorCode.NOT_ALLOWED:
            return f"{stoker} whoami"
        case ErrorCode.BAD_REQUEST:
            return f"{command} --help"
        case ErrorCode.NOT_FOUND | ErrorCode.EXISTS:
            return _list_of(error.message, stoker)
        case ErrorCode.INTERNAL | ErrorCode.BACKEND_DOWN:
            return f"{stoker} check"
        case _:
            return ""


def _list_of(message: str, stoker: str) -> str:
    if 'here is no workload "' in message:
        return f"{stoker} list"
    found = re.match(rf'There is (?:no|already an?) ({"|".join(_LISTED)}) "', message)
    return f"{stoker} {_GROUP_OF.get(found[1], found[1])} list" if found else ""
