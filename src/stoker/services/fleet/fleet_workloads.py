"""Workloads of the fleet as the monitoring APIs show them.

A caller sees the whole fleet or only its workspaces, as the setting `monitoring_scope` says.
"""

from msgspec import Struct, structs

from stoker.domain.access.identity import Cluster
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import not_found
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.queries.workload_query import WorkloadQuery
from stoker.domain.queries.workload_records import FleetWorkload, WorkloadFacets
from stoker.domain.workload.ownership import OwnedObject, OwnerTreeNode, build_owner_tree
from stoker.domain.workload.placement import current_pods
from stoker.domain.workload.pod import Pod
from stoker.services.access import VisibleWorkspaces, visible_workspaces
from stoker.services.context import Context
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction
from stoker.store.workloads import fleet_workloads, foreign, pods
from stoker.store.workloads.query import pages

POD_KIND = "Pod"
INLINE_MAX_ITEMS = 100
"""Pages up to this size, near the start of the list, are read in the event loop."""


class FleetWorkloadDetail(Struct, frozen=True):
    """A workload and the current pods of its last attempt, by rank."""

    workload: FleetWorkload
    pods: list[Pod]


class FleetWorkloadService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_workloads(
        self, actor: Actor | None, query: WorkloadQuery, window: PageRequest
    ) -> PageResult[FleetWorkload]:
        workspace_ids = visible_workspaces(self._context, actor)
        visible = structs.replace(query, scope=structs.replace(query.scope, workspace_ids=workspace_ids))
        now = self._context.clock.now()

        def read(transaction: Transaction) -> PageResult[FleetWorkload]:
            return pages.fetch_page(transaction, visible, window, now, fleet_workloads.read_fleet_workloads)

        is_short = (
            window.limit <= INLINE_MAX_ITEMS
            and window.offset <= INLINE_MAX_ITEMS
            and not (query.filters or query.search or query.scope.cluster)
            and workspace_ids is None
        )
        return await (self._context.store.read_inline(read) if is_short else self._context.store.read(read))

    async def find_detail(self, actor: Actor | None, ref: str, cluster: str = "") -> FleetWorkloadDetail | None:
        """A workload by uid or slug; None when it is absent, deleted, hidden, or on another cluster."""
        workspace_ids = visible_workspaces(self._context, actor)

        def read(transaction: Transaction) -> FleetWorkloadDetail | None:
            workload = find_visible_workload(transaction, ref, cluster, workspace_ids)
            if workload is None:
                return None
            last_pods = pods.of_attempt(transaction, workload.uid, workload.attempt)
            gpus = fleet_workloads.gpus_by_model(transaction, {workload.uid: workload.ended_at is not None})
            return FleetWorkloadDetail(
                structs.replace(workload, gpus=gpus.get(workload.uid, {})), current_pods(last_pods, workload.replicas)
            )

        return await self._context.store.read_inline(read)

    async def find_workload(self, actor: Actor | None, ref: str, cluster: str = "") -> FleetWorkload | None:
        """The same without pods and GPUs."""
        workspace_ids = visible_workspaces(self._context, actor)
        return await self._context.store.read_inline(lambda tx: find_visible_workload(tx, ref, cluster, workspace_ids))

    async def hierarchy(self, actor: Actor | None, ref: str, cluster: str = "") -> OwnerTreeNode | None:
        """The owner tree of a workload, down to its pods."""
        detail = await self.find_detail(actor, ref, cluster)
        if detail is None:
            return None
        root = detail.workload
        objects = await self._context.store.read_inline(lambda tx: foreign.objects_of(tx, root.uid))
        owned = [
            OwnedObject(pod.uid, POD_KIND, pod.name, root.namespace, pod.owner_uid or root.uid) for pod in detail.pods
        ]
        return build_owner_tree(OwnedObject(root.uid, root.kind, root.name, root.namespace, ""), [*objects, *owned])

    async def facets(self, actor: Actor | None, cluster: str = "") -> WorkloadFacets:
        workspace_ids = visible_workspaces(self._context, actor)

        def read(transaction: Transaction) -> WorkloadFacets:
            cluster_id = clusters.get(transaction, cluster).id if cluster else ""
            return fleet_workloads.facets(transaction, cluster_id, workspace_ids)

        return await self._context.store.read_inline(read)


def select_clusters(found: list[Cluster], ref: str) -> list[Cluster]:
    """The cluster of this name or id, or all of them without one."""
    if not ref:
        return found
    selected = [cluster for cluster in found if ref in (cluster.name, cluster.id)]
    if not selected:
        raise not_found("cluster", ref)
    return selected


def find_visible_workload(
    transaction: Transaction, ref: str, cluster: str, workspace_ids: VisibleWorkspaces
) -> FleetWorkload | None:
    """A workload without its GPUs, if the caller may see it and it is on the cluster."""
    cluster_id = clusters.get(transaction, cluster).id if cluster else ""
    workload = fleet_workloads.find(transaction, ref)
    if workload is None or (cluster_id and workload.cluster_id != cluster_id):
        return None
    return workload if workspace_ids is None or workload.workspace_id in workspace_ids else None
