"""`stoker resume`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.batches import act_on_each
from stoker.cli.options import reaches_server
from stoker.cli.session import connect
from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from stoker.client.workload_shapes import Batch


@click.command("resume")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@reaches_server
def command(workloads: tuple[str, ...]) -> None:
    """Queue stopped workloads again, by id or name, each as a new attempt.

    \b
    stoker resume train-b2c4d
    """
    from stoker.client.workload_shapes import Batch, BatchFailure

    client = connect()

    def resume(ids: Sequence[str]) -> "Batch":
        """One by one, for there is no batch of this."""
        done: list[str] = []
        failed: list[BatchFailure] = []
        for workload_id in ids:
            try:
                client.workloads.resume(workload_id)
                done.append(workload_id)
            except StokerError as error:
                failed.append(BatchFailure.of(workload_id, error))
        return Batch(succeeded=tuple(done), failed=tuple(failed))

    act_on_each(client, workloads, resume, lambda workload_id, _: f"Resumed {workload_id}.")
