"""The nodes of all clusters as one grid, filtered and sorted. The grid does not change."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import LiveNode, NodeState
from stoker.domain.cluster.resources import MILLI
from stoker.domain.names import natural_sort_key
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.services.fleet.columns import GridSort, SortOrders, float_array


class NodeQuery(Struct, frozen=True, kw_only=True):
    cluster_id: str = ""
    text: str = ""
    pool: str = ""
    state: NodeState | None = None
    sort: GridSort = GridSort.NAME
    descending: bool = False


class NodeGrid:
    def __init__(self, nodes_by_cluster: Sequence[tuple[Cluster, list[LiveNode]]]) -> None:
        self._nodes = [
            (cluster, node)
            for cluster, nodes in nodes_by_cluster
            for node in sorted(nodes, key=lambda node: (natural_sort_key(node.name), node.name))
        ]
        nodes = [node for _, node in self._nodes]
        self._orders = SortOrders(
            {
                GridSort.ALLOCATED: float_array([node.allocated_milli for node in nodes]),
                GridSort.UTILIZATION: float_array([node.utilization for node in nodes]),
                GridSort.MEMORY: float_array([node.memory for node in nodes]),
                GridSort.POWER: float_array([node.power_watts for node in nodes]),
                GridSort.TEMPERATURE: float_array([node.temperature for node in nodes]),
            },
            np.arange(len(nodes)),
        )

    def list_nodes(self, query: NodeQuery, window: PageRequest) -> PageResult[tuple[Cluster, LiveNode]]:
        order = self._orders.row_order(query.sort, descending=query.descending).tolist()
        if query.cluster_id or query.pool or query.state is not None or query.text:
            text = query.text.casefold()
            order = [row for row in order if _matches(query, text, *self._nodes[row])]
        page = order[window.offset : window.offset + window.limit]
        return PageResult([self._nodes[row] for row in page], len(order))


def _matches(query: NodeQuery, text: str, cluster: Cluster, node: LiveNode) -> bool:
    return (
        (not query.cluster_id or cluster.id == query.cluster_id)
        and (not query.pool or node.pool == query.pool)
        and (query.state is None or node_state(node) is query.state)
        and text in node.name.casefold()
    )


def node_state(node: LiveNode) -> NodeState:
    if not node.is_healthy:
        return NodeState.FAULTY
    if not node.allocated_milli:
        return NodeState.IDLE
    return NodeState.PARTIAL if node.allocated_milli < node.gpus * MILLI else NodeState.BUSY
