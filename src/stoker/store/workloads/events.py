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
BETWEEN = f"""
SELECT {COLUMNS}
FROM change
WHERE seq >= :first
  AND seq <= :last
ORDER BY seq
"""
LAST = "SELECT COALESCE(MAX(seq), 0) FROM change"
LATE_MS = 30_000
"""How long a number that was passed over may still come to be seen; no write takes as long."""
LATE_NUMBERS = 1000


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


class Cursor:
    """Where a reader of all changes stands. On PostgreSQL a change can come to be seen after ones with higher
    numbers: numbers that were passed over are looked for again, until no write can be under way that has them."""

    def __init__(self, after: int) -> None:
        self._top = after
        self._passed_over: dict[int, int] = {}

    def read(self, transaction: Transaction, now: int) -> list[ChangeRow]:
        """Changes that were not given before."""
        self._passed_over = {seq: until for seq, until in self._passed_over.items() if until > now}
        late: list[ChangeRow] = []
        if self._passed_over:
            between = {"first": min(self._passed_over), "last": max(self._passed_over)}
            found = (ChangeRow(*row) for row in transaction.all(BETWEEN, between))
            late = [row for row in found if row.seq in self._passed_over]
        rows = since(transaction, self._top)
        for row in late:
            del self._passed_over[row.seq]
        for row in rows:
            first = max(self._top + 1, row.seq - LATE_NUMBERS)  # what is far behind was forgotten long ago
            self._passed_over |= dict.fromkeys(range(first, row.seq), now + LATE_MS)
            self._top = row.seq
        return late + rows
