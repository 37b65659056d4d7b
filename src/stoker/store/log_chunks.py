"""What pods printed, kept after they have gone: compressed chunks of lines, each written once."""

import zlib
from collections.abc import Iterator, Sequence

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
BACKWARDS = """
SELECT number, data
FROM log_chunk
WHERE pod_uid = :pod_uid
  AND number < :below
  AND position <= :position
  AND last_at >= :since
ORDER BY number DESC
LIMIT 8
"""
SIZE = "SELECT COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM log_chunk WHERE pod_uid = :pod_uid"
OLDEST = """
SELECT number, bytes
FROM log_chunk
WHERE pod_uid = :pod_uid
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


def collected_up_to(transaction: Transaction, pod_uid: str) -> int:
    """Where in the engine's log the next chunk begins."""
    row = transaction.one(NEWEST, {"pod_uid": pod_uid})
    return row[1] if row else 0


def add(transaction: Transaction, chunk: Chunk, cap_bytes: int) -> None:
    """Keep a chunk, and drop the pod's oldest when it has more than its share."""
    newest = transaction.one(NEWEST, {"pod_uid": chunk.pod_uid})
    text = "\n".join(f"{at} {line}" for at, line in chunk.lines).encode("utf-8", "surrogateescape")
    transaction.run(
        ADD,
        {
            "pod_uid": chunk.pod_uid,
            "number": newest[0] + 1 if newest else 0,
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
    _keep_to(transaction, chunk.pod_uid, cap_bytes)


def backwards(transaction: Transaction, pod_uid: str, since: int, position: int) -> Iterator[Line]:
    """Lines that lie before a position of the engine's log, from the newest to the oldest not before `since`."""
    below = 1 << 62
    while rows := transaction.all(
        BACKWARDS, {"pod_uid": pod_uid, "below": below, "since": since, "position": position}
    ):
        for number, data in rows:
            below = number
            for line in reversed(zlib.decompress(data).decode("utf-8", "surrogateescape").split("\n")):
                at, _, text = line.partition(" ")
                if int(at) >= since:
                    yield int(at), text


def _keep_to(transaction: Transaction, pod_uid: str, cap_bytes: int) -> None:
    sized = transaction.one(SIZE, {"pod_uid": pod_uid})
    size = sized[0] if sized else 0
    while size > cap_bytes and (oldest := transaction.one(OLDEST, {"pod_uid": pod_uid})):
        transaction.run(DROP, {"pod_uid": pod_uid, "number": oldest[0]})
        size -= oldest[1]
