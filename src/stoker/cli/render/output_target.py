"""The destination and format of a report: `-o csv` prints it, `-o usage.csv` writes a file."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from stoker.cli.core.options import OUTPUT_FORMATS, OUTPUT_KEY, connection_options
from stoker.cli.render.output import selected_output

REPORT_FORMATS = ("table", "wide", "json", "yaml", "csv", "parquet")
FILE_FORMATS = ("json", "yaml", "csv", "parquet")

C = TypeVar("C", bound=Callable[..., Any])


class OutputTarget(Struct, frozen=True):
    """`file` is None for stdout."""

    output_format: str
    file: Path | None

    @property
    def is_text(self) -> bool:
        """Whether the output is for people."""
        return self.output_format in {"table", "wide"}

    def write(self, content: bytes) -> None:
        if self.file is None:
            click.echo(content, nl=False)
            return
        self.file.write_bytes(content)
        click.echo(f"Wrote {self.file} ({len(content):,} bytes).", err=True)


def report_options(command: C) -> C:
    """The options of a command whose result can be exported."""
    output = click.option(
        "-o",
        "--output",
        metavar="FORM|FILE",
        help=f"A form to print ({', '.join(OUTPUT_FORMATS)}), or a file to write (.csv, .json, .yaml or .parquet).",
    )
    form = click.option(
        "--format", "form", type=click.Choice(REPORT_FORMATS), help="The form, where -o does not say it."
    )
    short = click.option("--json", "form", flag_value="json", help="Short for -o json.")
    return connection_options()(output(form(short(command))))


def resolve_output_target(output: str | None, form: str | None) -> OutputTarget:
    """The requested target; the format of a file follows from its suffix unless `--format` is given."""
    if output is None or output in REPORT_FORMATS:
        chosen = form or output or selected_output()
        file = None
    else:
        file = Path(output).expanduser()
        chosen = form or file.suffix.lower().removeprefix(".").replace("yml", "yaml")
        if chosen not in FILE_FORMATS:
            raise click.UsageError(
                f'"{output}" is neither a form nor the name of a file with one. '
                "Use for example -o csv, -o usage.csv, or -o usage.txt --format csv."
            )
    if chosen == "parquet" and file is None and sys.stdout.isatty():
        raise click.UsageError("Parquet cannot be read on a terminal. Write it into a file: -o usage.parquet")
    click.get_current_context().meta[OUTPUT_KEY] = chosen  # the format applies to everything that is printed
    return OutputTarget(chosen, file)
