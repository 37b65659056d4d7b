"""`stoker explain`."""

import shlex
from typing import TYPE_CHECKING

import click

from stoker.cli.options import reaches_server, typed
from stoker.cli.output import Column, is_text, show_one, show_table
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.untrusted import printable

if TYPE_CHECKING:
    from stoker.client.workload_shapes import Blocking, Edit, Explanation

COLUMNS = (Column("Id", "workloadId"), Column("Phase", "phase"), Column("Why", "reason.sentence"))
UNITS = {"gpu": "GPUs", "cpu": "CPUs", "memory": "of memory"}
FLAGS = {"replica": "--replicas", "maxRetry": "--max-retry", "specifiedNodes": "--node"}
WITHOUT_VALUE = {
    ("specifiedNodes", False): "--any-node",
    ("preemptible", True): "--preemptible",
    ("preemptible", False): "--not-preemptible",
}
HIDDEN = "(one you may not see)"


@click.command("explain")
@click.argument("workload", required=False)
@reaches_server
def command(workload: str | None) -> None:
    """Say why a workload waits, by id or name: what is before it, what is in its way, what would help.

    \b
    stoker explain train-b2c4d
    """
    client = connect()
    detail = found(client, workload)
    explanation = client.workloads.explain(detail.workload_id)
    if is_text():
        _show(explanation, detail.phase)
    else:
        show_one(explanation, COLUMNS)


def _show(explanation: "Explanation", phase: str) -> None:
    name = explanation.workload_id
    why = printable(explanation.reason.sentence)
    click.echo(f"{name} is {phase}{f': {why}' if why else '.'}")
    if explanation.order:
        ahead = [f"{amount} {UNITS.get(unit, unit)}" for unit, amount in explanation.ahead.items() if amount != "0"]
        before = f"; before it others ask for {', '.join(ahead)}" if ahead else ""
        click.echo(f"Its place in the queue is {explanation.order}{before}.")
    if explanation.blocking:
        click.echo("\nIn its way:")
        rows = [
            [
                each.workload_id or HIDDEN,
                each.phase or "-",
                *(each.resource.get(unit, "-") for unit in UNITS),
                _why(each),
            ]
            for each in explanation.blocking
        ]
        show_table(("WORKLOAD", "PHASE", "GPU", "CPU", "MEMORY", "WHY"), rows)
    if explanation.edits:
        click.echo("\nWhat would help:")
        for edit in explanation.edits:
            click.echo(f"  {printable(edit.sentence)}")
            click.echo(f"    {as_command(name, edit)}")


def _why(blocking: "Blocking") -> str:
    until = blocking.guaranteed_until
    return printable(blocking.why) + (f", guaranteed until {until:%Y-%m-%dT%H:%M:%SZ}" if until else "")


def as_command(workload_id: str, edit: "Edit") -> str:
    """The `stoker patch` that makes this edit."""
    words: list[str] = []
    for field, value in edit.patch.items():
        flag = FLAGS.get(field, f"--{field}")
        if value == [] or isinstance(value, bool):
            words.append(WITHOUT_VALUE[field, bool(value)])
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [flag, shlex.quote(str(each))]
    return typed("patch", workload_id, *words)
