"""What pods printed, kept after they have gone: compressed chunks of lines, each written once."""

import zlib
from collections.abc import Sequence

from msgspec import Struct

from stoker.store.base import Transaction

NEWEST = """
SELECT number, position
FROM log_chunk
WHERE pod_uid = :pod_uid
ORDER BY number DESC
LIMIT 1
"""
ADD = """
INSERT INTO log_chunk (pod_uid, number, workload_uid, attempt, first_at, last_at, lines, bytes, position, data)
VALUES (:pod_uid, :number, :workload_uid, :attempt, :first_at, :last_at, :lines, :bytes, :position, :data)
"""
AFTER = """
SELECT number, lines, first_at, position
FROM log_chunk
WHERE pod_uid = :pod_uid
  AND number > :number
ORDER BY number
LIMIT 1
"""
BEFORE = """
SELECT number, lines, first_at, position
FROM log_chunk
WHERE pod_uid = :pod_uid
  AND number < :number
  AND last_at >= :since
ORDER BY number DESC
LIMIT 1
"""
READ = "SELECT data FROM log_chunk WHERE pod_uid = :pod_uid AND number = :number"
SIZE = "SELECT COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM log_chunk WHERE pod_uid = :pod_uid"
OLDEST = """
SELECT number, bytes
FROM log_chunk
WHERE pod_uid = :pod_uid
  AND number < :newest
ORDER BY number
LIMIT 1
"""
DROP = "DELETE FROM log_chunk WHERE pod_uid = :pod_uid AND number = :number"

Line = tuple[int, str]
"""When it was printed, and what."""


class Chunk(Struct, frozen=True):
    """Lines of one pod. `position` is where the engine's log goes on after them."""

    pod_uid: str
    workload_uid: str
    attempt: int
    lines: Sequence[Line]
    position: int


class Head(Struct, frozen=True):
    """A kept chunk without its lines."""

    number: int
    lines: int
    first_at: int
    position: int


def collected_up_to(transaction: Transaction, pod_uid: str) -> int:
    """Where in the engine's log the next chunk begins."""
    return newest(transaction, pod_uid)[1]


def newest(transaction: Transaction, pod_uid: str) -> tuple[int, int]:
    """The number of the last chunk, -1 when there is none, and where the engine's log goes on after it."""
    row = transaction.one(NEWEST, {"pod_uid": pod_uid})
    return (row[0], row[1]) if row else (-1, 0)


def add(transaction: Transaction, chunk: Chunk, cap_bytes: int) -> None:
    """Keep a chunk, and drop the pod's oldest when it has more than its share."""
    number = newest(transaction, chunk.pod_uid)[0] + 1
    text = "\n".join(f"{at} {line}" for at, line in chunk.lines).encode("utf-8", "surrogateescape")
    transaction.run(
        ADD,
        {
            "pod_uid": chunk.pod_uid,
            "number": number,
            "workload_uid": chunk.workload_uid,
            "attempt": chunk.attempt,
            "first_at": chunk.lines[0][0],
            "last_at": max(at for at, _ in chunk.lines),
            "lines": len(chunk.lines),
            "bytes": len(text),
            "position": chunk.position,
            "data": zlib.compress(text, 1),
        },
    )
    _keep_to(transaction, chunk.pod_uid, cap_bytes, number)


def after(transaction: Transaction, pod_uid: str, number: int) -> Head | None:
    """The chunk that follows this one."""
    row = transaction.one(AFTER, {"pod_uid": pod_uid, "number": number})
    return Head(*row) if row else None


def before(transaction: Transaction, pod_uid: str, number: int, since: int) -> Head | None:
    """The last chunk before this one that has a line not older than `since`."""
    row = transaction.one(BEFORE, {"pod_uid": pod_uid, "number": number, "since": since})
    return Head(*row) if row else None


def lines_of(transaction: Transaction, pod_uid: str, number: int) -> list[Line]:
    """The lines of one chunk; none when it was dropped."""
    row = transaction.one(READ, {"pod_uid": pod_uid, "number": number})
    if row is None:
        return []
    pairs = (line.partition(" ") for line in zlib.decompress(row[0]).decode("utf-8", "surrogateescape").split("\n"))
    return [(int(at), text) for at, _, text in pairs]


def _keep_to(transaction: Transaction, pod_uid: str, cap_bytes: int, last: int) -> None:
    """The newest chunk always stays: it tells how far the log was read."""
    sized = transaction.one(SIZE, {"pod_uid": pod_uid})
    size = sized[0] if sized else 0
    while size > cap_bytes and (oldest := transaction.one(OLDEST, {"pod_uid": pod_uid, "newest": last})):
        transaction.run(DROP, {"pod_uid": pod_uid, "number": oldest[0]})
        size -= oldest[1]
