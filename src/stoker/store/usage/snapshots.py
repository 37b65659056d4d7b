"""Who held what, at every slot of a fixed grid. A slot that nobody saw is kept as missed: it is never made up."""

from collections.abc import Iterable

import msgspec
import zstandard

from stoker.domain.usage import Snapshot, SnapshotWorkload
from stoker.store import counters
from stoker.store.base import Row, Transaction

INSERT = """
INSERT INTO snapshot (id, cluster_id, at, missed, gpus, allocated_milli, details, created_at)
VALUES (:id, :cluster_id, :at, :missed, :gpus, :allocated_milli, :details, :created_at)
"""
MISS = f"{INSERT} ON CONFLICT (cluster_id, at) DO NOTHING"
ADD = f"""
{INSERT}
ON CONFLICT (cluster_id, at) DO UPDATE
SET missed = 0, gpus = excluded.gpus, allocated_milli = excluded.allocated_milli, details = excluded.details,
    created_at = excluded.created_at
WHERE snapshot.missed = 1
"""
LAST_SLOT = "SELECT MAX(at) FROM snapshot WHERE cluster_id = :cluster_id"
LATEST = """
SELECT id, at, gpus, allocated_milli, created_at, details
FROM snapshot
WHERE cluster_id = :cluster_id
  AND missed = 0
ORDER BY at DESC
LIMIT 1
"""
DURING = """
SELECT id, at, gpus, allocated_milli, created_at{details}
FROM snapshot
WHERE cluster_id = :cluster_id
  AND at >= :from_at
  AND at <= :to_at
  AND missed = 0
ORDER BY at
LIMIT :limit
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[SnapshotWorkload]).decode


def add(
    transaction: Transaction,
    cluster_id: str,
    slot: int,
    gpus: int,
    workloads: list[SnapshotWorkload],
    at: int,
) -> None:
    """Keep what a slot looked like; the first to say it wins, unless it only said that nobody looked."""
    row = {
        "missed": 0,
        "gpus": gpus,
        "allocated_milli": sum(workload.gpu_milli for workload in workloads),
        "details": zstandard.compress(_encode(workloads), 3),
    }
    transaction.run(ADD, {**row, **_key(transaction, cluster_id, slot, at)})


def miss(transaction: Transaction, cluster_id: str, slots: Iterable[int], at: int) -> None:
    """Nobody was there to look."""
    empty = {"missed": 1, "gpus": 0, "allocated_milli": 0, "details": b""}
    transaction.many(MISS, [{**empty, **_key(transaction, cluster_id, slot, at)} for slot in slots])


def last_slot(transaction: Transaction, cluster_id: str) -> int | None:
    """The newest slot that was seen or missed."""
    row = transaction.one(LAST_SLOT, {"cluster_id": cluster_id})
    return row[0] if row else None


def latest(transaction: Transaction, cluster_id: str) -> Snapshot | None:
    row = transaction.one(LATEST, {"cluster_id": cluster_id})
    return _build(row) if row else None


def during(
    transaction: Transaction, cluster_id: str, from_at: int, to_at: int, *, details: bool, limit: int
) -> list[Snapshot]:
    """Oldest first, both ends included."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at, "limit": limit}
    sql = DURING.format(details=", details" if details else "")
    return [_build(row) for row in transaction.all(sql, params)]


def _key(transaction: Transaction, cluster_id: str, slot: int, at: int) -> dict[str, object]:
    number = counters.advance(transaction, "snapshot")
    return {"id": number, "cluster_id": cluster_id, "at": slot, "created_at": at}


def _build(row: Row) -> Snapshot:
    workloads = _decode(zstandard.decompress(row[5])) if len(row) > 5 else None
    return Snapshot(row[0], row[1], row[2], row[3], workloads, row[4])
