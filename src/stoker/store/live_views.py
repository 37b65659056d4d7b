"""What each cluster looks like now, part by part. A part has a version that grows whenever it is published."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from stoker.domain.live import Consumer, GpuColumns, NodeNow, Overview, Part
from stoker.store.base import Transaction

VERSION = "SELECT version FROM live_view WHERE cluster_id = :cluster_id AND part = :part"
READ = "SELECT version, at, body FROM live_view WHERE cluster_id = :cluster_id AND part = :part"
PUT = """
INSERT INTO live_view (cluster_id, part, version, at, body)
VALUES (:cluster_id, :part, 1, :at, :body)
ON CONFLICT (cluster_id, part) DO UPDATE
SET version = live_view.version + 1, at = excluded.at, body = excluded.body
"""

encode = msgspec.msgpack.Encoder().encode
decode_overview = msgspec.msgpack.Decoder(Overview).decode
decode_consumers = msgspec.msgpack.Decoder(list[Consumer]).decode
decode_nodes = msgspec.msgpack.Decoder(list[NodeNow]).decode
decode_gpus = msgspec.msgpack.Decoder(GpuColumns).decode


class View(Struct, frozen=True):
    """One part as it was last published; `body` is for the decoder of that part."""

    version: int
    at: int
    body: bytes


def put(transaction: Transaction, cluster_id: str, at: int, parts: Mapping[Part, bytes]) -> None:
    """Publish these parts; the others stay as they are."""
    transaction.many(
        PUT, [{"cluster_id": cluster_id, "part": part, "at": at, "body": body} for part, body in parts.items()]
    )


def version(transaction: Transaction, cluster_id: str, part: Part) -> int:
    """0 before the part was ever published."""
    row = transaction.one(VERSION, {"cluster_id": cluster_id, "part": part})
    return row[0] if row else 0


def read(transaction: Transaction, cluster_id: str, part: Part) -> View | None:
    row = transaction.one(READ, {"cluster_id": cluster_id, "part": part})
    return View(*row) if row else None
