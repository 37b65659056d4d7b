"""What pods say about their workloads, written down for many of them at once.

Whoever changes pods settles their workloads in the same transaction, so nobody ever sees the one without the other.
What cannot be done in the store, because an engine has to act, is left to the reconciler.
"""

from collections.abc import Collection, Iterable, Sequence, Set

from msgspec import Struct

from stoker.controller.judge import Happened, Step, judge
from stoker.domain.lifecycle import Change, transition
from stoker.domain.workload import Pod, Workload
from stoker.store import pods, workloads
from stoker.store.base import Transaction

EVENTS = 8
"""More than any workload goes through at one moment."""


class State(Struct, frozen=True):
    """A workload and the pods of its present attempt."""

    workload: Workload
    pods: Sequence[Pod]


class Settled(Struct, frozen=True):
    """How a workload is now, whether that is new, and what an engine has to do about it."""

    state: State
    changed: bool
    step: Step | None


def read_states(transaction: Transaction, cluster_id: str, uids: Collection[str]) -> list[State]:
    """Those of the workloads that belong to the cluster."""
    found = workloads.by_uid(transaction, uids)
    present = pods.present(transaction, found)
    return [State(each, present.get(each.uid, ())) for each in found.values() if each.cluster_id == cluster_id]


def settle(transaction: Transaction, states: Iterable[State], had: Set[str], now: int) -> list[Settled]:
    """Let everything happen to these workloads that their pods say has happened. `states` are of this transaction."""
    waves: list[list[tuple[Workload, Change]]] = []
    settled = []
    for state in states:
        changes, step = happen(state, had, now)
        for number, change in enumerate(changes):
            if number == len(waves):
                waves.append([])
            waves[number].append(change)
        last = changes[-1][1].workload if changes else state.workload
        settled.append(Settled(State(last, state.pods), bool(changes), step))
    for wave in waves:
        workloads.apply_all(transaction, wave)
    return settled


def happen(state: State, had: Set[str], now: int) -> tuple[list[tuple[Workload, Change]], Step | None]:
    """All that happens to a workload now, in order, and what an engine has to do after that."""
    workload = state.workload
    changes: list[tuple[Workload, Change]] = []
    for _ in range(EVENTS):
        step = judge(workload, state.pods, had, now)
        if not isinstance(step, Happened):
            return changes, step
        change = transition(workload, step.event)
        if change is None:
            return changes, None
        changes.append((workload, change))
        workload = change.workload
    return changes, None
