"""Operations on several workloads: prints the result of each; the exit code is that of the first failure."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.core.errors import CommandError, to_command_error
from stoker.cli.remote.resolve import require_ref, resolve_name
from stoker.cli.render.output import Column, is_text, show_one
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.results import BatchResult

COLUMNS = (
    Column("Done", "succeeded"),
    Column("Failed", "failed"),
    Column("Clones", "clones"),
    Column("Unchanged", "unchanged"),
)


def run_batch(
    client: "Stoker",
    refs: Sequence[str],
    act: "Callable[[Sequence[str]], BatchResult]",
    sentence: Callable[[str, str], str],
    after: "Callable[[BatchResult], None]" = lambda _: None,
) -> None:
    """Apply an operation to all ids in one request, and to resolved names in a second one.

    `sentence` describes a success, given the id and, for a clone, the new id. `after` is called when the successes were
    printed, before failures are reported.
    """
    from stoker.client.results import BatchResult

    asked = list(dict.fromkeys(refs)) or [require_ref(client, None)]
    first = act(asked)
    names = [failed.workload_id for failed in first.failed if failed.error.code is ErrorCode.NOT_FOUND]
    ids, unknown = _resolve_names(client, names)
    second = act(ids) if ids else BatchResult(succeeded=())
    done = BatchResult(
        succeeded=(*first.succeeded, *second.succeeded),
        failed=(*(each for each in first.failed if each.workload_id not in names), *second.failed),
        clones=(*first.clones, *second.clones),
        unchanged=(*first.unchanged, *second.unchanged),
    )
    _report_batch(done, unknown, sentence, after)


def batch_of_singles(act: Callable[[str], None]) -> "Callable[[Sequence[str]], BatchResult]":
    """A batch of an operation that the server applies to one workload at a time."""
    from stoker.client.results import BatchResult
    from stoker.wire.management import BatchFailure

    def act_on_all(ids: Sequence[str]) -> BatchResult:
        done: list[str] = []
        failed: list[BatchFailure] = []
        for workload_id in ids:
            try:
                act(workload_id)
                done.append(workload_id)
            except StokerError as error:
                failed.append(BatchFailure.from_error(workload_id, error))
        return BatchResult(succeeded=tuple(done), failed=tuple(failed))

    return act_on_all


def _resolve_names(client: "Stoker", names: Sequence[str]) -> tuple[list[str], list[CommandError]]:
    """The ids of these names, and the errors of those that have none."""
    ids: list[str] = []
    unknown: list[CommandError] = []
    for name in names:
        try:
            ids.append(resolve_name(client, name))
        except CommandError as failure:
            unknown.append(failure)
    return ids, unknown


def _report_batch(
    done: "BatchResult",
    unknown: Sequence[CommandError],
    sentence: Callable[[str, str], str],
    after: "Callable[[BatchResult], None]",
) -> None:
    ctx = click.get_current_context()
    clones = [*done.clones, *[""] * (len(done.succeeded) - len(done.clones))]
    if is_text():
        for workload_id, clone in zip(done.succeeded, clones, strict=True):
            click.echo(sentence(workload_id, clone))
    else:
        show_one(done, COLUMNS)
    after(done)
    failures = [*unknown, *(_to_command_error(each.workload_id, each.error, ctx) for each in done.failed)]
    for failure in failures[1:]:
        failure.show()
    if failures:
        raise failures[0]


def _to_command_error(workload_id: str, error: StokerError, ctx: click.Context) -> CommandError:
    named = error if workload_id in error.message else StokerError(error.code, f"{workload_id}: {error.message}")
    failure = to_command_error(named, ctx)
    return failure if isinstance(failure, CommandError) else CommandError(named.message)
