"""Whole lives of workloads at once, as if each had been written while it was lived.

The rows are those that `workloads.add`, `workloads.apply` and `pods` would have left behind, without the steps between.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from stoker.domain.lifecycle import Change
from stoker.domain.workload import Pod
from stoker.store import pods, workloads
from stoker.store.base import Transaction
from stoker.store.pods import Allocation
from stoker.store.workload_counts import move

ADD_PHASE = """
INSERT INTO phase_interval (workload_uid, version, phase, from_at, to_at)
VALUES (:uid, :version, :phase, :at, :to_at)
"""
ADD_POD = pods.ADD.replace("NULL)", ":ended_at)")
ADD_ALLOCATION = pods.ALLOCATE.replace("NULL)", ":to_at)")


class Held(Struct, frozen=True):
    """A GPU that a pod held; `to_at` is None while it still does."""

    allocation: Allocation
    to_at: int | None


class Life(Struct, frozen=True):
    """Every change of a workload, oldest first, and all its pods as they are now."""

    changes: Sequence[Change]
    pods: Sequence[Pod]
    held: Sequence[Held]


def add(transaction: Transaction, lives: Sequence[Life], told_since: int) -> None:
    """Write these lives. The event stream only tells of what happened since `told_since`."""
    last = [life.changes[-1].workload for life in lives]
    transaction.many(workloads.ADD, [workloads.params(workload) for workload in last])
    move(transaction, (), last)
    transaction.many(workloads.ADD_LABEL, [row for workload in last for row in workloads.label_rows(workload)])
    transaction.many(ADD_PHASE, [row for life in lives for row in _phases(life.changes)])
    said = [(at, row) for life in lives for at, row in _said(life.changes)]
    transaction.many(workloads.ADD_CONDITION, [row for _, row in said])
    told = sorted((pair for pair in said if pair[0] >= told_since), key=lambda pair: pair[0])
    transaction.many(workloads.ADD_CHANGE, [row for _, row in told])
    homes = [({"cluster_id": workload.cluster_id}, life) for workload, life in zip(last, lives, strict=True)]
    transaction.many(ADD_POD, [{**pods.params(pod), **home} for home, life in homes for pod in life.pods])
    transaction.many(
        ADD_ALLOCATION,
        [
            {**structs.asdict(each.allocation), **home, "to_at": each.to_at}
            for home, life in homes
            for each in life.held
        ],
    )
    open_ones = {each.allocation.workload_uid for life in lives for each in life.held if each.to_at is None}
    pods.add_up(transaction, open_ones)


def _phases(changes: Sequence[Change]) -> Iterator[dict[str, object]]:
    """One row for each time that it was in a phase; the last one is open unless it has ended."""
    moved = [
        change.workload
        for before, change in zip((None, *changes), changes, strict=False)
        if before is None or change.workload.phase is not before.workload.phase
    ]
    for workload, after in zip(moved, (*moved[1:], None), strict=True):
        if not workload.phase.ended:
            yield {
                "uid": workload.uid,
                "version": workload.version,
                "phase": workload.phase,
                "at": workload.phase_at,
                "to_at": after.phase_at if after else None,
            }


def _said(changes: Sequence[Change]) -> Iterator[tuple[int, dict[str, object]]]:
    """Every condition, and when it came."""
    for before, change in zip((None, *changes), changes, strict=False):
        moved = before is None or change.workload.phase is not before.workload.phase
        kind = "created" if before is None else "phase" if moved else "changed"
        rows = workloads.condition_rows(change.workload, change.conditions, kind)
        yield from ((condition.at, row) for condition, row in zip(change.conditions, rows, strict=True))
