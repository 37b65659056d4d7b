"""`stoker run`: runs a command as a job, prints its output and returns its exit code."""

from typing import Any

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.exit_status import job_exit_code
from stoker.cli.core.options import connection_options
from stoker.cli.input.job_spec import build_job_body, job_options, start_in_directory
from stoker.cli.input.working_directory import resolve_working_directory, working_directory_option
from stoker.cli.remote.attach import follow_workload, report_end
from stoker.cli.remote.resolve import resolve_workspace
from stoker.cli.render.log_printer import LogPrinter
from stoker.cli.render.progress import WorkloadProgress


@click.command("run", context_settings={"allow_interspersed_args": False})
@job_options()
@working_directory_option
@click.option("--quiet", "-q", is_flag=True, help="Print only the output of the command.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@connection_options()
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run_command(
    ctx: click.Context, command: tuple[str, ...], here: bool | None, quiet: bool, timestamps: bool, **given: Any
) -> None:
    """Run a command as a job with one replica, print its output as it appears, and return its exit code.

    A single argument with spaces is a shell command line. Ctrl-C detaches; the job continues to run.

    \b
    stoker run -- python -c 'print("hi")'
    stoker run --gpu 1 --memory 16Gi -- python train.py
    stoker run 'nvidia-smi && df -h'
    """
    if not command:
        raise click.UsageError("Say what to run, for example: stoker run -- python train.py")
    from stoker.client.follow import LogSelection

    body = build_job_body(given, command)
    client = connect()
    if given["cluster"]:
        body["workspaceId"] = resolve_workspace(client, given["cluster"], given["workspace"])
    if directory := resolve_working_directory(client, body.get("workspaceId"), here, command):
        start_in_directory(body, directory)
    made = client.workloads.create(body).workload_id
    printer = LogPrinter(timestamps=timestamps, plain=True)
    detail = follow_workload(client, made, LogSelection(all_attempts=True), printer, WorkloadProgress(quiet=quiet))
    report_end(detail, quiet=quiet)
    ctx.exit(job_exit_code(detail))
