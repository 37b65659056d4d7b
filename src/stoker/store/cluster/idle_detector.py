"""The saved state of a cluster's idle tracker: idle spans of workloads, stored as one value."""

from collections.abc import Mapping

import msgspec

from stoker.domain.workload.idle import IdleSpan
from stoker.store.db.base import Transaction
from stoker.store.db.blob_format import add_version, strip_version

READ = "SELECT body FROM idle_tracker WHERE cluster_id = :cluster_id"
UPSERT = """
INSERT INTO idle_tracker (cluster_id, at, body)
VALUES (:cluster_id, :at, :body)
ON CONFLICT (cluster_id) DO UPDATE
SET at = excluded.at, body = excluded.body
"""

FORMAT_VERSION = 1

_decode = msgspec.msgpack.Decoder(dict[str, IdleSpan]).decode
_encode = msgspec.msgpack.Encoder().encode


def read_spans(transaction: Transaction, cluster_id: str) -> dict[str, IdleSpan]:
    """Idle spans by workload uid."""
    row = transaction.fetch_one(READ, {"cluster_id": cluster_id})
    return _decode(strip_version("idle times of workloads", FORMAT_VERSION, row[0])) if row else {}


def write_spans(transaction: Transaction, cluster_id: str, at: int, spans: Mapping[str, IdleSpan]) -> None:
    transaction.execute(
        UPSERT, {"cluster_id": cluster_id, "at": at, "body": add_version(FORMAT_VERSION, _encode(spans))}
    )
