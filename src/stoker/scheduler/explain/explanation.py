"""Explains why one workload is pending: the reason, the blockers, and changes that would start it now.

Every suggestion was verified: the cluster was planned again with it, and the workload started.
"""

from collections.abc import Collection

from msgspec import Struct

from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.cycle.state import CycleState
from stoker.scheduler.explain.blockers import Blocker, find_blockers, workloads_ahead
from stoker.scheduler.explain.pending import PendingReasons
from stoker.scheduler.explain.reasons import (
    BehindHigherPriority,
    BehindQueueHead,
    DependencyPending,
    PendingReason,
    StartTimeNotReached,
)
from stoker.scheduler.explain.suggestions import RaisePriority, Suggestion, has_capacity, reductions, relaxations
from stoker.scheduler.explain.what_if import WhatIf
from stoker.scheduler.model import PendingWorkload, Snapshot
from stoker.scheduler.planner import Planner


class SchedulingExplanation(Struct, frozen=True):
    """`reason` is None and `position` 0 if the workload starts now. `workloads_ahead` counts the workloads before it in
    the queue of its workspace; `requested_ahead` is their total request."""

    uid: str
    reason: PendingReason | None
    position: int
    workloads_ahead: int
    requested_ahead: Resources
    blockers: tuple[Blocker, ...]
    suggestions: tuple[Suggestion, ...]


def explain(snapshot: Snapshot, uid: str, priorities: Collection[int] = ()) -> SchedulingExplanation:
    """Explain a pending workload; KeyError if it is not pending. `priorities` are the ones to suggest from."""
    return explain_with(Planner(snapshot), uid, priorities)


def explain_with(planner: Planner, uid: str, priorities: Collection[int] = ()) -> SchedulingExplanation:
    """The same with an existing planner."""
    workload = planner.pending_workload(uid)
    what_if = WhatIf(planner, workload)
    cycle = what_if.cycle
    if uid in cycle.state.started:
        return SchedulingExplanation(uid, None, 0, 0, NO_RESOURCES, (), ())
    pending = PendingReasons(cycle, planner.now)[uid]
    ahead = list(workloads_ahead(cycle, workload))
    return SchedulingExplanation(
        uid,
        pending.reason,
        pending.position,
        len(ahead),
        sum((other.pod_request * other.replicas for other in ahead), NO_RESOURCES),
        find_blockers(cycle, workload, pending.reason),
        tuple(what_if.find_effective(_candidate_changes(planner, cycle.state, workload, pending.reason, priorities))),
    )


def _candidate_changes(
    planner: Planner, state: CycleState, workload: PendingWorkload, reason: PendingReason, priorities: Collection[int]
) -> Collection[Suggestion]:
    """Suggestions worth trying. Capacity at the workload's turn lies between that before and after the cycle."""
    if isinstance(reason, StartTimeNotReached | DependencyPending):
        return ()
    pending_queue = planner.pending_queues[workload.workspace_id]
    higher = [RaisePriority(priority) for priority in priorities if priority > workload.priority]
    if not has_capacity(workload, planner.nodes):
        higher = []
    match reason:
        case BehindQueueHead(head):
            return [
                suggestion
                for suggestion in higher
                if pending_queue.sort_key_of(suggestion.apply_to(workload)) < pending_queue.sort_key_by_uid[head]
            ]
        case BehindHigherPriority(_, priority):
            return [suggestion for suggestion in higher if suggestion.priority >= priority]
    pools = sorted({pool for pool, _ in planner.nodes.bucket_by_group})
    same_request = [
        suggestion
        for suggestion in relaxations(workload, pools)
        if has_capacity(suggestion.apply_to(workload), planner.nodes)
    ]
    ahead, after = planner.admitted.usage_of(workload.workspace_id), state.usage_by_queue[workload.workspace_id]
    return {
        *same_request,
        *higher,
        *reductions(workload, planner.nodes, ahead),
        *reductions(workload, state.idle, after),
    }
