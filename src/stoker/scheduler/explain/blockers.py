"""The workloads that block a pending one: dependencies, workloads ahead, terminating ones, or holders of capacity."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.cycle.pending_queue import EquivalenceClass, equivalence_class_of
from stoker.scheduler.cycle.scheduling_cycle import SchedulingCycle
from stoker.scheduler.cycle.state import CycleState
from stoker.scheduler.explain.reasons import (
    BehindHigherPriority,
    BehindQueueHead,
    DependencyPending,
    NodeUnschedulable,
    PendingReason,
    Preempting,
    StartTimeNotReached,
)
from stoker.scheduler.model import AdmittedWorkload, PendingWorkload
from stoker.scheduler.placement.dry_run import PreemptionDryRun
from stoker.scheduler.placement.preemption import reprieve_unneeded
from stoker.scheduler.quota.admitted import PreemptionCandidate, allocated_resources, candidate_of
from stoker.scheduler.quota.min_runtime import current_exemption


class BlockerKind(StrEnum):
    """How a workload blocks another."""

    DEPENDENCY = "dependency"
    AHEAD = "ahead"
    TERMINATING = "leaving"
    ALLOCATED = "holds"


class Blocker(Struct, frozen=True):
    """`resources` is its allocation, or its request while it is pending. A preemptible blocker is not preempted before
    `guaranteed_until`."""

    uid: str
    kind: BlockerKind
    resources: Resources = NO_RESOURCES
    guaranteed_until: int | None = None


def find_blockers(cycle: SchedulingCycle, workload: PendingWorkload, reason: PendingReason) -> tuple[Blocker, ...]:
    """The workloads without which it would start, as far as known."""
    match reason:
        case StartTimeNotReached() | NodeUnschedulable():
            return ()
        case DependencyPending(uids):
            return tuple(Blocker(uid, BlockerKind.DEPENDENCY) for uid in uids)
        case BehindQueueHead() | BehindHigherPriority():
            return tuple(
                Blocker(other.uid, BlockerKind.AHEAD, other.pod_request * other.replicas)
                for other in workloads_ahead(cycle, workload)
            )
        case Preempting(victims):
            admitted = cycle.state.admitted.workloads
            return tuple(Blocker(uid, BlockerKind.TERMINATING, allocated_resources(admitted[uid])) for uid in victims)
        case _:
            found = _blocking_workloads(cycle, workload)
            return tuple(
                Blocker(other.uid, BlockerKind.ALLOCATED, allocated_resources(other), current_exemption(other))
                for other in found
            )


def workloads_ahead(cycle: SchedulingCycle, workload: PendingWorkload) -> Iterator[PendingWorkload]:
    """Workloads before it in the queue that do not start now."""
    pending_queue = cycle.cursors[workload.workspace_id].pending_queue
    for other in pending_queue.workloads[: pending_queue.index_of(workload.uid)]:
        if other.uid not in cycle.state.started:
            yield other


def _blocking_workloads(cycle: SchedulingCycle, workload: PendingWorkload) -> list[AdmittedWorkload]:
    """A minimal set of workloads that would have to end for it to start, preemptible or not."""
    state = cycle.state
    equivalence_class, required_nodes = equivalence_class_of(workload, {}), state.required_nodes(workload)
    candidates = sorted(
        candidate_of(admitted) for admitted in _admitted_after_cycle(cycle) if admitted.uid != workload.uid
    )
    for pool in ("",) if required_nodes else equivalence_class.node_pools:
        found = _minimal_blockers(
            state,
            workload,
            equivalence_class,
            PreemptionDryRun(state, equivalence_class, pool, required_nodes, ignore_preemptibility=True),
            candidates,
        )
        if found is not None:
            return found
    return []


def _minimal_blockers(
    state: CycleState,
    workload: PendingWorkload,
    equivalence_class: EquivalenceClass,
    dry_run: PreemptionDryRun,
    candidates: list[PreemptionCandidate],
) -> list[AdmittedWorkload] | None:
    own_workspace_id, usage = workload.workspace_id, state.usage_by_queue[workload.workspace_id]
    chosen: list[PreemptionCandidate] = []
    freed, within_quota = (
        NO_RESOURCES,
        workload.preemptible or usage.fits_after_termination(equivalence_class.total_request),
    )
    for candidate in candidates:
        if within_quota and dry_run.is_satisfied:
            break
        _, admitted, allocated = candidate
        if dry_run.evict(admitted) or (not within_quota and admitted.workspace_id == own_workspace_id):
            chosen.append(candidate)
            if admitted.workspace_id == own_workspace_id:
                freed += allocated
                within_quota = within_quota or usage.fits_after_termination(equivalence_class.total_request, freed)
    if not (within_quota and dry_run.is_satisfied):
        return None
    return reprieve_unneeded(
        chosen, dry_run, None if workload.preemptible else usage, equivalence_class, own_workspace_id
    )


def _admitted_after_cycle(cycle: SchedulingCycle) -> Iterator[AdmittedWorkload]:
    """All workloads with allocations once the plan is applied."""
    state = cycle.state
    for admitted in state.admitted.workloads.values():
        if not admitted.is_terminating and admitted.uid not in state.preemptor_by_victim:
            yield admitted
    for cursor in cycle.cursors.values():
        for position in cursor.started_indexes:
            other = cursor.pending_queue.workloads[position]
            yield AdmittedWorkload(
                uid=other.uid,
                workspace_id=other.workspace_id,
                priority=other.priority,
                admitted_at=other.submitted_at,
                nodes=state.started[other.uid],
                pod_request=other.pod_request,
                preemptible=other.preemptible,
            )
