"""Nodes as the engines last reported them. A node that has gone is remembered, but takes nothing."""

from collections.abc import Iterable

import msgspec

from stoker.domain.node import Node
from stoker.store.base import Transaction

ALL = """
SELECT body
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
INSERT INTO node (cluster_id, name, body, seen_at, gone)
VALUES (:cluster_id, :name, :body, :at, 0)
ON CONFLICT (cluster_id, name) DO UPDATE
SET body = excluded.body, seen_at = excluded.seen_at, gone = 0
"""
LEAVE = """
UPDATE node
SET gone = 1, seen_at = :at
WHERE cluster_id = :cluster_id
  AND name = :name
"""

_decoder = msgspec.json.Decoder(Node)
_encode = msgspec.json.Encoder().encode


def of_cluster(transaction: Transaction, cluster_id: str) -> list[Node]:
    return [_decoder.decode(row[0]) for row in transaction.all(ALL, {"cluster_id": cluster_id})]


def named(transaction: Transaction, cluster_id: str, names: Iterable[str]) -> dict[str, Node]:
    """These nodes, as far as they are known; gone ones too."""
    rows = {name: transaction.one(ONE, {"cluster_id": cluster_id, "name": name}) for name in names}
    return {name: _decoder.decode(row[0]) for name, row in rows.items() if row}


def put(transaction: Transaction, cluster_id: str, nodes: Iterable[Node], at: int) -> None:
    transaction.many(
        PUT,
        [{"cluster_id": cluster_id, "name": node.name, "body": _encode(node).decode(), "at": at} for node in nodes],
    )


def leave(transaction: Transaction, cluster_id: str, names: Iterable[str], at: int) -> None:
    transaction.many(LEAVE, [{"cluster_id": cluster_id, "name": name, "at": at} for name in names])
