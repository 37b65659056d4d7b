"""What each cluster looks like now, part by part. A part has a version that grows whenever it is published."""

from collections.abc import Callable, Mapping
from typing import TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from stoker.domain.identity import Cluster
from stoker.domain.live import Consumer, GpuColumns, NodeNow, Overview, Part
from stoker.store.base import Transaction

VERSION = "SELECT version FROM live_view WHERE cluster_id = :cluster_id AND part = :part"
VERSIONS = """
SELECT cluster.id, cluster.name, cluster.engine, cluster.description, cluster.created_at, live_view.version
FROM cluster
LEFT JOIN live_view ON live_view.cluster_id = cluster.id
    AND live_view.part = :part
ORDER BY cluster.name
"""
READ = "SELECT version, at, body FROM live_view WHERE cluster_id = :cluster_id AND part = :part"
PUT = """
INSERT INTO live_view (cluster_id, part, version, at, body)
VALUES (:cluster_id, :part, 1, :at, :body)
ON CONFLICT (cluster_id, part) DO UPDATE
SET version = live_view.version + 1, at = excluded.at, body = excluded.body
"""

T = TypeVar("T")

encode = msgspec.msgpack.Encoder().encode
decode_overview = msgspec.msgpack.Decoder(Overview).decode
decode_consumers = msgspec.msgpack.Decoder(list[Consumer]).decode
_decode_items = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_node = msgspec.msgpack.Decoder(NodeNow).decode
_decode_fields = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_column = {name: msgspec.msgpack.Decoder(kind).decode for name, kind in get_type_hints(GpuColumns).items()}


class View(Struct, frozen=True):
    """One part as it was last published; `body` is for the decoder of that part."""

    version: int
    at: int
    body: bytes


def decode_nodes(body: bytes) -> list[NodeNow]:
    """A node at a time, so that no thread waits long for another."""
    return [_decode_node(item) for item in _decode_items(body)]


def decode_gpus(body: bytes) -> GpuColumns:
    """A column at a time, for the same reason."""
    return GpuColumns(**{name: _decode_column[name](column) for name, column in _decode_fields(body).items()})


def put(transaction: Transaction, cluster_id: str, at: int, parts: Mapping[Part, bytes]) -> None:
    """Publish these parts; the others stay as they are."""
    transaction.many(
        PUT, [{"cluster_id": cluster_id, "part": part, "at": at, "body": body} for part, body in parts.items()]
    )


def version(transaction: Transaction, cluster_id: str, part: Part) -> int:
    """0 before the part was ever published."""
    row = transaction.one(VERSION, {"cluster_id": cluster_id, "part": part})
    return row[0] if row else 0


def versions(transaction: Transaction, part: Part) -> list[tuple[Cluster, int]]:
    """Every cluster by name, with the version of a part; 0 before it was ever published."""
    return [(Cluster(*row[:5]), row[5] or 0) for row in transaction.all(VERSIONS, {"part": part})]


def recall(transaction: Transaction, cluster_id: str, part: Part, decode: Callable[[bytes], T]) -> tuple[T, int] | None:
    """A part as it was published last, and when; None if another version wrote it in a way that cannot be read."""
    view = read(transaction, cluster_id, part)
    try:
        return (decode(view.body), view.at) if view else None
    except (msgspec.DecodeError, TypeError):
        return None


def read(transaction: Transaction, cluster_id: str, part: Part) -> View | None:
    row = transaction.one(READ, {"cluster_id": cluster_id, "part": part})
    return View(*row) if row else None
