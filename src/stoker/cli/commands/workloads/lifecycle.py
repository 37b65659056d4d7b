"""`stoker stop`, `clone`, `delete`, `resume`, `rollback` and `suspend`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from stoker.cli.core.connection import connect
from stoker.cli.core.errors import CommandError
from stoker.cli.core.options import command_line, confirm, server_options, yes_option
from stoker.cli.input.time_params import DurationParam
from stoker.cli.remote.attach import wait_for_workload
from stoker.cli.remote.batches import batch_of_singles, run_batch
from stoker.cli.render.output import is_text, print_message
from stoker.cli.render.progress import format_status
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.status import NO_LEADER

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.results import BatchResult


@click.command("stop")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@click.option("--grace", type=DurationParam("0s", "1d"), help="Time between SIGTERM and SIGKILL [default 30s].")
@click.option("--now", is_flag=True, help="Send SIGKILL at once, also to workloads that are stopping.")
@click.option("--wait", is_flag=True, help="Wait until they have ended.")
@server_options
def stop_command(workloads: tuple[str, ...], grace: int | None, now: bool, wait: bool) -> None:
    """Stop workloads, by id or name. A workload that has ended stays unchanged; `stoker resume` starts a stopped one
    again.

    \b
    stoker stop train-b2c4d eval
    stoker stop train-b2c4d --grace 2m --wait
    stoker stop train-b2c4d --now
    """
    if now and grace is not None:
        raise click.UsageError("Use --grace or --now, not both: --now is a grace of 0.")
    client = connect()
    seconds = 0 if now else UNSET if grace is None else grace
    unchanged: set[str] = set()

    def stop(ids: Sequence[str]) -> "BatchResult":
        done = client.workloads.stop_many(ids, grace_period_seconds=seconds)
        unchanged.update(done.unchanged)
        return done

    def said(workload_id: str, _: str) -> str:
        return _unchanged_reason(client, workload_id) if workload_id in unchanged else f"Asked {workload_id} to stop."

    run_batch(
        client, workloads, stop, said, lambda done: _wait_until_finished(client, done.succeeded) if wait else None
    )


def _unchanged_reason(client: "Stoker", workload_id: str) -> str:
    """Why nothing was changed."""
    detail = client.workloads.get(workload_id)
    return (
        f"{workload_id} had ended already: {detail.phase}."
        if detail.is_finished
        else f"{workload_id} is stopping already."
    )


def _wait_until_finished(client: "Stoker", ids: Sequence[str]) -> None:
    for workload_id in ids:
        _check_can_end(client, workload_id)
        detail = wait_for_workload(client, workload_id)
        if is_text():
            click.echo(format_status(detail))


def _check_can_end(client: "Stoker", workload_id: str) -> None:
    """Fail if no server would carry out the stop, instead of waiting for it without end."""
    try:
        reason = client.workloads.explain(workload_id).reason
    except StokerError as error:
        if error.code not in {ErrorCode.NOT_FOUND, ErrorCode.TOO_MANY_REQUESTS}:
            raise
        return
    if reason.code == NO_LEADER:
        raise CommandError(f"{workload_id}: {reason.sentence}")


@click.command("clone")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@server_options
def clone_command(workloads: tuple[str, ...]) -> None:
    """Submit copies of workloads, by id or name; the copies are yours.

    \b
    stoker clone train-b2c4d
    """
    client = connect()
    run_batch(
        client,
        workloads,
        client.workloads.clone,
        lambda workload_id, clone: f"Submitted {clone}, a copy of {workload_id}.",
    )
    print_message(f"Next: {command_line('list')}")


@click.command("delete")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@yes_option
@server_options
def delete_command(workloads: tuple[str, ...], yes: bool) -> None:
    """Stop workloads and hide them, by id or name.

    \b
    stoker delete train-b2c4d --yes
    """
    if workloads:
        shown = ", ".join(workloads[:5]) + (f" and {len(workloads) - 5} more" if len(workloads) > 5 else "")
        confirm(f"Delete {shown}?", yes)
    client = connect()
    run_batch(client, workloads, client.workloads.delete_many, lambda workload_id, _: f"Deleted {workload_id}.")


@click.command("resume")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@server_options
def resume_command(workloads: tuple[str, ...]) -> None:
    """Queue stopped workloads again, by id or name, each as a new attempt.

    \b
    stoker resume train-b2c4d
    """
    client = connect()
    act = batch_of_singles(client.workloads.resume)
    run_batch(client, workloads, act, lambda workload_id, _: f"Resumed {workload_id}.")


@click.command("rollback")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@server_options
def rollback_command(workloads: tuple[str, ...]) -> None:
    """Return a Deployment or StatefulSet to its previous revision, by id or name.

    The spec of the previous revision becomes a new revision. Running replicas of the previous revision are kept.

    \b
    stoker rollback web-b2c4d
    """
    client = connect()
    act = batch_of_singles(client.workloads.rollback)
    run_batch(client, workloads, act, lambda workload_id, _: f"Rolling {workload_id} back.")


@click.command("suspend")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@server_options
def suspend_command(workloads: tuple[str, ...]) -> None:
    """Stop workloads, by id or name, so that `stoker resume` can continue them. A workload that ended by itself is
    refused.

    \b
    stoker suspend train-b2c4d eval
    """
    client = connect()
    act = batch_of_singles(client.workloads.suspend)
    run_batch(client, workloads, act, lambda workload_id, _: f"Asked {workload_id} to stop until it is resumed.")
