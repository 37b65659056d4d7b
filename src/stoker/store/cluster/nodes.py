"""Nodes as the engines last reported them. A node that has gone is remembered, but takes nothing."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from stoker.domain.node import Node
from stoker.store import counters
from stoker.store.base import Transaction

ALL = """
SELECT name, body
FROM node
WHERE cluster_id = :cluster_id
  AND gone = 0
ORDER BY name
"""
ONE = """
SELECT body
FROM node
WHERE cluster_id = :cluster_id
  AND name = :name
"""
PUT = """
INSERT INTO node (cluster_id, name, pool, body, seen_at, gone)
VALUES (:cluster_id, :name, :pool, :body, :at, 0)
ON CONFLICT (cluster_id, name) DO UPDATE
SET pool = excluded.pool, body = excluded.body, seen_at = excluded.seen_at, gone = 0
"""
LEAVE = """
UPDATE node
SET gone = 1, seen_at = :at
WHERE cluster_id = :cluster_id
  AND name = :name
"""

WRITES = "writes to the nodes of {}"

_decoder = msgspec.json.Decoder(Node)
_encode = msgspec.json.Encoder().encode


def of_cluster(transaction: Transaction, cluster_id: str) -> list[Node]:
    return [_decoder.decode(row[1]) for row in transaction.all(ALL, {"cluster_id": cluster_id})]


def named(transaction: Transaction, cluster_id: str, names: Iterable[str]) -> dict[str, Node]:
    """These nodes, as far as they are known; gone ones too."""
    rows = {name: transaction.one(ONE, {"cluster_id": cluster_id, "name": name}) for name in names}
    return {name: _decoder.decode(row[0]) for name, row in rows.items() if row}


class Known(Struct, frozen=True):
    """The nodes of a cluster after so many writes to them. A node that has not changed stays the same object."""

    writes: int
    nodes: Mapping[str, Node]
    bodies: Mapping[str, str]


NOTHING_KNOWN = Known(-1, {}, {})


def known(transaction: Transaction, cluster_id: str, before: Known = NOTHING_KNOWN) -> Known:
    """The nodes now; only those that were written since `before` are read again."""
    writes = counters.value(transaction, WRITES.format(cluster_id))
    if writes == before.writes:
        return before
    bodies = dict(transaction.all(ALL, {"cluster_id": cluster_id}))
    kept, texts = before.nodes, before.bodies
    nodes = {name: kept[name] if texts.get(name) == body else _decoder.decode(body) for name, body in bodies.items()}
    return Known(writes, nodes, bodies)


def put(transaction: Transaction, cluster_id: str, nodes: Iterable[Node], at: int) -> None:
    counters.advance(transaction, WRITES.format(cluster_id))
    transaction.many(
        PUT,
        [
            {
                "cluster_id": cluster_id,
                "name": node.name,
                "pool": node.pool,
                "body": _encode(node).decode(),
                "at": at,
            }
            for node in nodes
        ],
    )


def leave(transaction: Transaction, cluster_id: str, names: Iterable[str], at: int) -> None:
    counters.advance(transaction, WRITES.format(cluster_id))
    transaction.many(LEAVE, [{"cluster_id": cluster_id, "name": name, "at": at} for name in names])
