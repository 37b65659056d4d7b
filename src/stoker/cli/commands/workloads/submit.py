"""`stoker submit`."""

from typing import Any

import click

from stoker.cli.attach import Printer, attach, say_end, stay
from stoker.cli.jobs import job_body, job_options
from stoker.cli.options import reaches_server, typed
from stoker.cli.outcome import exit_code
from stoker.cli.output import Column, is_text, show_done, show_one
from stoker.cli.progress import Progress, standing
from stoker.cli.refs import found
from stoker.cli.session import connect

CREATED = (Column("Id", "workloadId"),)
REHEARSED = (
    Column("Accepted", "accepted"),
    Column("Message", "message"),
    Column("Place", "schedulerOrder", show=lambda place: str(place or "-")),
)
ENDED = (Column("Id", "workloadId"), Column("Phase", "phase"), Column("Message", "message"))


@click.command("submit", context_settings={"allow_interspersed_args": False})
@click.option("--file", "-f", metavar="FILE", help="YAML or JSON with the fields of the API; - is stdin.")
@job_options(more=True)
@click.option("--dry-run", is_flag=True, help="Check everything and submit nothing; 0 only when it would be accepted.")
@click.option("--wait", is_flag=True, help="Wait for its end; 0 only when it succeeded.")
@click.option("--follow", is_flag=True, help="Print what it prints, and end with its exit code.")
@reaches_server
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context,
    command: tuple[str, ...],
    file: str | None,
    dry_run: bool,
    wait: bool,
    follow: bool,
    **given: Any,
) -> None:
    """Submit a workload. A flag wins over the same field of the file.

    In a file the script may be plain text under `script`. Whatever is left out has the default of the flag.

    \b
    stoker submit -f job.yaml
    stoker submit -f job.yaml --name again --gpu 4 --follow
    stoker submit --gpu 8 --replicas 2 --kind PyTorchJob --memory 256Gi -- torchrun train.py
    """
    body = job_body(given, command, file)
    client = connect()
    if given["after"]:
        body["dependencies"] = [found(client, each).workload_id for each in given["after"]]
    if dry_run:
        verdict = client.workloads.rehearse(body)
        show_one(verdict, REHEARSED)
        ctx.exit(0 if verdict.accepted else 1)
    made = client.workloads.create(body)
    workload_id = made.workload_id
    if not (wait or follow):
        interactive = body["groupVersionKind"].get("kind") == "Authoring"
        following = typed("shell", workload_id) if interactive else typed("logs", "-f", workload_id)
        show_done(made, CREATED, f"Submitted {workload_id}.\nNext: {following}")
        return
    if is_text():
        click.echo(f"Submitted {workload_id}.", err=True)
    if follow:
        from stoker.client.follow import LogChoice

        printer = Printer(pods=body["resource"]["replica"] > 1)
        detail = attach(client, workload_id, LogChoice(every_attempt=True), printer, Progress())
        say_end(detail)
        ctx.exit(exit_code(detail))
    detail = stay(client, workload_id)
    show_done(detail, ENDED, standing(detail))
    ctx.exit(0 if detail.phase == "Succeeded" else 1)
