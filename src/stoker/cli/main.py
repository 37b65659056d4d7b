"""The entry point. Its imports determine the time of `stoker --help`, so it imports only click and the registry."""

import importlib
import io
import os
import sys
from typing import Any, NoReturn, TextIO

import click

from stoker import __version__
from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.options import connection_options, output_options
from stoker.cli.registry import COMMANDS, SECTIONS

INTERRUPTED_EXIT_CODE = 130
BROKEN_PIPE_EXIT_CODE = 141
EPILOG = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 not allowed, 5 server unreachable."


class RootCommand(CommandGroup):
    """The root command; the module of a command is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        return getattr(importlib.import_module(f"stoker.cli.commands.{module}"), function)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(verb, help_text) for verb, (_, _, help_text) in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(verb, help=COMMANDS[verb][2]) for verb in COMMANDS if verb.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            # Otherwise the interpreter's final flush fails.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE_EXIT_CODE)
        except Exception as error:
            from stoker.cli.core.errors import to_command_error

            raise to_command_error(error, ctx) from error


@click.group(cls=RootCommand, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="stoker %(version)s")
@output_options(from_environment=True)
@connection_options(from_environment=True)
def cli() -> None:
    """Stoker runs GPU workloads and shows what the GPUs really do."""


def main() -> NoReturn:
    """Run the command line; no error prints a traceback."""
    _prepare_streams()
    try:
        code = cli.main(prog_name="stoker", standalone_mode=False, color=False if os.environ.get("NO_COLOR") else None)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED_EXIT_CODE)
    sys.exit(code if isinstance(code, int) else 0)


def _prepare_streams() -> None:
    """Replace closed streams by empty ones, and characters that a terminal cannot encode."""
    sys.stdin = sys.stdin or _null_stream("r")
    sys.stdout = sys.stdout or _null_stream("w")
    sys.stderr = sys.stderr or _null_stream("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _null_stream(mode: str) -> TextIO:
    return io.TextIOWrapper(os.fdopen(os.open(os.devnull, os.O_RDWR), f"{mode}b"))
