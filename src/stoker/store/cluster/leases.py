"""Leases: which server controls a cluster, and until when. Every acquisition increments the epoch, which fences writes
of earlier holders."""

from msgspec import Struct

from stoker.store.cluster.clusters import decode_capabilities
from stoker.store.db.base import Transaction

FIND = """
SELECT holder, epoch, expires_at
FROM lease
WHERE cluster_id = :cluster_id
"""
LEASES_OF_CLUSTERS = """
SELECT cluster.id, cluster.name, cluster.capabilities, COALESCE(lease.expires_at, cluster.created_at + :held_ms)
FROM cluster
LEFT JOIN lease ON lease.cluster_id = cluster.id
ORDER BY cluster.name
"""
ACQUIRE = """
INSERT INTO lease (cluster_id, holder, epoch, expires_at)
VALUES (:cluster_id, :holder, 1, :until)
ON CONFLICT (cluster_id) DO UPDATE
SET holder = excluded.holder, epoch = lease.epoch + 1, expires_at = excluded.expires_at
"""
RENEW = """
UPDATE lease
SET expires_at = :until
WHERE cluster_id = :cluster_id
"""
DELETE = "DELETE FROM lease WHERE cluster_id = :cluster_id"

NEW_CLUSTER_GRACE_MS = 15_000
"""For this long a new cluster counts as led although nobody has acquired its lease yet."""


class LeaseRecord(Struct, frozen=True):
    holder: str
    epoch: int
    expires_at: int


class ClusterLease(Struct, frozen=True):
    """When the lease of a cluster expires; a new cluster counts as leased for a grace period."""

    cluster_id: str
    name: str
    simulated: bool
    expires_at: int


def of_clusters(transaction: Transaction) -> list[ClusterLease]:
    """The leases of all clusters, by cluster name."""
    rows = transaction.fetch_all(LEASES_OF_CLUSTERS, {"held_ms": NEW_CLUSTER_GRACE_MS})
    return [ClusterLease(row[0], row[1], decode_capabilities(row[2]).simulated, row[3]) for row in rows]


def find(transaction: Transaction, cluster_id: str) -> LeaseRecord | None:
    row = transaction.fetch_one(FIND, {"cluster_id": cluster_id})
    return LeaseRecord(*row) if row else None


def current_epoch(transaction: Transaction, cluster_id: str) -> int:
    lease = find(transaction, cluster_id)
    return lease.epoch if lease else 0


def acquire(
    transaction: Transaction, cluster_id: str, holder: str, now: int, duration_ms: int, *, takeover: bool
) -> LeaseRecord:
    """Acquire a lease that is free or already the holder's; returns the resulting lease, whoever holds it.

    With `takeover`, an expired lease of another holder is acquired too.
    """
    lease = find(transaction, cluster_id)
    if lease is not None and lease.holder != holder and not (takeover and lease.expires_at <= now):
        return lease
    until = now + duration_ms
    transaction.execute(ACQUIRE, {"cluster_id": cluster_id, "holder": holder, "until": until})
    return find(transaction, cluster_id) or LeaseRecord(holder, 1, until)


def renew(transaction: Transaction, cluster_id: str, until: int) -> None:
    transaction.execute(RENEW, {"cluster_id": cluster_id, "until": until})


def delete(transaction: Transaction, cluster_id: str) -> None:
    transaction.execute(DELETE, {"cluster_id": cluster_id})
