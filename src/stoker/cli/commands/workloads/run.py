"""`stoker run`: a command as a job, with its output here and its exit code as ours."""

from pathlib import Path
from typing import Any

import click

from stoker.cli.attach import Printer, attach, say_end
from stoker.cli.jobs import job_body, job_options
from stoker.cli.options import connection_options
from stoker.cli.outcome import exit_code
from stoker.cli.progress import Progress
from stoker.cli.session import connect
from stoker.client.address import is_loopback


@click.command("run", context_settings={"allow_interspersed_args": False})
@job_options()
@click.option(
    "--here/--not-here",
    default=True,
    help="Begin in this directory, where the server is on this machine; else in the workload's own [default --here].",
)
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but what the command prints.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@connection_options()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, command: tuple[str, ...], here: bool, quiet: bool, timestamps: bool, **given: Any
) -> None:
    """Run a command as a job of one replica, print what it prints as it appears, and end with its exit code.

    A single word with blanks in it is a line for the shell. Ctrl-C leaves the job running.

    \b
    stoker run -- python -c 'print("hi")'
    stoker run --gpu 1 --memory 16Gi -- python train.py
    stoker run 'nvidia-smi && df -h'
    """
    if not command:
        raise click.UsageError("Say what to run, for example: stoker run -- python train.py")
    from stoker.client.follow import LogChoice

    client = connect()
    body = job_body(given, command, folder=str(Path.cwd()) if here and is_loopback(client.server) else "")
    made = client.workloads.create(body).workload_id
    printer = Printer(timestamps=timestamps, plain=True)
    detail = attach(client, made, LogChoice(every_attempt=True), printer, Progress(quiet=quiet))
    say_end(detail, quiet=quiet)
    ctx.exit(exit_code(detail))
