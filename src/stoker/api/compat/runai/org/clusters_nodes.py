"""Clusters, node pools and nodes, as they are now."""

from collections import defaultdict
from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import NoParams, Params
from stoker.api.runai.organisation import CountAnswer
from stoker.api.runai.shelf import Shelf, ShelfParams, everything
from stoker.api.runai.words import TENANT_ID
from stoker.domain.clock import parse_rfc3339, rfc3339
from stoker.domain.errors import not_found
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.live import NodeNow
from stoker.domain.node import DEFAULT_POOL
from stoker.domain.permissions import Action
from stoker.services.grids import NodeQuery
from stoker.services.live import ClusterNow

POOL_LABEL = "stoker.pool"
CREATOR = "stoker"
Found = tuple[Cluster, NodeNow]


class ClusterPath(Params, frozen=True, kw_only=True, rename="camel"):
    cluster_uuid: Annotated[str, Meta(min_length=1, max_length=100)]


class ClusterNodes(ShelfParams, frozen=True, kw_only=True, rename="camel"):
    cluster_uuid: Annotated[str, Meta(min_length=1, max_length=100)]


class PoolPath(Params, frozen=True, kw_only=True, rename="camel"):
    nodepool_id: Annotated[str, Meta(min_length=1, max_length=200)]


class ClusterState(Struct, frozen=True):
    state: str


class ClusterRow(Struct, frozen=True, kw_only=True, rename="camel"):
    uuid: str
    tenant_id: int
    name: str
    created_at: str
    updated_at: str
    last_liveness: str | None
    status: ClusterState


class PoolStatus(Struct, frozen=True):
    nodes: list[str]


