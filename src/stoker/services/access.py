"""Which workloads a caller may see, and with which fields."""

from msgspec import structs

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target, check_access
from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.queries.workload_query import WorkloadQuery
from stoker.domain.settings.schema import MonitoringScope
from stoker.domain.workload.model import Workload, foreign_workload_error
from stoker.services.context import Context, authorise
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.workloads import workload_list
from stoker.store.workloads.workload_list import WorkloadEntry

REDACTED_VALUE = "******"


def may_read_env(actor: Actor, workload: Workload) -> bool:
    """Whether the caller may read the values of a workload's environment variables."""
    return check_access(actor, Action.WORKLOAD_READ_ENV, Target(workload.workspace_id, workload.user_id)).allowed


def redact_env(actor: Actor, workload: Workload) -> Workload:
    """The workload with the environment values hidden that this caller may not read. Every service returns this."""
    if not workload.spec.env or may_read_env(actor, workload):
        return workload
    hidden = dict.fromkeys(workload.spec.env, REDACTED_VALUE)
    return structs.replace(workload, spec=structs.replace(workload.spec, env=hidden))


def authorise_for_workload(actor: Actor, action: Action, workload: Workload, hint: str = "") -> None:
    """Raise unless the caller may do this to a workload. A foreign workload is read-only."""
    authorise(actor, action, Target(workspace_id=workload.workspace_id, owner_id=workload.user_id), hint)
    if not workload.managed:
        raise foreign_workload_error(workload.name)


def authorise_stop(transaction: Transaction, actor: Actor, workload: Workload) -> None:
    """Raise unless the caller may stop a workload: a foreign one only as an admin, where its cluster allows it."""
    if workload.managed:
        authorise_for_workload(actor, Action.WORKLOAD_STOP, workload)
        return
    authorise(actor, Action.WORKLOAD_STOP, Target(workspace_id=workload.workspace_id, owner_id=workload.user_id))
    cluster = clusters.get(transaction, workload.cluster_id)
    if not cluster.policy.foreign_stop:
        raise StokerError(
            ErrorCode.CONFLICT,
            f'"{workload.name}" was not submitted through Stoker, and cluster {cluster.name} lets nobody stop it here.',
            hint=f"Stop it with the tool that created it, or run: stoker cluster edit {cluster.name} --foreign-stop",
        )
    if not actor.admin:
        raise StokerError(ErrorCode.FORBIDDEN, "Only admins may stop what was not submitted through Stoker.")


def get_visible(transaction: Transaction, actor: Actor, ref: str) -> WorkloadEntry:
    """The workload, if the caller may see it; absent, deleted and hidden workloads give the same error."""
    entry = get_visible_or_deleted(transaction, actor, ref)
    if entry.workload.deleted_at is not None:
        raise not_found("workload", ref)
    return entry


def get_visible_or_deleted(transaction: Transaction, actor: Actor, ref: str) -> WorkloadEntry:
    """The workload, deleted or not, if the caller may see it."""
    entry = workload_list.find(transaction, ref)
    if entry is None or not actor.can_see(entry.workload.workspace_id):
        raise not_found("workload", ref)
    authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=entry.workload.workspace_id))
    return entry


def restrict_to_visible(actor: Actor, query: WorkloadQuery) -> WorkloadQuery:
    """The query, restricted to the workloads that the caller may list."""
    authorise(actor, Action.WORKLOAD_LIST)
    return structs.replace(query, scope=structs.replace(query.scope, workspace_ids=actor.visible_workspaces))


VisibleWorkspaces = tuple[int, ...] | None
"""The ids of the workspaces whose workloads a caller sees; None means all."""


def visible_workspaces(context: Context, actor: Actor | None) -> VisibleWorkspaces:
    """The workspaces that the monitoring APIs show to a caller; `actor` is None for a caller without a credential."""
    if actor is None:
        return None
    authorise(actor, Action.MONITOR)
    return None if context.settings.monitoring_scope is MonitoringScope.FLEET else actor.visible_workspaces
