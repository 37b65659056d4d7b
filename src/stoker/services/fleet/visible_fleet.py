"""The live view of the fleet, limited to what the caller may see: everything, or the GPUs of its workspaces."""

from collections import defaultdict

from msgspec import structs

from stoker.domain.access.identity import Cluster
from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.live_view import GpuColumns, GpuConsumer, LiveNode
from stoker.domain.queries.fleet import restrict_to_gpus
from stoker.domain.queries.pages import PageRequest
from stoker.services.access import visible_workspaces
from stoker.services.context import Context
from stoker.services.fleet.gpu_grid import GpuGrid
from stoker.services.fleet.live import ClusterLiveStatus, LiveViewReader
from stoker.services.fleet.node_grid import NodeQuery
from stoker.store.workloads import fleet_workloads

ALL_ITEMS = PageRequest(0, 1 << 31)


class VisibleFleet:
    def __init__(self, context: Context, live: LiveViewReader) -> None:
        self._context = context
        self._live = live

    def can_see_fleet(self, actor: Actor | None) -> bool:
        return visible_workspaces(self._context, actor) is None

    async def clusters(self, actor: Actor | None, cluster: str = "") -> list[ClusterLiveStatus]:
        """Every cluster, or the named one, with an overview of the visible part."""
        workspace_ids = visible_workspaces(self._context, actor)
        statuses = await self._live.clusters(cluster)
        if workspace_ids is None:
            return statuses
        visible_gpus = {gpu_cluster.id: columns for gpu_cluster, columns in await self._visible_gpus(workspace_ids)}
        nodes: defaultdict[str, list[LiveNode]] = defaultdict(list)
        for node_cluster, node in (await self._live.nodes()).list_nodes(NodeQuery(), ALL_ITEMS).items:
            nodes[node_cluster.id].append(node)
        return [
            structs.replace(
                status,
                overview=restrict_to_gpus(status.overview, visible_gpus[status.cluster.id], nodes[status.cluster.id]),
            )
            if status.overview is not None and status.cluster.id in visible_gpus
            else structs.replace(status, overview=None)
            for status in statuses
        ]

    async def consumers(self, actor: Actor | None, cluster: str = "") -> list[tuple[Cluster, GpuConsumer]]:
        """Running workloads with GPUs, most GPUs first."""
        workspace_ids = visible_workspaces(self._context, actor)
        consumers = await self._live.consumers(cluster)
        if workspace_ids is None:
            return consumers
        slugs = await self._visible_slugs(workspace_ids)
        return [pair for pair in consumers if pair[1].slug in slugs]

    async def gpus(self, actor: Actor | None) -> GpuGrid:
        workspace_ids = visible_workspaces(self._context, actor)
        return await self._live.gpus() if workspace_ids is None else GpuGrid(await self._visible_gpus(workspace_ids))

    async def _visible_gpus(self, workspace_ids: tuple[int, ...]) -> list[tuple[Cluster, GpuColumns]]:
        grid, slugs = await self._live.gpus(), await self._visible_slugs(workspace_ids)
        return grid.allocated_to(slugs)

    async def _visible_slugs(self, workspace_ids: tuple[int, ...]) -> set[str]:
        return await self._context.store.read(lambda tx: fleet_workloads.slugs_with_gpus(tx, workspace_ids))
