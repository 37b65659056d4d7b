"""Several workloads at once: what became of each, and the exit code of the first that failed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.failures import Failure, explained
from stoker.cli.output import Column, is_text, show_one
from stoker.cli.refs import id_of_name, said
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.workload_shapes import Batch

COLUMNS = (Column("Done", "succeeded"), Column("Failed", "failed"), Column("Clones", "clones"))


def act_on_each(
    client: "Stoker",
    refs: Sequence[str],
    act: "Callable[[Sequence[str]], Batch]",
    sentence: Callable[[str, str], str],
) -> None:
    """Do it to all by id in one request, and to those that were names in a second one.

    `sentence` says what was done to an id; its second word is the clone's id where there is one.
    """
    from stoker.client.workload_shapes import Batch

    asked = list(dict.fromkeys(refs)) or [said(client, None)]
    first = act(asked)
    names = [failed.workload_id for failed in first.failed if failed.error.code is ErrorCode.NOT_FOUND]
    ids, unknown = _by_name(client, names)
    second = act(ids) if ids else Batch(succeeded=())
    done = Batch(
        succeeded=(*first.succeeded, *second.succeeded),
        failed=(*(each for each in first.failed if each.workload_id not in names), *second.failed),
        clones=(*first.clones, *second.clones),
    )
    _tell(done, unknown, sentence)


def one_by_one(act: Callable[[str], None]) -> "Callable[[Sequence[str]], Batch]":
    """A batch of something that the server does to one at a time."""
    from stoker.client.workload_shapes import Batch, BatchFailure

    def act_on_all(ids: Sequence[str]) -> Batch:
        done: list[str] = []
        failed: list[BatchFailure] = []
        for workload_id in ids:
            try:
                act(workload_id)
                done.append(workload_id)
            except StokerError as error:
                failed.append(BatchFailure.of(workload_id, error))
        return Batch(succeeded=tuple(done), failed=tuple(failed))

    return act_on_all


def _by_name(client: "Stoker", names: Sequence[str]) -> tuple[list[str], list[Failure]]:
    """The ids of these names, and why the others have none."""
    ids: list[str] = []
    unknown: list[Failure] = []
    for name in names:
        try:
            ids.append(id_of_name(client, name))
        except Failure as failure:
            unknown.append(failure)
    return ids, unknown


def _tell(done: "Batch", unknown: Sequence[Failure], sentence: Callable[[str, str], str]) -> None:
    ctx = click.get_current_context()
    clones = [*done.clones, *[""] * (len(done.succeeded) - len(done.clones))]
    if is_text():
        for workload_id, clone in zip(done.succeeded, clones, strict=True):
            click.echo(sentence(workload_id, clone))
    else:
        show_one(done, COLUMNS)
    failures = [*unknown, *(_failure(each.workload_id, each.error, ctx) for each in done.failed)]
    for failure in failures[1:]:
        failure.show()
    if failures:
        raise failures[0]


def _failure(workload_id: str, error: StokerError, ctx: click.Context) -> Failure:
    named = error if workload_id in error.message else StokerError(error.code, f"{workload_id}: {error.message}")
    failure = explained(named, ctx)
    return failure if isinstance(failure, Failure) else Failure(named.message)