class PoolRow(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    name: str
    label_key: str
    label_value: str
    cluster_id: str
    cluster_name: str
    phase: str
    status: PoolStatus
    tenant_id: int
    created_by: str
    created_at: str
    updated_by: str
    updated_at: str
    is_default: bool


class PoolsAnswer(Struct, frozen=True):
    nodepools: list[PoolRow]
    next: int | None


class GpuInfo(Struct, frozen=True, rename="camel"):
    gpu_type: str
    gpu_count: int


class NodeCondition(Struct, frozen=True):
    type: str
    reason: str
    message: str


class NodeRow(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    name: str
    status: str
    conditions: list[NodeCondition]
    node_pool: str
    gpu_info: GpuInfo | None
    cluster_uuid: str
    created_at: str
    updated_at: str


class NodesAnswer(Struct, frozen=True):
    nodes: list[NodeRow]
    next: int | None


POOLS: Shelf[PoolRow] = Shelf(
    {
        "name": lambda row: row.name,
        "phase": lambda row: row.phase,
        "clusterId": lambda row: row.cluster_id,
        "createdAt": lambda row: parse_rfc3339(row.created_at),
        "updatedAt": lambda row: parse_rfc3339(row.updated_at),
    },
    frozenset({"createdAt", "updatedAt"}),
)
NODES: Shelf[Found] = Shelf(
    {
        "name": lambda row: row[1].name,
        "status": lambda row: _status(row[1]),
        "nodePool": lambda row: row[1].pool,
        "gpuType": lambda row: row[1].models[0] if row[1].models else None,
        "clusterUuid": lambda row: row[0].id,
    }
)


@endpoint("GET", "/api/v1/clusters", family=RUNAI, action=Action.CLUSTER_READ)
async def list_clusters(call: Call[NoParams]) -> list[ClusterRow]:
    """Every cluster, by name."""
    return [_cluster(each) for each in await call.services.live.clusters()]


@endpoint("GET", "/api/v1/clusters/{clusterUuid}", family=RUNAI, action=Action.CLUSTER_READ, params=ClusterPath)
async def read_cluster(call: Call[ClusterPath]) -> ClusterRow:
    """One cluster."""
    [found] = await call.services.live.clusters(call.params.cluster_uuid)
    return _cluster(found)


@endpoint("GET", "/api/v1/node-pools", family=RUNAI, action=Action.CLUSTER_READ, params=ShelfParams)
async def list_node_pools(call: Call[ShelfParams]) -> PoolsAnswer:
    """The node pools of all clusters; each cluster has one called default."""
    return PoolsAnswer(*POOLS.page(await _pools(call), call.params))


@endpoint("GET", "/api/v1/node-pools/count", family=RUNAI, action=Action.CLUSTER_READ, params=ShelfParams)
async def count_node_pools(call: Call[ShelfParams]) -> CountAnswer:
    """How many node pools there are."""
    return CountAnswer(len(POOLS.chosen(await _pools(call), call.params)))


@endpoint("GET", "/api/v1/node-pools/{nodepoolId}", family=RUNAI, action=Action.CLUSTER_READ, params=PoolPath)
async def read_node_pool(call: Call[PoolPath]) -> PoolRow:
    """One node pool."""
    for row in await _pools(call):
        if row.id == call.params.nodepool_id:
            return row
    raise not_found("node pool", call.params.nodepool_id)


@endpoint("GET", "/api/v1/nodes", family=RUNAI, action=Action.CLUSTER_READ, params=ShelfParams)
async def list_all_nodes(call: Call[ShelfParams]) -> NodesAnswer:
    """The nodes of all clusters, by name."""
    return _nodes_answer(await _nodes(call, ""), call.params)


@endpoint("GET", "/api/v1/nodes/count", family=RUNAI, action=Action.CLUSTER_READ, params=ShelfParams)
async def count_nodes(call: Call[ShelfParams]) -> CountAnswer:
    """How many nodes there are."""
    return CountAnswer(len(NODES.chosen(await _nodes(call, ""), call.params)))


@endpoint("GET", "/api/v1/clusters/{clusterUuid}/nodes", family=RUNAI, action=Action.CLUSTER_READ, params=ClusterNodes)
async def list_cluster_nodes(call: Call[ClusterNodes]) -> NodesAnswer:
    """The nodes of one cluster, by name."""
    return _nodes_answer(await _nodes(call, call.params.cluster_uuid), call.params)


@endpoint(
    "GET", "/api/v1/clusters/{clusterUuid}/nodes/count", family=RUNAI, action=Action.CLUSTER_READ, params=ClusterNodes
)
async def count_cluster_nodes(call: Call[ClusterNodes]) -> CountAnswer:
    """How many nodes a cluster has."""
    return CountAnswer(len(NODES.chosen(await _nodes(call, call.params.cluster_uuid), call.params)))


async def _nodes(call: Call, cluster: str) -> list[Found]:
    wanted = (await call.services.clusters.read(call.actor, cluster)).id if cluster else ""
    grid = await call.services.live.nodes()

    async def browse(window: Window) -> Listing[Found]:
        return grid.browse(NodeQuery(cluster_id=wanted), window)

    return await everything(browse)


async def _pools(call: Call) -> list[PoolRow]:
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster, node in await _nodes(call, ""):
        members[cluster.id, node.pool].append(node.name)
    rows = []
    for each in await call.services.live.clusters():
        pools = {pool for cluster_id, pool in members if cluster_id == each.cluster.id} | {DEFAULT_POOL}
        rows += [_pool(each.cluster, pool, members[each.cluster.id, pool]) for pool in sorted(pools)]
    return rows


def _pool(cluster: Cluster, pool: str, nodes: list[str]) -> PoolRow:
    since = rfc3339(cluster.created_at)
    return PoolRow(
        id=f"{cluster.id}-{pool}",
        name=pool,
        label_key=POOL_LABEL,
        label_value=pool,
        cluster_id=cluster.id,
        cluster_name=cluster.name,
        phase="Ready" if nodes else "Empty",
        status=PoolStatus(sorted(nodes)),
        tenant_id=TENANT_ID,
        created_by=CREATOR,
        created_at=since,
        updated_by=CREATOR,
        updated_at=since,
        is_default=pool == DEFAULT_POOL,
    )


def _cluster(found: ClusterNow) -> ClusterRow:
    seen = found.overview.at if found.overview else None
    state = "WaitingToConnect" if seen is None else "Disconnected" if found.source.stale else "Connected"
    return ClusterRow(
        uuid=found.cluster.id,
        tenant_id=TENANT_ID,
        name=found.cluster.name,
        created_at=rfc3339(found.cluster.created_at),
        updated_at=rfc3339(found.cluster.created_at if seen is None else seen),
        last_liveness=None if seen is None else rfc3339(seen),
        status=ClusterState(state),
    )


def _nodes_answer(rows: list[Found], asked: ShelfParams) -> NodesAnswer:
    found, after = NODES.page(rows, asked)
    return NodesAnswer([_node(cluster, node) for cluster, node in found], after)


def _node(cluster: Cluster, node: NodeNow) -> NodeRow:
    since = rfc3339(cluster.created_at)
    wrong = node.fault or ("" if node.ready else "the node does not answer")
    return NodeRow(
        id=f"{cluster.id}-{node.name}",
        name=node.name,
        status=_status(node),
        conditions=[NodeCondition("Ready", "Fault" if node.fault else "NotReady", wrong)] if wrong else [],
        node_pool=node.pool,
        gpu_info=GpuInfo(", ".join(node.models), node.gpus) if node.gpus else None,
        cluster_uuid=cluster.id,
        created_at=since,
        updated_at=since,
    )


def _status(node: NodeNow) -> str:
    return "Ready" if node.ready and not node.fault else "NotReady"
