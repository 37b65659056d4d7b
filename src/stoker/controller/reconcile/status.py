"""Derives the status of workloads from their pods, for many workloads at once.

Pods and the status of their workloads are written in the same transaction, so readers never see one without the other.
Actions that need an engine are left to the reconciler.
"""

from collections.abc import Collection, Iterable, Sequence, Set

from msgspec import Struct

from stoker.controller.reconcile.actions import EmitEvent, ReconcileAction, next_action
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods, rows, transitions

MAX_EVENTS_PER_SYNC = 8
"""More events than any workload goes through at once."""


class WorkloadState(Struct, frozen=True):
    """A workload and the pods of its current attempt."""

    workload: Workload
    pods: Sequence[Pod]


class SyncResult(Struct, frozen=True):
    """The state of a workload after a sync, whether the sync changed it, and the action that is left for the engine."""

    state: WorkloadState
    changed: bool
    action: ReconcileAction | None


def read_states(transaction: Transaction, cluster_id: str, uids: Collection[str]) -> list[WorkloadState]:
    """The states of those workloads that belong to the cluster."""
    workloads = rows.by_uid(transaction, uids)
    present = pods.of_current_attempt(transaction, workloads)
    return [
        WorkloadState(each, present.get(each.uid, ())) for each in workloads.values() if each.cluster_id == cluster_id
    ]


def sync_status(
    transaction: Transaction, states: Iterable[WorkloadState], observed: Set[str], now: int
) -> list[SyncResult]:
    """Apply all lifecycle events that follow from the pods. `states` were read in this transaction."""
    waves: list[list[tuple[Workload, Transition]]] = []
    results = []
    for state in states:
        changes, action = advance(state, observed, now)
        for number, change in enumerate(changes):
            if number == len(waves):
                waves.append([])
            waves[number].append(change)
        last = changes[-1][1].workload if changes else state.workload
        results.append(SyncResult(WorkloadState(last, state.pods), bool(changes), action))
    for wave in waves:
        transitions.apply_all(transaction, wave)
    return results


def advance(
    state: WorkloadState, observed: Set[str], now: int
) -> tuple[list[tuple[Workload, Transition]], ReconcileAction | None]:
    """All transitions of a workload that are due now, in order, and the action that is left after them."""
    workload = state.workload
    changes: list[tuple[Workload, Transition]] = []
    for _ in range(MAX_EVENTS_PER_SYNC):
        action = next_action(workload, state.pods, observed, now)
        if not isinstance(action, EmitEvent):
            return changes, action
        change = transition(workload, action.event)
        if change is None:
            return changes, None
        changes.append((workload, change))
        workload = change.workload
    return changes, None
