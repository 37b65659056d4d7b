"""Nodes as last reported by the engine, with the GPU faults found in samples.

A removed node stays in the table, marked as removed.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct

from stoker.domain.cluster.node import Node
from stoker.domain.cluster.samples import GpuFault, apply_device_faults, group_faults_by_node
from stoker.domain.names import natural_sort_key
from stoker.store.cluster import gpu_availability
from stoker.store.db.base import Transaction
from stoker.store.sql import sequences

PRESENT_NODES = """
SELECT name, body
FROM node
WHERE cluster_id = :cluster_id
  AND removed = 0
ORDER BY name
"""
NODE_BODY = """
SELECT body
FROM node
WHERE cluster_id = :cluster_id
  AND name = :name
"""
UPSERT = """
INSERT INTO node (cluster_id, name, sort_key, pool, body, seen_at, removed)
VALUES (:cluster_id, :name, :sort_key, :pool, :body, :at, 0)
ON CONFLICT (cluster_id, name) DO UPDATE
SET sort_key = excluded.sort_key, pool = excluded.pool, body = excluded.body, seen_at = excluded.seen_at, removed = 0
"""
MARK_GONE = """
UPDATE node
SET removed = 1, seen_at = :at
WHERE cluster_id = :cluster_id
  AND name = :name
"""

VERSION_SEQUENCE = "writes to the nodes of {}"

_decoder = msgspec.json.Decoder(Node)
_encode = msgspec.json.Encoder().encode


FaultsByNode = Mapping[str, Collection[GpuFault]]
"""Faults found in GPU samples, by node."""


def of_cluster(transaction: Transaction, cluster_id: str) -> list[Node]:
    return list(refresh_cache(transaction, cluster_id).nodes.values())


def reported_by_engine(transaction: Transaction, cluster_id: str) -> list[Node]:
    """The nodes of a cluster as the engine reported them, without faults found in samples."""
    return [_decoder.decode(row[1]) for row in transaction.fetch_all(PRESENT_NODES, {"cluster_id": cluster_id})]


def by_name(transaction: Transaction, cluster_id: str, names: Collection[str]) -> dict[str, Node]:
    """The known nodes with these names, including removed ones."""
    faults = group_faults_by_node(gpu_availability.reported_faults_of_nodes(transaction, cluster_id, names))
    rows = {name: transaction.fetch_one(NODE_BODY, {"cluster_id": cluster_id, "name": name}) for name in names}
    return {name: _decode_node(row[0], faults.get(name, ())) for name, row in rows.items() if row}


class NodeCache(Struct, frozen=True):
    """The nodes of a cluster at a version. A node that did not change stays the same object across versions."""

    version: int
    nodes: Mapping[str, Node]
    bodies: Mapping[str, str]
    faults: FaultsByNode = {}


EMPTY_NODE_CACHE = NodeCache(-1, {}, {})


def node_version(transaction: Transaction, cluster_id: str) -> int:
    """The number of writes to nodes of the cluster."""
    return sequences.current_value(transaction, VERSION_SEQUENCE.format(cluster_id))


def refresh_cache(transaction: Transaction, cluster_id: str, before: NodeCache = EMPTY_NODE_CACHE) -> NodeCache:
    """The current nodes; only nodes that changed since `before` are decoded again."""
    now = node_version(transaction, cluster_id)
    if now == before.version:
        return before
    bodies = dict(transaction.fetch_all(PRESENT_NODES, {"cluster_id": cluster_id}))
    faults = group_faults_by_node(gpu_availability.reported_faults(transaction, cluster_id))
    nodes = {
        name: before.nodes[name]
        if before.bodies.get(name) == body and before.faults.get(name) == faults.get(name)
        else _decode_node(body, faults.get(name, ()))
        for name, body in bodies.items()
    }
    return NodeCache(now, nodes, bodies, faults)


def upsert(transaction: Transaction, cluster_id: str, nodes: Iterable[Node], at: int) -> None:
    sequences.next_value(transaction, VERSION_SEQUENCE.format(cluster_id))
    transaction.execute_many(
        UPSERT,
        [
            {
                "cluster_id": cluster_id,
                "name": node.name,
                "sort_key": natural_sort_key(node.name),
                "pool": node.pool,
                "body": _encode(node).decode(),
                "at": at,
            }
            for node in nodes
        ],
    )


def mark_gone(transaction: Transaction, cluster_id: str, names: Iterable[str], at: int) -> None:
    sequences.next_value(transaction, VERSION_SEQUENCE.format(cluster_id))
    transaction.execute_many(MARK_GONE, [{"cluster_id": cluster_id, "name": name, "at": at} for name in names])


def report_faults(transaction: Transaction, cluster_id: str, faults: Iterable[GpuFault], at: int) -> set[str]:
    """Make `faults` the GPU faults found in samples; returns the nodes whose faults changed."""
    changed = gpu_availability.sync_reported_faults(transaction, cluster_id, faults, at)
    if changed:
        sequences.next_value(transaction, VERSION_SEQUENCE.format(cluster_id))
    return changed


def _decode_node(body: str, faults: Collection[GpuFault]) -> Node:
    return apply_device_faults(_decoder.decode(body), faults)
