"""Allocation snapshots at fixed intervals. A slot without a snapshot is recorded as missed and never reconstructed."""

from collections.abc import Iterable

import msgspec
import zstandard

from stoker.domain.usage.snapshots import AllocationSnapshot, SnapshotWorkload
from stoker.store.db.base import Row, Transaction
from stoker.store.db.blob_format import add_version, strip_version
from stoker.store.sql import sequences

INSERT = """
INSERT INTO allocation_snapshot (id, cluster_id, at, missed, gpus, allocated_milli, details, created_at)
VALUES (:id, :cluster_id, :at, :missed, :gpus, :allocated_milli, :details, :created_at)
"""
ADD_MISSED = f"{INSERT} ON CONFLICT (cluster_id, at) DO NOTHING"
ADD = f"""
{INSERT}
ON CONFLICT (cluster_id, at) DO UPDATE
SET missed = 0, gpus = excluded.gpus, allocated_milli = excluded.allocated_milli, details = excluded.details,
    created_at = excluded.created_at
WHERE allocation_snapshot.missed = 1
"""
LAST_SLOT = "SELECT MAX(at) FROM allocation_snapshot WHERE cluster_id = :cluster_id"
LATEST = """
SELECT id, at, gpus, allocated_milli, created_at, details
FROM allocation_snapshot
WHERE cluster_id = :cluster_id
  AND missed = 0
ORDER BY at DESC
LIMIT 1
"""
SNAPSHOTS_IN_RANGE = """
SELECT id, at, gpus, allocated_milli, created_at{details}
FROM allocation_snapshot
WHERE cluster_id = :cluster_id
  AND at >= :from_at
  AND at <= :to_at
  AND missed = 0
ORDER BY at
LIMIT :limit
"""

FORMAT_VERSION = 1
"""The version of encoded details; GPUs are in milli-GPUs, utilization is a fraction."""

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
    """Store the snapshot of a slot; the first one wins, but it replaces a missed slot."""
    row = {
        "missed": 0,
        "gpus": gpus,
        "allocated_milli": sum(workload.gpu_milli for workload in workloads),
        "details": add_version(FORMAT_VERSION, zstandard.compress(_encode(workloads), 3)),
    }
    transaction.execute(ADD, {**row, **_row_key(transaction, cluster_id, slot, at)})


def add_missed(transaction: Transaction, cluster_id: str, slots: Iterable[int], at: int) -> None:
    """Record slots in which no snapshot was taken."""
    empty = {"missed": 1, "gpus": 0, "allocated_milli": 0, "details": b""}
    transaction.execute_many(ADD_MISSED, [{**empty, **_row_key(transaction, cluster_id, slot, at)} for slot in slots])


def last_slot(transaction: Transaction, cluster_id: str) -> int | None:
    """The newest slot, taken or missed."""
    row = transaction.fetch_one(LAST_SLOT, {"cluster_id": cluster_id})
    return row[0] if row else None


def latest(transaction: Transaction, cluster_id: str) -> AllocationSnapshot | None:
    row = transaction.fetch_one(LATEST, {"cluster_id": cluster_id})
    return _snapshot_from_row(row) if row else None


def in_range(
    transaction: Transaction, cluster_id: str, from_at: int, to_at: int, *, details: bool, limit: int
) -> list[AllocationSnapshot]:
    """The snapshots in [from_at, to_at], oldest first."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at, "limit": limit}
    sql = SNAPSHOTS_IN_RANGE.format(details=", details" if details else "")
    return [_snapshot_from_row(row) for row in transaction.fetch_all(sql, params)]


def _row_key(transaction: Transaction, cluster_id: str, slot: int, at: int) -> dict[str, object]:
    number = sequences.next_value(transaction, "allocation_snapshot")
    return {"id": number, "cluster_id": cluster_id, "at": slot, "created_at": at}


def _snapshot_from_row(row: Row) -> AllocationSnapshot:
    workloads = _decode_details(row[5]) if len(row) > 5 else None
    return AllocationSnapshot(row[0], row[1], row[2], row[3], workloads, row[4])


def _decode_details(details: bytes) -> list[SnapshotWorkload]:
    return _decode(zstandard.decompress(strip_version("allocation snapshots", FORMAT_VERSION, details)))
