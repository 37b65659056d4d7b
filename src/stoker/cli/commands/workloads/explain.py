"""`stoker explain`."""

import shlex
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import command_line, server_options
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.format import format_resource, format_resource_cell
from stoker.cli.render.output import Column, is_text, show_one, show_table
from stoker.cli.render.sanitize import sanitize_line

if TYPE_CHECKING:
    from stoker.wire.workloads import ExplanationBlocker, ResourceAmounts, SuggestedEdit, WorkloadExplanation

COLUMNS = (Column("Id", "workloadId"), Column("Phase", "phase"), Column("Why", "reason.sentence"))
FLAG_BY_FIELD = {"replica": "--replicas", "maxRetry": "--max-retry", "specifiedNodes": "--node"}
VALUELESS_FLAGS = {
    ("specifiedNodes", False): "--any-node",
    ("preemptible", True): "--preemptible",
    ("preemptible", False): "--not-preemptible",
}
HIDDEN_WORKLOAD = "(one you may not see)"


@click.command("explain")
@click.argument("workload", required=False)
@server_options
def explain_command(workload: str | None) -> None:
    """Explain why a workload is pending, by id or name: queue position, blockers, and changes that would start it.

    \b
    stoker explain train-b2c4d
    """
    client = connect()
    detail = resolve_workload(client, workload, or_newest=True)
    explanation = client.workloads.explain(detail.workload_id)
    if is_text():
        _show_explanation(explanation, detail.phase)
    else:
        show_one(explanation, COLUMNS)


def _show_explanation(explanation: "WorkloadExplanation", phase: str) -> None:
    name = explanation.workload_id
    why = sanitize_line(explanation.reason.sentence)
    click.echo(f"{name} is {phase}{f': {why}' if why else '.'}")
    if explanation.order:
        ahead = [format_resource(unit, amount) for unit, amount in _amounts(explanation.ahead) if amount != "0"]
        before = f"; before it others ask for {', '.join(ahead)}" if ahead else ""
        click.echo(f"Its place in the queue is {explanation.order}{before}.")
    if explanation.blocking:
        click.echo("\nIn its way:")
        rows = [
            [
                each.workload_id or HIDDEN_WORKLOAD,
                each.phase or "-",
                *(format_resource_cell(unit, amount) for unit, amount in _amounts(each.resource)),
                _blocking_reason(each),
            ]
            for each in explanation.blocking
        ]
        show_table(("WORKLOAD", "PHASE", "GPU", "CPU", "MEMORY", "WHY"), rows, folded="WHY")
    if explanation.edits:
        click.echo("\nWhat would help:")
        for edit in explanation.edits:
            click.echo(f"  {sanitize_line(edit.sentence)}")
            click.echo(f"    {to_patch_command(name, edit)}")


def _amounts(amounts: "ResourceAmounts") -> list[tuple[str, str]]:
    return [("gpu", amounts.gpu), ("cpu", amounts.cpu), ("memory", amounts.memory)]


def _blocking_reason(blocking: "ExplanationBlocker") -> str:
    until = blocking.guaranteed_until
    return sanitize_line(blocking.why) + (f", guaranteed until {until:%Y-%m-%dT%H:%M:%SZ}" if until else "")


def to_patch_command(workload_id: str, edit: "SuggestedEdit") -> str:
    """The `stoker patch` command that applies this suggestion."""
    words: list[str] = []
    for field, value in edit.patch.items():
        flag = FLAG_BY_FIELD.get(field, f"--{field}")
        if value == [] or isinstance(value, bool):
            words.append(VALUELESS_FLAGS[field, bool(value)])
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [flag, shlex.quote(str(each))]
    return command_line("patch", workload_id, *words)
