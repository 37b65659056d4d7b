"""Current totals of workloads: their number, their GPUs, and how long they have been pending.

Only workloads that the caller may see are counted.
"""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, structs

from stoker.domain.access.identity import Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.clock import HOUR_MS, MINUTE_MS
from stoker.domain.cluster.resources import MILLI
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import category_of
from stoker.services.context import Context, authorise
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import aggregates
from stoker.store.workloads.aggregates import AggregateQuery, AggregateRow

WAIT_BUCKETS_MS = (5 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS)


class AggregateMetric(StrEnum):
    WORKLOADS = "workloads"
    GPUS = "gpus"
    PENDING = "waiting"


class AggregateGrouping(StrEnum):
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    WORKSPACE = "workspace"
    KIND = "kind"
    POOLS = "pools"
    PHASE = "phase"
    CATEGORY = "category"
    WAIT_TIME = "waited"


class AggregateGroup(Struct, frozen=True, order=True):
    by: AggregateGrouping
    value: str
    name: str = ""


class AggregateValue(Struct, frozen=True):
    groups: tuple[AggregateGroup, ...]
    value: float


class WorkloadAggregateQuery(Struct, frozen=True):
    metric: AggregateMetric
    by: tuple[AggregateGrouping, ...] = ()
    cluster: str = ""
    pool: str = ""
    department_id: str = ""
    phases: tuple[Phase, ...] | None = None


class WorkloadAggregates:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self, actor: Actor, query: WorkloadAggregateQuery) -> tuple[list[AggregateValue], int]:
        """The totals, and the time they were computed at."""
        authorise(actor, Action.WORKLOAD_LIST)
        now = self._context.clock.now()
        return await self._context.store.read(lambda tx: _read_aggregates(tx, actor, query, now)), now


def _read_aggregates(
    transaction: Transaction, actor: Actor, query: WorkloadAggregateQuery, now: int
) -> list[AggregateValue]:
    if query.cluster:
        query = structs.replace(query, cluster=clusters.get(transaction, query.cluster).id)
    cluster_names = {cluster.id: cluster.name for cluster in clusters.all_clusters(transaction)}
    workspaces_by_id = {
        workspace.id: workspace
        for cluster_id in cluster_names
        for workspace in workspaces.of_cluster(transaction, cluster_id)
    }
    sums: dict[tuple[AggregateGroup, ...], int] = defaultdict(int)
    if not query.by:
        sums[()] = 0
    for row in _read_rows(transaction, query, _visible_query(actor, query, workspaces_by_id), now):
        sums[tuple(_group_of(by, row, workspaces_by_id, cluster_names) for by in query.by)] += row.amount
    return [AggregateValue(groups, amount) for groups, amount in sorted(_complete_groups(query, sums).items())]


def _complete_groups(
    query: WorkloadAggregateQuery, sums: dict[tuple[AggregateGroup, ...], int]
) -> dict[tuple[AggregateGroup, ...], float]:
    """Converts milli-GPUs to GPUs, and adds the wait buckets that no workload is in."""
    if query.metric is AggregateMetric.GPUS:
        return {groups: milli / MILLI for groups, milli in sums.items()}
    if query.metric is not AggregateMetric.PENDING or AggregateGrouping.WAIT_TIME not in query.by:
        return dict(sums)
    position = query.by.index(AggregateGrouping.WAIT_TIME)
    others = {groups[:position] + groups[position + 1 :] for groups in sums} or ({()} if len(query.by) == 1 else set())
    buckets = [AggregateGroup(AggregateGrouping.WAIT_TIME, str(bucket)) for bucket in range(len(WAIT_BUCKETS_MS) + 1)]
    complete = {(*other[:position], bucket, *other[position:]) for other in others for bucket in buckets}
    return {groups: sums.get(groups, 0) for groups in complete}


def _visible_query(
    actor: Actor, query: WorkloadAggregateQuery, workspaces_by_id: dict[int, Workspace]
) -> AggregateQuery:
    workspace_ids = actor.visible_workspaces
    if query.department_id:
        in_department = sorted(
            workspace.id
            for workspace in workspaces_by_id.values()
            if str(workspace.department_id) == query.department_id
        )
        workspace_ids = tuple(workspace_id for workspace_id in in_department if actor.can_see(workspace_id))
    return AggregateQuery(cluster_id=query.cluster, pool=query.pool, workspace_ids=workspace_ids, phases=query.phases)


def _read_rows(
    transaction: Transaction, query: WorkloadAggregateQuery, visible: AggregateQuery, now: int
) -> Sequence[AggregateRow]:
    match query.metric:
        case AggregateMetric.WORKLOADS:
            return aggregates.workload_counts(transaction, visible)
        case AggregateMetric.GPUS:
            return aggregates.allocated_gpus(transaction, visible)
        case AggregateMetric.PENDING:
            return aggregates.pending_by_wait(transaction, visible, now, WAIT_BUCKETS_MS)


def _group_of(
    by: AggregateGrouping, row: AggregateRow, workspaces_by_id: dict[int, Workspace], cluster_names: dict[str, str]
) -> AggregateGroup:
    workspace = workspaces_by_id.get(row.workspace_id)
    match by:
        case AggregateGrouping.CLUSTER:
            return AggregateGroup(by, row.cluster_id, cluster_names.get(row.cluster_id, ""))
        case AggregateGrouping.DEPARTMENT:
            if workspace is None:
                return AggregateGroup(by, "0", "")
            return AggregateGroup(by, str(workspace.department_id), workspace.department)
        case AggregateGrouping.WORKSPACE:
            return AggregateGroup(by, str(row.workspace_id), workspace.name if workspace else "")
        case AggregateGrouping.KIND:
            return AggregateGroup(by, row.kind)
        case AggregateGrouping.POOLS:
            return AggregateGroup(by, row.pools)
        case AggregateGrouping.PHASE:
            return AggregateGroup(by, row.phase)
        case AggregateGrouping.CATEGORY:
            return AggregateGroup(by, category_of(row.kind))
        case AggregateGrouping.WAIT_TIME:
            return AggregateGroup(by, str(row.bucket))
