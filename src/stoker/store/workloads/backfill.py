"""Writes complete histories of workloads in one go.

The rows are the same that `transitions`, `pods` and `allocations` would have left after each single step.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Transaction
from stoker.store.workloads import allocations, counts, pods, transitions
from stoker.store.workloads import rows as workload_rows
from stoker.store.workloads.allocations import Allocation

ADD_PHASE = """
INSERT INTO phase_interval (workload_uid, version, phase, from_at, to_at)
VALUES (:uid, :version, :phase, :at, :to_at)
"""
ADD_POD = pods.ADD.replace("NULL)", ":ended_at)")
ADD_ALLOCATION = allocations.ALLOCATE.replace("NULL)", ":to_at)")


class BackfilledAllocation(Struct, frozen=True):
    """An allocation with its end; `to_at` is None while the pod still holds the GPU."""

    allocation: Allocation
    to_at: int | None


class WorkloadHistory(Struct, frozen=True):
    """All transitions of a workload, oldest first, and all its pods in their last state."""

    transitions: Sequence[Transition]
    pods: Sequence[Pod]
    allocations: Sequence[BackfilledAllocation]


def add_histories(transaction: Transaction, histories: Sequence[WorkloadHistory], events_since: int) -> None:
    """Write histories. Only conditions since `events_since` are added to the event stream."""
    last = [history.transitions[-1].workload for history in histories]
    transaction.execute_many(workload_rows.ADD, [workload_rows.row_params(workload) for workload in last])
    counts.adjust(transaction, (), last)
    transaction.execute_many(
        workload_rows.ADD_LABEL, [row for workload in last for row in workload_rows.label_rows(workload)]
    )
    transaction.execute_many(ADD_PHASE, [row for history in histories for row in _phase_intervals(history.transitions)])
    conditions = [(at, row) for history in histories for at, row in _condition_rows(history.transitions)]
    transaction.execute_many(transitions.ADD_CONDITION, [row for _, row in conditions])
    events = sorted((pair for pair in conditions if pair[0] >= events_since), key=lambda pair: pair[0])
    transaction.execute_many(transitions.ADD_EVENT, [row for _, row in events])
    by_cluster = [
        ({"cluster_id": workload.cluster_id}, history) for workload, history in zip(last, histories, strict=True)
    ]
    transaction.execute_many(
        ADD_POD, [{**pods.row_params(pod), **cluster} for cluster, history in by_cluster for pod in history.pods]
    )
    transaction.execute_many(
        ADD_ALLOCATION,
        [
            {**structs.asdict(entry.allocation), **cluster, "to_at": entry.to_at}
            for cluster, history in by_cluster
            for entry in history.allocations
        ],
    )
    allocated = {
        entry.allocation.workload_uid for history in histories for entry in history.allocations if entry.to_at is None
    }
    allocations.refresh_workload_allocations(transaction, allocated)


def _phase_intervals(changes: Sequence[Transition]) -> Iterator[dict[str, object]]:
    """One row per phase interval; the last one is open unless the workload has finished."""
    entered = [
        change.workload
        for before, change in zip((None, *changes), changes, strict=False)
        if before is None or change.workload.phase is not before.workload.phase
    ]
    for workload, after in zip(entered, (*entered[1:], None), strict=True):
        if not workload.phase.is_finished:
            yield {
                "uid": workload.uid,
                "version": workload.version,
                "phase": workload.phase,
                "at": workload.phase_at,
                "to_at": after.phase_at if after else None,
            }


def _condition_rows(changes: Sequence[Transition]) -> Iterator[tuple[int, dict[str, object]]]:
    """The time and the row of every condition."""
    for before, change in zip((None, *changes), changes, strict=False):
        entered = before is None or change.workload.phase is not before.workload.phase
        kind = "created" if before is None else "phase" if entered else "changed"
        rows = transitions.condition_rows(change.workload, change.conditions, kind)
        yield from ((condition.at, row) for condition, row in zip(change.conditions, rows, strict=True))
