"""Clusters, node pools and nodes in their current state."""

from collections import defaultdict
from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.compat.runai.enums import TENANT_ID
from stoker.api.compat.runai.in_memory_list import InMemoryListParams, ListSchema, fetch_all
from stoker.api.compat.runai.org.projects import CountAnswer
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import NoParams, Params
from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339, parse_rfc3339
from stoker.domain.cluster.live_view import LiveNode
from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.errors import not_found
from stoker.domain.names import natural_sort_key
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.services.fleet.live import ClusterLiveStatus
from stoker.services.fleet.node_grid import NodeQuery

POOL_LABEL = "stoker.pool"
CREATOR = "stoker"
ClusterNode = tuple[Cluster, LiveNode]


class RunaiClusterPath(Params, frozen=True, kw_only=True, rename="camel"):
    cluster_uuid: Annotated[str, Meta(min_length=1, max_length=100)]


class ClusterNodesParams(InMemoryListParams, frozen=True, kw_only=True, rename="camel"):
    cluster_uuid: Annotated[str, Meta(min_length=1, max_length=100)]


class PoolPath(Params, frozen=True, kw_only=True, rename="camel"):
    nodepool_id: Annotated[str, Meta(min_length=1, max_length=200)]


class RunaiClusterState(Struct, frozen=True):
    state: str


class ClusterRow(Struct, frozen=True, kw_only=True, rename="camel"):
    uuid: str
    tenant_id: int
    name: str
    created_at: str
    updated_at: str
    last_liveness: str | None
    status: RunaiClusterState


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


NODE_POOL_LIST: ListSchema[PoolRow] = ListSchema(
    {
        "name": lambda row: row.name,
        "phase": lambda row: row.phase,
        "clusterId": lambda row: row.cluster_id,
        "createdAt": lambda row: parse_rfc3339(row.created_at),
        "updatedAt": lambda row: parse_rfc3339(row.updated_at),
    },
    frozenset({"createdAt", "updatedAt"}),
)
NODE_LIST: ListSchema[ClusterNode] = ListSchema(
    {
        "name": lambda row: row[1].name,
        "status": lambda row: _node_status(row[1]),
        "nodePool": lambda row: row[1].pool,
        "gpuType": lambda row: row[1].models[0] if row[1].models else None,
        "clusterUuid": lambda row: row[0].id,
    }
)


@endpoint("GET", "/api/v1/clusters", family=RUNAI, action=Action.CLUSTER_READ)
async def list_clusters(call: Call[NoParams]) -> list[ClusterRow]:
    """All clusters, sorted by name."""
    return [_to_cluster(each) for each in await call.services.live.clusters()]


@endpoint("GET", "/api/v1/clusters/{clusterUuid}", family=RUNAI, action=Action.CLUSTER_READ, params=RunaiClusterPath)
async def read_cluster(call: Call[RunaiClusterPath]) -> ClusterRow:
    """One cluster."""
    [found] = await call.services.live.clusters(call.params.cluster_uuid)
    return _to_cluster(found)


@endpoint("GET", "/api/v1/node-pools", family=RUNAI, action=Action.CLUSTER_READ, params=InMemoryListParams)
async def list_node_pools(call: Call[InMemoryListParams]) -> PoolsAnswer:
    """The node pools of all clusters; each cluster has one called default."""
    return PoolsAnswer(*NODE_POOL_LIST.page(await _list_pools(call), call.params))


@endpoint("GET", "/api/v1/node-pools/count", family=RUNAI, action=Action.CLUSTER_READ, params=InMemoryListParams)
async def count_node_pools(call: Call[InMemoryListParams]) -> CountAnswer:
    """The number of node pools."""
    return CountAnswer(len(NODE_POOL_LIST.select(await _list_pools(call), call.params)))


@endpoint("GET", "/api/v1/node-pools/{nodepoolId}", family=RUNAI, action=Action.CLUSTER_READ, params=PoolPath)
async def read_node_pool(call: Call[PoolPath]) -> PoolRow:
    """One node pool."""
    for row in await _list_pools(call):
        if row.id == call.params.nodepool_id:
            return row
    raise not_found("node pool", call.params.nodepool_id)


@endpoint("GET", "/api/v1/nodes", family=RUNAI, action=Action.CLUSTER_READ, params=InMemoryListParams)
async def list_all_nodes(call: Call[InMemoryListParams]) -> NodesAnswer:
    """The nodes of all clusters, sorted by name."""
    return _to_nodes_answer(await _list_nodes(call, ""), call.params)


