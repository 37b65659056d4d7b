"""The entry point. What it imports is what `stoker --help` costs, so it imports click and the table."""

import importlib
import io
import os
import sys
from typing import Any, NoReturn, TextIO

import click

from stoker import __version__
from stoker.cli.groups import Verbs
from stoker.cli.options import connection_options, output_options
from stoker.cli.table import SECTIONS, VERBS

INTERRUPTED = 130
READER_GONE = 141
EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 not allowed, 5 server unreachable."


class Root(Verbs):
    """The table as a group: a verb's module is imported when the verb is typed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return importlib.import_module(f"stoker.cli.verbs.{VERBS[cmd_name][0]}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb, help_text) for verb, (_, help_text) in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(verb, help=VERBS[verb][1]) for verb in VERBS if verb.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's last flush complains
            ctx.exit(READER_GONE)
        except Exception as error:
            from stoker.cli.failures import explained

            raise explained(error, ctx) from error


@click.group(cls=Root, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="stoker %(version)s")
@output_options(from_environment=True)
@connection_options(from_environment=True)
def cli() -> None:
    """Stoker runs GPU workloads and shows what the GPUs really do."""


def main() -> NoReturn:
    """Run the command line; no ending of it is a traceback."""
    _prepare_streams()
    try:
        code = cli.main(prog_name="stoker", standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _prepare_streams() -> None:
    """A stream that was closed is an empty one; a terminal that cannot show a sign shows another."""
    sys.stdin = sys.stdin or _nothing("r")
    sys.stdout = sys.stdout or _nothing("w")
    sys.stderr = sys.stderr or _nothing("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _nothing(mode: str) -> TextIO:
    return io.TextIOWrapper(os.fdopen(os.open(os.devnull, os.O_RDWR), f"{mode}b"))
