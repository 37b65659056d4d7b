"""`stoker submit`."""

from typing import Any

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.exit_status import job_exit_code
from stoker.cli.core.options import command_line, server_options
from stoker.cli.input.job_spec import build_job_body, has_inline_script, job_options, start_in_directory
from stoker.cli.input.working_directory import resolve_working_directory, working_directory_option
from stoker.cli.remote.attach import follow_workload, report_end, wait_for_workload
from stoker.cli.remote.resolve import resolve_workload, resolve_workspace
from stoker.cli.render.log_printer import LogPrinter
from stoker.cli.render.output import Column, is_text, show_one, show_result
from stoker.cli.render.progress import WorkloadProgress, format_status

CREATED_COLUMNS = (Column("Id", "workloadId"),)
DRY_RUN_COLUMNS = (
    Column("Accepted", "accepted"),
    Column("Message", "message"),
    Column("Place", "schedulerOrder", formatter=lambda place: str(place or "-")),
)
FINISHED_COLUMNS = (Column("Id", "workloadId"), Column("Phase", "phase"), Column("Message", "message"))


@click.command("submit", context_settings={"allow_interspersed_args": False})
@click.option("--file", "-f", metavar="FILE", help="YAML or JSON with the fields of the API; - is stdin.")
@job_options(more=True)
@working_directory_option
@click.option(
    "--dry-run", is_flag=True, help="Run all checks without submitting; exit code 0 only if it would be accepted."
)
@click.option("--wait", is_flag=True, help="Wait until it has ended; exit code 0 only if it succeeded.")
@click.option("--follow", is_flag=True, help="Print its logs and return its exit code.")
@server_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def submit_command(
    ctx: click.Context,
    command: tuple[str, ...],
    file: str | None,
    here: bool | None,
    dry_run: bool,
    wait: bool,
    follow: bool,
    **given: Any,
) -> None:
    """Submit a workload. An option overrides the same field of the file.

    In a file the script may be plain text under `script`. Omitted fields have the defaults of the options. A script
    given by options starts in the current directory, as with `stoker run`; the script of a file starts in the
    workload's own directory.

    \b
    stoker submit -f job.yaml
    stoker submit -f job.yaml --name again --gpu 4 --follow
    stoker submit --gpu 8 --replicas 2 --kind PyTorchJob --memory 256Gi -- torchrun train.py
    """
    body = build_job_body(given, command, file)
    client = connect()
    if given["cluster"]:
        body["workspaceId"] = resolve_workspace(client, given["cluster"], body.get("workspaceId"))
    if has_inline_script(given, command):
        directory = resolve_working_directory(client, body.get("workspaceId"), here, command)
        if directory:
            start_in_directory(body, directory)
    if given["after"]:
        body["dependencies"] = [resolve_workload(client, each).workload_id for each in given["after"]]
    if dry_run:
        verdict = client.workloads.dry_run(body)
        show_one(verdict, DRY_RUN_COLUMNS)
        ctx.exit(0 if verdict.accepted else 1)
    made = client.workloads.create(body)
    workload_id = made.workload_id
    if not (wait or follow):
        interactive = body["groupVersionKind"].get("kind") == "Authoring"
        following = command_line("shell", workload_id) if interactive else command_line("logs", "-f", workload_id)
        show_result(made, CREATED_COLUMNS, f"Submitted {workload_id}.\nNext: {following}")
        return
    if is_text():
        click.echo(f"Submitted {workload_id}.", err=True)
    if follow:
        from stoker.client.follow import LogSelection

        printer = LogPrinter(pods=body["resource"]["replica"] > 1)
        detail = follow_workload(client, workload_id, LogSelection(all_attempts=True), printer, WorkloadProgress())
        report_end(detail)
        ctx.exit(job_exit_code(detail))
    detail = wait_for_workload(client, workload_id)
    show_result(detail, FINISHED_COLUMNS, format_status(detail))
    ctx.exit(0 if detail.phase == "Succeeded" else 1)
