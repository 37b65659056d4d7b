"""Logs of pods, kept after the pods are gone, as compressed chunks of lines. A chunk is written once."""

import zlib
from collections.abc import Sequence

from msgspec import Struct

from stoker.store.db.base import Transaction

LAST_CHUNK = """
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
NEXT_CHUNK = """
SELECT number, lines, first_at, position
FROM log_chunk
WHERE pod_uid = :pod_uid
  AND number > :number
ORDER BY number
LIMIT 1
"""
PREVIOUS_CHUNK = """
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
OLDEST_CHUNK = """
SELECT number, bytes
FROM log_chunk
WHERE pod_uid = :pod_uid
  AND number < :newest
ORDER BY number
LIMIT 1
"""
DELETE_CHUNK = "DELETE FROM log_chunk WHERE pod_uid = :pod_uid AND number = :number"

TimestampedLine = tuple[int, str]
"""Time and text of a log line."""


class LogChunk(Struct, frozen=True):
    """Log lines of a pod. `position` is the offset in the engine's log after them."""

    pod_uid: str
    workload_uid: str
    attempt: int
    lines: Sequence[TimestampedLine]
    position: int


class LogChunkHeader(Struct, frozen=True):
    """A stored chunk without its lines."""

    number: int
    lines: int
    first_at: int
    position: int


def collected_position(transaction: Transaction, pod_uid: str) -> int:
    """The offset in the engine's log up to which lines are stored."""
    return last_chunk(transaction, pod_uid)[1]


def last_chunk(transaction: Transaction, pod_uid: str) -> tuple[int, int]:
    """The number of the last chunk (-1 if there is none), and the offset in the engine's log after it."""
    row = transaction.fetch_one(LAST_CHUNK, {"pod_uid": pod_uid})
    return (row[0], row[1]) if row else (-1, 0)


def add_chunk(transaction: Transaction, chunk: LogChunk, cap_bytes: int) -> None:
    """Store a chunk, and delete the pod's oldest chunks if it has more than `cap_bytes`."""
    number = last_chunk(transaction, chunk.pod_uid)[0] + 1
    text = "\n".join(f"{at} {line}" for at, line in chunk.lines).encode("utf-8", "surrogateescape")
    transaction.execute(
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
    _enforce_cap(transaction, chunk.pod_uid, cap_bytes, number)


def next_chunk(transaction: Transaction, pod_uid: str, number: int) -> LogChunkHeader | None:
    """The chunk after this number."""
    row = transaction.fetch_one(NEXT_CHUNK, {"pod_uid": pod_uid, "number": number})
    return LogChunkHeader(*row) if row else None


def previous_chunk(transaction: Transaction, pod_uid: str, number: int, since: int) -> LogChunkHeader | None:
    """The last chunk before this number with a line not older than `since`."""
    row = transaction.fetch_one(PREVIOUS_CHUNK, {"pod_uid": pod_uid, "number": number, "since": since})
    return LogChunkHeader(*row) if row else None


def read_lines(transaction: Transaction, pod_uid: str, number: int) -> list[TimestampedLine]:
    """The lines of a chunk; none if it was deleted."""
    row = transaction.fetch_one(READ, {"pod_uid": pod_uid, "number": number})
    if row is None:
        return []
    pairs = (line.partition(" ") for line in zlib.decompress(row[0]).decode("utf-8", "surrogateescape").split("\n"))
    return [(int(at), text) for at, _, text in pairs]


def _enforce_cap(transaction: Transaction, pod_uid: str, cap_bytes: int, last: int) -> None:
    """Delete the oldest chunks over the cap, but never the newest, which records the log position."""
    row = transaction.fetch_one(SIZE, {"pod_uid": pod_uid})
    size = row[0] if row else 0
    while size > cap_bytes and (oldest := transaction.fetch_one(OLDEST_CHUNK, {"pod_uid": pod_uid, "newest": last})):
        transaction.execute(DELETE_CHUNK, {"pod_uid": pod_uid, "number": oldest[0]})
        size -= oldest[1]