@endpoint("GET", "/api/v1/nodes/count", family=RUNAI, action=Action.CLUSTER_READ, params=InMemoryListParams)
async def count_nodes(call: Call[InMemoryListParams]) -> CountAnswer:
    """The number of nodes."""
    return CountAnswer(len(NODE_LIST.select(await _list_nodes(call, ""), call.params)))


@endpoint(
    "GET", "/api/v1/clusters/{clusterUuid}/nodes", family=RUNAI, action=Action.CLUSTER_READ, params=ClusterNodesParams
)
async def list_cluster_nodes(call: Call[ClusterNodesParams]) -> NodesAnswer:
    """The nodes of one cluster, sorted by name."""
    return _to_nodes_answer(await _list_nodes(call, call.params.cluster_uuid), call.params)


@endpoint(
    "GET",
    "/api/v1/clusters/{clusterUuid}/nodes/count",
    family=RUNAI,
    action=Action.CLUSTER_READ,
    params=ClusterNodesParams,
)
async def count_cluster_nodes(call: Call[ClusterNodesParams]) -> CountAnswer:
    """The number of nodes of a cluster."""
    return CountAnswer(len(NODE_LIST.select(await _list_nodes(call, call.params.cluster_uuid), call.params)))


async def _list_nodes(call: Call, cluster: str) -> list[ClusterNode]:
    wanted = (await call.services.clusters.read(call.actor, cluster)).id if cluster else ""
    grid = await call.services.live.nodes()

    async def browse(window: PageRequest) -> PageResult[ClusterNode]:
        return grid.list_nodes(NodeQuery(cluster_id=wanted), window)

    return await fetch_all(browse)


async def _list_pools(call: Call) -> list[PoolRow]:
    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster, node in await _list_nodes(call, ""):
        members[cluster.id, node.pool].append(node.name)
    rows = []
    for each in await call.services.live.clusters():
        pools = {pool for cluster_id, pool in members if cluster_id == each.cluster.id} | {DEFAULT_POOL}
        rows += [_to_pool(each.cluster, pool, members[each.cluster.id, pool]) for pool in sorted(pools)]
    return rows


def _to_pool(cluster: Cluster, pool: str, nodes: list[str]) -> PoolRow:
    since = format_rfc3339(cluster.created_at)
    return PoolRow(
        id=f"{cluster.id}-{pool}",
        name=pool,
        label_key=POOL_LABEL,
        label_value=pool,
        cluster_id=cluster.id,
        cluster_name=cluster.name,
        phase="Ready" if nodes else "Empty",
        status=PoolStatus(sorted(nodes, key=natural_sort_key)),
        tenant_id=TENANT_ID,
        created_by=CREATOR,
        created_at=since,
        updated_by=CREATOR,
        updated_at=since,
        is_default=pool == DEFAULT_POOL,
    )


def _to_cluster(found: ClusterLiveStatus) -> ClusterRow:
    seen = found.overview.at if found.overview else None
    state = "WaitingToConnect" if seen is None else "Disconnected" if found.source.stale else "Connected"
    return ClusterRow(
        uuid=found.cluster.id,
        tenant_id=TENANT_ID,
        name=found.cluster.name,
        created_at=format_rfc3339(found.cluster.created_at),
        updated_at=format_rfc3339(found.cluster.created_at if seen is None else seen),
        last_liveness=None if seen is None else format_rfc3339(seen),
        status=RunaiClusterState(state),
    )


def _to_nodes_answer(rows: list[ClusterNode], asked: InMemoryListParams) -> NodesAnswer:
    found, after = NODE_LIST.page(rows, asked)
    return NodesAnswer([_to_node(cluster, node) for cluster, node in found], after)


def _to_node(cluster: Cluster, node: LiveNode) -> NodeRow:
    since = format_rfc3339(cluster.created_at)
    wrong = node.fault or ("" if node.ready else "the node does not answer")
    return NodeRow(
        id=f"{cluster.id}-{node.name}",
        name=node.name,
        status=_node_status(node),
        conditions=[NodeCondition("Ready", "Fault" if node.fault else "NotReady", wrong)] if wrong else [],
        node_pool=node.pool,
        gpu_info=GpuInfo(", ".join(node.models), node.gpus) if node.gpus else None,
        cluster_uuid=cluster.id,
        created_at=since,
        updated_at=since,
    )


def _node_status(node: LiveNode) -> str:
    return "Ready" if node.is_healthy else "NotReady"
