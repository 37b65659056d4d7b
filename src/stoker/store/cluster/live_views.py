"""Live views: the current state of each cluster, published by its controller.

A view consists of several kinds; the version of a kind grows whenever it is published.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import ClusterSummary, GpuColumns, GpuConsumer, LiveNode, LiveViewKind
from stoker.domain.errors import StokerError
from stoker.store.cluster.clusters import COLUMN_COUNT, COLUMNS, cluster_from_row
from stoker.store.db.base import Transaction
from stoker.store.db.blob_format import add_version, strip_version

VERSION = "SELECT version FROM live_view WHERE cluster_id = :cluster_id AND kind = :kind"
VERSIONS_BY_CLUSTER = f"""
SELECT {COLUMNS}, live_view.version
FROM cluster
LEFT JOIN live_view ON live_view.cluster_id = cluster.id
    AND live_view.kind = :kind
ORDER BY cluster.name
"""
READ = "SELECT version, at, body FROM live_view WHERE cluster_id = :cluster_id AND kind = :kind"
UPSERT = """
INSERT INTO live_view (cluster_id, kind, version, at, body)
VALUES (:cluster_id, :kind, 1, :at, :body)
ON CONFLICT (cluster_id, kind) DO UPDATE
SET version = live_view.version + 1, at = excluded.at, body = excluded.body
"""

FORMAT_VERSION = 2
"""The format of all kinds; it grows when a field is added or changes its meaning."""

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
decode_overview = msgspec.msgpack.Decoder(ClusterSummary).decode
decode_consumers = msgspec.msgpack.Decoder(list[GpuConsumer]).decode
_decode_items = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_node = msgspec.msgpack.Decoder(LiveNode).decode
_decode_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_column = {name: msgspec.msgpack.Decoder(column).decode for name, column in get_type_hints(GpuColumns).items()}


class LiveViewRow(Struct, frozen=True):
    """One kind as last published; `body` is encoded for the decoder of that kind."""

    version: int
    at: int
    body: bytes


def decode_nodes(body: bytes) -> list[LiveNode]:
    """Decode nodes one at a time, so that no single call holds the GIL for long."""
    return [_decode_node(item) for item in _decode_items(body)]


def decode_gpus(body: bytes) -> GpuColumns:
    """Decode columns one at a time, for the same reason."""
    return GpuColumns(**{name: _decode_column[name](column) for name, column in _decode_fields(body).items()})


def publish(transaction: Transaction, cluster_id: str, at: int, bodies: Mapping[LiveViewKind, bytes]) -> None:
    """Publish these kinds; the others stay as they are."""
    transaction.execute_many(
        UPSERT,
        [
            {"cluster_id": cluster_id, "kind": kind, "at": at, "body": add_version(FORMAT_VERSION, body)}
            for kind, body in bodies.items()
        ],
    )


def version(transaction: Transaction, cluster_id: str, kind: LiveViewKind) -> int:
    """The version of a kind; 0 if it was never published."""
    row = transaction.fetch_one(VERSION, {"cluster_id": cluster_id, "kind": kind})
    return row[0] if row else 0


def versions_by_cluster(transaction: Transaction, kind: LiveViewKind) -> list[tuple[Cluster, int]]:
    """All clusters by name, with the version of a kind; 0 if it was never published."""
    rows = transaction.fetch_all(VERSIONS_BY_CLUSTER, {"kind": kind})
    return [(cluster_from_row(row), row[COLUMN_COUNT] or 0) for row in rows]


def try_read(
    transaction: Transaction, cluster_id: str, kind: LiveViewKind, decode: Callable[[bytes], T]
) -> tuple[T, int] | None:
    """The last published value and its time; None if there is none or another version wrote an unreadable format."""
    try:
        view = read(transaction, cluster_id, kind)
        return (decode(view.body), view.at) if view else None
    except (StokerError, msgspec.DecodeError, TypeError):
        return None


def read(transaction: Transaction, cluster_id: str, kind: LiveViewKind) -> LiveViewRow | None:
    row = transaction.fetch_one(READ, {"cluster_id": cluster_id, "kind": kind})
    return LiveViewRow(row[0], row[1], strip_version("live views", FORMAT_VERSION, row[2])) if row else None
