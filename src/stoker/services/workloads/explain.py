"""Why a workload waits, who is in its way, and what would start it now."""

from msgspec import Struct

from stoker.domain.naming import Names
from stoker.domain.permissions import Action, Actor, Target, may
from stoker.domain.resources import Resources
from stoker.domain.workload import Workload
from stoker.scheduler import explain
from stoker.scheduler.edits import AnyNode, AskLess, Edit, FewerReplicas, MakePreemptible, OtherPool, RaisePriority
from stoker.scheduler.reasons import Resource
from stoker.scheduler.view import snapshot
from stoker.services.context import Context
from stoker.services.submission import URGENT
from stoker.services.visible import visible
from stoker.store.base import Transaction
from stoker.store.under_way import read_cluster

PRIORITIES = (80, 125, 150)


class InTheWay(Struct, frozen=True):
    """Another workload, as far as the caller may know of it."""

    workload: Workload | None
    how: str
    held: Resources
    guaranteed_until: int | None = None
    """Until then it is not preempted, though it is preemptible."""


class Suggestion(Struct, frozen=True, kw_only=True):
    """A change that would start it now; what is None stays."""

    sentence: str
    any_node: bool = False
    preemptible: bool | None = None
    priority: int | None = None
    replicas: int | None = None
    gpu_milli: int | None = None
    cpu_milli: int | None = None
    memory_bytes: int | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """`code` is empty, and `order` 0, for a workload that does not wait."""

    workload: Workload
    sentence: str
    code: str = ""
    order: int = 0
    asked_ahead: Resources = Resources()
    in_the_way: list[InTheWay] = []
    suggestions: list[Suggestion] = []


class Explain:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def explain(self, actor: Actor, ref: str) -> Answer:
        return await self._context.store.read(lambda tx: self._explain(tx, actor, ref))

    def _explain(self, transaction: Transaction, actor: Actor, ref: str) -> Answer:
        workload = visible(transaction, actor, ref).workload
        if not workload.phase.queued:
            return Answer(workload=workload, sentence=workload.message or "It waits for nothing.")
        cluster = read_cluster(transaction, workload.cluster_id)
        view = snapshot(cluster, self._context.clock.now())
        waiting = next(each for each in view.waiting if each.uid == workload.uid)
        if waiting.failed_dependency:
            failed = f"The dependency {waiting.failed_dependency} did not succeed."
            return Answer(workload=workload, sentence=failed, code="dependency_failed")
        found = explain(view, workload.uid, _priorities(actor, workload))
        known = {**{each.slug: each for each in cluster.workloads.values()}, **cluster.workloads}
        names = Names(cluster.workloads, lambda other: _seen(other, actor) is not None)
        return Answer(
            workload=workload,
            sentence=found.reason.sentence(names) if found.reason else "It starts now.",
            code=found.reason.code if found.reason else "",
            order=found.order,
            asked_ahead=found.asked_ahead,
            in_the_way=[
                InTheWay(_seen(known.get(each.uid), actor), each.how, each.held, each.guaranteed_until)
                for each in found.blockers
            ],
            suggestions=[each for edit in found.edits if (each := _suggestion(edit)) is not None],
        )


def _seen(workload: Workload | None, actor: Actor) -> Workload | None:
    hidden = workload is None or not (actor.admin or workload.workspace_id in actor.memberships)
    return None if hidden else workload


def _priorities(actor: Actor, workload: Workload) -> tuple[int, ...]:
    """What the caller may raise it to."""
    target = Target(workspace_id=workload.workspace_id, owner_id=workload.user_id)
    may_urge = may(actor, Action.WORKLOAD_URGE, target).allowed
    return tuple(priority for priority in PRIORITIES if priority < URGENT or may_urge)


def _suggestion(edit: Edit) -> Suggestion | None:
    """The edit as a change that can be asked for; no request names node pools."""
    sentence = edit.sentence()
    match edit:
        case AnyNode():
            return Suggestion(sentence=sentence, any_node=True)
        case RaisePriority(priority):
            return Suggestion(sentence=sentence, priority=priority)
        case FewerReplicas(replicas):
            return Suggestion(sentence=sentence, replicas=replicas)
        case AskLess(Resource.GPU, each):
            return Suggestion(sentence=sentence, gpu_milli=each)
        case AskLess(Resource.CPU, each):
            return Suggestion(sentence=sentence, cpu_milli=each)
        case AskLess(_, each):
            return Suggestion(sentence=sentence, memory_bytes=each)
        case MakePreemptible():
            return Suggestion(sentence=sentence, preemptible=True)
        case OtherPool():
            return None
