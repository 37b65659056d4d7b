"""The log of workload events. It wakes the controller loops and feeds the event stream."""

from msgspec import Struct

from stoker.store.db.base import Row, Transaction

COLUMNS = "seq, at, workload_uid, slug, workspace_id, kind, phase, reason, message"
EVENTS_AFTER = f"""
SELECT {COLUMNS}
FROM workload_event
WHERE seq > :after
ORDER BY seq
LIMIT :limit
"""
EVENTS_OF_WORKLOAD = f"""
SELECT {COLUMNS}
FROM workload_event
WHERE workload_uid = :uid
  AND seq > :after
ORDER BY seq
LIMIT :limit
"""
EVENTS_IN_RANGE = f"""
SELECT {COLUMNS}
FROM workload_event
WHERE seq >= :first
  AND seq <= :last
ORDER BY seq
"""
LOG_VERSION = """
SELECT COALESCE(MAX(seq), 0), COUNT(*)
FROM workload_event
WHERE seq > (SELECT COALESCE(MAX(seq), 0) FROM workload_event) - :late
"""
LAST_SEQ = "SELECT COALESCE(MAX(seq), 0) FROM workload_event"
GAP_TIMEOUT_MS = 30_000
"""How long a skipped sequence number may still appear; no write transaction takes longer."""
MAX_GAP = 1000


class WorkloadEventRow(Struct, frozen=True):
    seq: int
    at: int
    workload_uid: str
    slug: str
    workspace_id: int
    kind: str
    phase: str
    reason: str
    message: str


def events_after(transaction: Transaction, after: int, limit: int = 1000) -> list[WorkloadEventRow]:
    return [WorkloadEventRow(*row) for row in transaction.fetch_all(EVENTS_AFTER, {"after": after, "limit": limit})]


def of_workload(transaction: Transaction, uid: str, after: int, limit: int = 1000) -> list[WorkloadEventRow]:
    return [
        WorkloadEventRow(*row)
        for row in transaction.fetch_all(EVENTS_OF_WORKLOAD, {"uid": uid, "after": after, "limit": limit})
    ]


def last_seq(transaction: Transaction) -> int:
    row = transaction.fetch_one(LAST_SEQ)
    return row[0] if row else 0


def log_version(transaction: Transaction) -> Row:
    """A value that changes with every event, including one committed after events with higher numbers."""
    return transaction.fetch_one(LOG_VERSION, {"late": MAX_GAP}) or ()


class EventCursor:
    """The position of a reader of all events.

    On PostgreSQL an event can become visible after events with higher numbers. Skipped numbers are therefore queried
    again until GAP_TIMEOUT_MS have passed.
    """

    def __init__(self, after: int) -> None:
        self._last_seq = after
        self._gaps: dict[int, int] = {}

    def copy(self) -> "EventCursor":
        """A cursor at the same position, for a read that may fail: the original then stays where it is."""
        cursor = EventCursor(self._last_seq)
        cursor._gaps = self._gaps.copy()
        return cursor

    def read(self, transaction: Transaction, now: int) -> list[WorkloadEventRow]:
        """Events that this cursor has not returned before."""
        self._gaps = {seq: until for seq, until in self._gaps.items() if until > now}
        late: list[WorkloadEventRow] = []
        if self._gaps:
            gap_range = {"first": min(self._gaps), "last": max(self._gaps)}
            found = (WorkloadEventRow(*row) for row in transaction.fetch_all(EVENTS_IN_RANGE, gap_range))
            late = [row for row in found if row.seq in self._gaps]
        rows = events_after(transaction, self._last_seq)
        for row in late:
            del self._gaps[row.seq]
        for row in rows:
            first = max(self._last_seq + 1, row.seq - MAX_GAP)  # a larger gap was deleted by retention
            self._gaps |= dict.fromkeys(range(first, row.seq), now + GAP_TIMEOUT_MS)
            self._last_seq = row.seq
        return late + rows
