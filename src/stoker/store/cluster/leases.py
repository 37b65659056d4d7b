"""Which server drives which cluster, until when, and for the how-many-th time."""

from msgspec import Struct

from stoker.store.base import Transaction

FIND = """
SELECT holder, epoch, expires_at
FROM lease
WHERE cluster_id = :cluster_id
"""
TAKE = """
INSERT INTO lease (cluster_id, holder, epoch, expires_at)
VALUES (:cluster_id, :holder, 1, :until)
ON CONFLICT (cluster_id) DO UPDATE
SET holder = excluded.holder, epoch = lease.epoch + 1, expires_at = excluded.expires_at
"""
EXTEND = """
UPDATE lease
SET expires_at = :until
WHERE cluster_id = :cluster_id
"""


HELD_MS = 15_000
"""How long a lease lasts that is not renewed."""


class Grant(Struct, frozen=True):
    holder: str
    epoch: int
    expires_at: int


def find(transaction: Transaction, cluster_id: str) -> Grant | None:
    row = transaction.one(FIND, {"cluster_id": cluster_id})
    return Grant(*row) if row else None


def epoch(transaction: Transaction, cluster_id: str) -> int:
    grant = find(transaction, cluster_id)
    return grant.epoch if grant else 0


def take(transaction: Transaction, cluster_id: str, holder: str, until: int, *, takeover: bool) -> Grant:
    """Take the lease if it is free or was one's own; gives whoever holds it then. With `takeover` it is taken from
    a holder that has let it run out."""
    grant = find(transaction, cluster_id)
    if grant is not None and grant.holder != holder and not (takeover and grant.expires_at <= until - HELD_MS):
        return grant
    transaction.run(TAKE, {"cluster_id": cluster_id, "holder": holder, "until": until})
    return find(transaction, cluster_id) or Grant(holder, 1, until)


def extend(transaction: Transaction, cluster_id: str, until: int) -> None:
    transaction.run(EXTEND, {"cluster_id": cluster_id, "until": until})
