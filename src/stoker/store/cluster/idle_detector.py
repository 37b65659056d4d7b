"""Since when workloads of a cluster have been idle, and what their owners were told: one row, as of one moment."""

from collections.abc import Mapping

import msgspec

from stoker.domain.idleness import IdleSpan
from stoker.store.base import Transaction

READ = "SELECT body FROM idle_watch WHERE cluster_id = :cluster_id"
PUT = """
INSERT INTO idle_watch (cluster_id, at, body)
VALUES (:cluster_id, :at, :body)
ON CONFLICT (cluster_id) DO UPDATE
SET at = excluded.at, body = excluded.body
"""

_decode = msgspec.msgpack.Decoder(dict[str, IdleSpan]).decode
_encode = msgspec.msgpack.Encoder().encode


def read(transaction: Transaction, cluster_id: str) -> dict[str, IdleSpan]:
    """Spans by the uid of their workload."""
    row = transaction.one(READ, {"cluster_id": cluster_id})
    return _decode(row[0]) if row else {}


def put(transaction: Transaction, cluster_id: str, at: int, spans: Mapping[str, IdleSpan]) -> None:
    transaction.run(PUT, {"cluster_id": cluster_id, "at": at, "body": _encode(spans)})
