"""What changed, in order: it wakes the loops and feeds the event stream."""

from msgspec import Struct

from stoker.store.base import Transaction

COLUMNS = "seq, at, workload_uid, slug, workspace_id, kind, phase, reason, message"
SINCE = f"""
SELECT {COLUMNS}
FROM change
WHERE seq > :after
ORDER BY seq
LIMIT :limit
"""
OF_WORKLOAD = f"""
SELECT {COLUMNS}
FROM change
WHERE workload_uid = :uid
  AND seq > :after
ORDER BY seq
LIMIT :limit
"""
LAST = "SELECT COALESCE(MAX(seq), 0) FROM change"


class ChangeRow(Struct, frozen=True):
    seq: int
    at: int
    workload_uid: str
    slug: str
    workspace_id: int
    kind: str
    phase: str
    reason: str
    message: str


def since(transaction: Transaction, after: int, limit: int = 1000) -> list[ChangeRow]:
    return [ChangeRow(*row) for row in transaction.all(SINCE, {"after": after, "limit": limit})]


def of_workload(transaction: Transaction, uid: str, after: int, limit: int = 1000) -> list[ChangeRow]:
    return [ChangeRow(*row) for row in transaction.all(OF_WORKLOAD, {"uid": uid, "after": after, "limit": limit})]


def last(transaction: Transaction) -> int:
    row = transaction.one(LAST)
    return row[0] if row else 0
