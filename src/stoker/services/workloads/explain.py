"""Why a workload, or a missing replica of it, is pending; what blocks it, and which changes would start it now.

Blockers that the caller may not see are reported without their names.
"""

from msgspec import Struct

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target, check_access
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.display_names import DisplayNames
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import StatusReason
from stoker.domain.workload.placement import missing_ranks
from stoker.domain.workload.status import describe_missing_replicas, describe_status
from stoker.scheduler.explain.reasons import ResourceName
from stoker.scheduler.explain.suggestions import (
    AnyNode,
    FewerReplicas,
    MakePreemptible,
    OtherPool,
    RaisePriority,
    ReduceRequest,
    Suggestion,
)
from stoker.services.access import get_visible
from stoker.services.context import Context
from stoker.services.fleet.leadership import ClusterLeadership
from stoker.services.workloads.plan_cache import ClusterPlan, ClusterPlanCache
from stoker.services.workloads.validation import HIGH_PRIORITY
from stoker.store.cluster import nodes
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods

SUGGESTED_PRIORITIES = (80, 125, 150)
NOT_PENDING_MESSAGE = "It waits for nothing."


class BlockingWorkload(Struct, frozen=True):
    """A workload in the way; `workload` is None when the caller may not see it."""

    workload: Workload | None
    how: str
    allocated: Resources
    guaranteed_until: int | None = None
    """Until then it is exempt from preemption, though it is preemptible."""


class SuggestedChange(Struct, frozen=True, kw_only=True):
    """A change that would start the workload now; None fields keep their value."""

    sentence: str
    any_node: bool = False
    preemptible: bool | None = None
    priority: int | None = None
    replicas: int | None = None
    gpu_milli: int | None = None
    cpu_milli: int | None = None
    memory_bytes: int | None = None


class PendingExplanation(Struct, frozen=True, kw_only=True):
    """`code` is empty and `queue_position` 0 for a workload that is not pending."""

    workload: Workload
    sentence: str
    code: str = ""
    queue_position: int = 0
    requested_ahead: Resources = Resources()
    blockers: list[BlockingWorkload] = []
    suggestions: list[SuggestedChange] = []


class ExplainService:
    def __init__(self, context: Context, plans: ClusterPlanCache) -> None:
        self._context = context
        self._plans = plans
        self._leadership = ClusterLeadership(context)

    async def explain(self, actor: Actor, ref: str) -> PendingExplanation:
        workload, status, is_pending = await self._context.store.read(lambda tx: self._read_status(tx, actor, ref))
        if not is_pending:
            return PendingExplanation(
                workload=workload, sentence=status.message or NOT_PENDING_MESSAGE, code=status.code
            )
        return await self._plans.query(
            workload.cluster_id, lambda plan: _explain_pending(plan, actor, workload, status)
        )

    def _read_status(self, transaction: Transaction, actor: Actor, ref: str) -> tuple[Workload, StatusReason, bool]:
        """A workload, its status, and whether it has pending pods that a plan can explain."""
        workload = get_visible(transaction, actor, ref).workload
        unavailable = self._leadership.unavailable_clusters(transaction).get(workload.cluster_id)
        unreleased = pods.unreleased_of_workloads(transaction, workload.cluster_id, [workload.uid]).get(
            workload.uid, ()
        )
        pod_nodes = nodes.by_name(transaction, workload.cluster_id, {pod.node for pod in unreleased})
        return (
            workload,
            describe_status(workload, unavailable),
            unavailable is None and bool(missing_ranks(workload, unreleased, pod_nodes)),
        )


def _explain_pending(plan: ClusterPlan, actor: Actor, requested: Workload, status: StatusReason) -> PendingExplanation:
    cluster, pending = plan.cluster, plan.find_pending(requested.uid)
    if pending is None:
        return PendingExplanation(workload=requested, sentence=status.message or NOT_PENDING_MESSAGE, code=status.code)
    workload = cluster.workloads[requested.uid]
    if pending.failed_dependency:
        failed = f"The dependency {pending.failed_dependency} did not succeed."
        return PendingExplanation(workload=workload, sentence=failed, code="dependency_failed")
    explanation = plan.explain(workload.uid, _allowed_priorities(actor, workload))
    workloads = {**{other.slug: other for other in cluster.workloads.values()}, **cluster.workloads}
    names = DisplayNames(cluster.workloads, lambda other: _visible_or_none(other, actor) is not None)
    sentence = explanation.reason.message(names) if explanation.reason else "It starts now."
    placed = 0 if workload.phase.is_pending else workload.spec.replicas - pending.replicas
    if not workload.phase.is_pending:
        sentence = sentence if explanation.reason else "They start now."
        sentence = describe_missing_replicas(pending.replicas, workload.spec.replicas, sentence)
    return PendingExplanation(
        workload=workload,
        sentence=sentence,
        code=explanation.reason.code if explanation.reason else "",
        queue_position=explanation.position if workload.phase.is_pending else 0,
        requested_ahead=explanation.requested_ahead,
        blockers=[
            BlockingWorkload(
                _visible_or_none(workloads.get(blocker.uid), actor),
                blocker.kind,
                blocker.resources,
                blocker.guaranteed_until,
            )
            for blocker in explanation.blockers
        ],
        suggestions=[
            change
            for suggestion in explanation.suggestions
            if (change := _suggested_change(suggestion, placed)) is not None
        ],
    )


def _visible_or_none(workload: Workload | None, actor: Actor) -> Workload | None:
    hidden = workload is None or not actor.can_see(workload.workspace_id)
    return None if hidden else workload


def _allowed_priorities(actor: Actor, workload: Workload) -> tuple[int, ...]:
    """The priorities that the caller may set."""
    target = Target(workspace_id=workload.workspace_id, owner_id=workload.user_id)
    may_set_high = check_access(actor, Action.WORKLOAD_SET_HIGH_PRIORITY, target).allowed
    return tuple(priority for priority in SUGGESTED_PRIORITIES if priority < HIGH_PRIORITY or may_set_high)


def _suggested_change(suggestion: Suggestion, placed: int) -> SuggestedChange | None:
    """A suggestion as a change of the workload; None when no request can express it, as for node pools.

    When some replicas are placed, only the others are pending, and a smaller request would replace the placed ones.
    """
    if placed and isinstance(suggestion, FewerReplicas):
        suggestion = FewerReplicas(placed + suggestion.replicas)
    sentence = suggestion.message()
    match suggestion:
        case AnyNode() | ReduceRequest() if placed:
            return None
        case AnyNode():
            return SuggestedChange(sentence=sentence, any_node=True)
        case RaisePriority(priority):
            return SuggestedChange(sentence=sentence, priority=priority)
        case FewerReplicas(replicas):
            return SuggestedChange(sentence=sentence, replicas=replicas)
        case ReduceRequest(ResourceName.GPU, amount):
            return SuggestedChange(sentence=sentence, gpu_milli=amount)
        case ReduceRequest(ResourceName.CPU, amount):
            return SuggestedChange(sentence=sentence, cpu_milli=amount)
        case ReduceRequest(_, amount):
            return SuggestedChange(sentence=sentence, memory_bytes=amount)
        case MakePreemptible():
            return SuggestedChange(sentence=sentence, preemptible=True)
        case OtherPool():
            return None
