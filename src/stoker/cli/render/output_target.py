"""Where a report goes and in which form: `-o csv` prints it, `-o usage.csv` writes it into a file."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from stoker.cli.options import OUTPUT, OUTPUTS, connection_options
from stoker.cli.output import chosen_output

FORMS = ("table", "wide", "json", "yaml", "csv", "parquet")
FILE_FORMS = ("json", "yaml", "csv", "parquet")

C = TypeVar("C", bound=Callable[..., Any])


class Destination(Struct, frozen=True):
    """`file` of None is the terminal or the pipe."""

    form: str
    file: Path | None

    @property
    def is_text(self) -> bool:
        """Whether a person reads this."""
        return self.form in {"table", "wide"}

    def write(self, content: bytes) -> None:
        if self.file is None:
            click.echo(content, nl=False)
            return
        self.file.write_bytes(content)
        click.echo(f"Wrote {self.file} ({len(content):,} bytes).", err=True)


def report_options(command: C) -> C:
    """The options of a verb whose answer may become a file."""
    output = click.option(
        "-o",
        "--output",
        metavar="FORM|FILE",
        help=f"A form to print ({', '.join(OUTPUTS)}), or a file to write (.csv, .json, .yaml or .parquet).",
    )
    form = click.option("--format", "form", type=click.Choice(FORMS), help="The form, where -o does not say it.")
    short = click.option("--json", "form", flag_value="json", help="Short for -o json.")
    return connection_options()(output(form(short(command))))


def destination(output: str | None, form: str | None) -> Destination:
    """What was asked for; a file's form is that of its name, unless another is named."""
    if output is None or output in FORMS:
        chosen = form or output or chosen_output()
        file = None
    else:
        file = Path(output).expanduser()
        chosen = form or file.suffix.lower().removeprefix(".").replace("yml", "yaml")
        if chosen not in FILE_FORMS:
            raise click.UsageError(
                f'"{output}" is neither a form nor the name of a file with one. '
                "Use for example -o csv, -o usage.csv, or -o usage.txt --format csv."
            )
    if chosen == "parquet" and file is None and sys.stdout.isatty():
        raise click.UsageError("Parquet cannot be read on a terminal. Write it into a file: -o usage.parquet")
    click.get_current_context().meta[OUTPUT] = chosen  # what it decides is decided for everything that is printed
    return Destination(chosen, file)
