"""The progress deadline of rollouts, and the rollback of revisions that miss it.

The deadline counts from the last progress of the rollout, so every replica has the full time.
"""

from collections.abc import Sequence

from msgspec import Struct

from stoker.controller.reconcile.actions import find_unready_pod
from stoker.controller.reconcile.status import WorkloadState
from stoker.domain.workload.events import LifecycleEvent, NoteAdded, RolledBack
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import DEADLINE_EXCEEDED, ROLLED_BACK, Phase
from stoker.domain.workload.placement import latest_pods
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Transaction
from stoker.store.workloads import revisions, rows, transitions
from stoker.store.workloads.revisions import Revision

ROLLOUT_PHASES = frozenset({Phase.INITIALIZING, Phase.UPDATING, Phase.DEGRADED})


class RolloutPolicy(Struct, frozen=True):
    """How long a replica of a new revision may take to become ready, and whether a late revision is rolled back."""

    deadline_seconds: int = 600
    auto_rollback: bool = True


def progress_deadline(workload: Workload, pods: Sequence[Pod], policy: RolloutPolicy) -> int | None:
    """When the current revision has to be ready or to make progress. None if it was ready before, if its pods are not
    all scheduled, or if the missed deadline was recorded already."""
    if not workload.uses_rolling_update or workload.phase not in ROLLOUT_PHASES or workload.next_phase is not None:
        return None
    if workload.revision == workload.good_revision or DEADLINE_EXCEEDED in workload.notes:
        return None
    here = latest_pods(pods, workload.revision)
    if len(here) < workload.spec.replicas:
        return None
    progress = max(max(pod.created_at, pod.started_at or 0) for pod in here)
    return max(workload.phase_at, progress) + _deadline_seconds(workload, policy) * 1000


def abandon_rollout(transaction: Transaction, state: WorkloadState, policy: RolloutPolicy, now: int) -> bool:
    """Roll back to the last good revision, or record why that is not possible. Returns False if the workload has
    changed."""
    planned, workload = state.workload, rows.find(transaction, state.workload.uid)
    if workload is None or workload.version != planned.version:
        return False
    good = _rollback_target(transaction, workload, policy)
    change = transition(workload, _abandon_event(workload, state.pods, good, policy, now))
    if change is None:
        return False
    transitions.apply(transaction, workload, change)
    if good is not None:
        revisions.reassign_pods(transaction, change.workload, good.number)
    return True


def _rollback_target(transaction: Transaction, workload: Workload, policy: RolloutPolicy) -> Revision | None:
    """The revision to roll back to. A revision that is itself the result of a rollback is not rolled back again."""
    if not policy.auto_rollback or ROLLED_BACK in workload.notes:
        return None
    return revisions.find(transaction, workload.uid, workload.good_revision)


def _abandon_event(
    workload: Workload, pods: Sequence[Pod], good: Revision | None, policy: RolloutPolicy, now: int
) -> LifecycleEvent:
    late = f"revision {workload.revision} was not ready within {_deadline_seconds(workload, policy)} s"
    if (pod := find_unready_pod(workload, pods)) is not None:
        late += f" (pod {pod.name}: {pod.message.rstrip('.')})"
    if good is not None:
        return RolledBack(now, good.spec, f"{late}; revision {good.number} is back as revision {workload.revision + 1}")
    if ROLLED_BACK in workload.notes:
        why = "it is itself what was gone back to"
    elif workload.good_revision and not policy.auto_rollback:
        why = "the setting rollout_rollback is off"
    else:
        why = "no revision before it was ready"
    return NoteAdded(now, DEADLINE_EXCEEDED, f"{late}; it is not rolled back: {why}")


def _deadline_seconds(workload: Workload, policy: RolloutPolicy) -> int:
    readiness = workload.spec.readiness
    return (readiness.timeout_seconds if readiness else 0) or policy.deadline_seconds
