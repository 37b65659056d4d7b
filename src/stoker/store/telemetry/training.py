"""The points of training metrics, in chunks per source: a pod's log, or what code in a pod reported.

Only the newest chunk of a source grows. `position` says how far the pod's log was parsed and is written together with
the points; log lines are kept only after their points are. So no line counts twice, and none is missed.
"""

import functools
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import zstandard
from msgspec import Struct, structs

from stoker.domain.points import Part, Points, columns, joined, merged
from stoker.domain.training import MOST_POINTS, Measured
from stoker.store.base import Transaction

CHUNK_POINTS = 512
KEPT_CHUNKS = 256
"""So many stay unpacked, with about 30 KB each: what people watch is asked for again and again."""
LATE_MS = 60_000
"""How much later than the first another pod may say the same and still not be counted."""

NEWEST = """
SELECT number, attempt, position, points, data
FROM training_chunk
WHERE workload_uid = :workload_uid
  AND pod_uid = :source
ORDER BY number DESC
LIMIT 1
"""
PUT = """
INSERT INTO training_chunk (workload_uid, pod_uid, number, attempt, position, first_at, last_at, points, data)
VALUES (:workload_uid, :source, :number, :attempt, :position, :first_at, :last_at, :points, :data)
ON CONFLICT (workload_uid, pod_uid, number) DO UPDATE
SET position = excluded.position, first_at = excluded.first_at, last_at = excluded.last_at,
    points = excluded.points, data = excluded.data
"""
COUNT = """
SELECT COALESCE(CAST(SUM(points) AS BIGINT), 0)
FROM training_chunk
WHERE workload_uid = :workload_uid
"""
COUNT_WITHIN = COUNT + "  AND last_at >= :first AND first_at <= :last"
OLDEST = """
SELECT pod_uid, number, points
FROM training_chunk
WHERE workload_uid = :workload_uid
ORDER BY last_at, pod_uid, number
LIMIT 1
"""
DROP = """
DELETE FROM training_chunk
WHERE workload_uid = :workload_uid
  AND pod_uid = :source
  AND number = :number
"""
WITHIN = """
SELECT pod_uid, attempt, data
FROM training_chunk
WHERE workload_uid = :workload_uid
  AND last_at >= :first
  AND first_at <= :last
ORDER BY pod_uid, number
"""  # the primary key finds the workload, whose chunks are few


class Batch(Struct, frozen=True):
    """What one source said since it was last written; `position` is how far its log was parsed, if it has one."""

    workload_uid: str
    source: str
    attempt: int
    measured: Sequence[Measured] | Points
    position: int = 0


def parsed_up_to(transaction: Transaction, workload_uid: str, pod_uid: str) -> int:
    """Where in the pod's log the first line is that was not parsed."""
    row = transaction.one(NEWEST, {"workload_uid": workload_uid, "source": pod_uid})
    return row[2] if row else 0


def add(transaction: Transaction, batches: Iterable[Batch], most: int = MOST_POINTS) -> None:
    """Keep what was said; of a workload that has more than `most` points, the oldest chunks go."""
    grown: set[str] = set()
    for batch in batches:
        found = batch.measured if isinstance(batch.measured, Points) else columns(batch.measured)
        for part in found.parts(CHUNK_POINTS):
            if _put(transaction, batch, part):
                grown.add(batch.workload_uid)
    for workload_uid in sorted(grown):
        _keep_to(transaction, workload_uid, most)


def points(transaction: Transaction, workload_uid: str, start: int, end: int, metric: str = "") -> Points:
    """Every point of a range, or those of one metric, by metric, then time. What several pods of an attempt said of one
    step counts once."""
    rows = transaction.all(WITHIN, {"workload_uid": workload_uid, "first": start - LATE_MS, "last": end})
    parts = [Part(source, attempt, _unpacked(data)) for source, attempt, data in rows]
    if metric:
        parts = [structs.replace(part, points=part.points.of(metric)) for part in parts]
    return merged(parts, start, end)


def count(transaction: Transaction, workload_uid: str, start: int, end: int) -> int:
    """How many points the chunks have that `points` looks at."""
    found = transaction.one(COUNT_WITHIN, {"workload_uid": workload_uid, "first": start - LATE_MS, "last": end})
    return found[0] if found else 0


def _put(transaction: Transaction, batch: Batch, found: Points) -> bool:
    """Write the points into the newest chunk, or into one more; says whether it was one more."""
    place = {"workload_uid": batch.workload_uid, "source": batch.source}
    newest = transaction.one(NEWEST, place)
    grows = newest is not None and newest[1] == batch.attempt and newest[3] + len(found) <= CHUNK_POINTS
    if newest is not None and grows:
        found = joined([_unpacked(newest[4]), found])
    chunk = {
        "number": 0 if newest is None else newest[0] + (0 if grows else 1),
        "attempt": batch.attempt,
        "position": batch.position,
        "first_at": int(found.at.min()),
        "last_at": int(found.at.max()),
        "points": len(found),
        "data": _packed(found),
    }
    transaction.run(PUT, {**place, **chunk})
    return not grows


def _packed(found: Points) -> bytes:
    """Times and steps as differences, which are small and alike."""
    body = (
        found.names,
        found.metric.astype("<u4").tobytes(),
        np.diff(found.at, prepend=0).astype("<i8").tobytes(),
        np.diff(found.step, prepend=0).astype("<i8").tobytes(),
        found.value.astype("<f8").tobytes(),
    )
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(body))


@functools.lru_cache(KEPT_CHUNKS)
def _unpacked(data: bytes) -> Points:
    """Nobody may change what comes back: whoever asks next gets the same."""
    body = zstandard.ZstdDecompressor().decompress(data)
    names, metric, at, step, value = msgspec.msgpack.decode(
        body, type=tuple[tuple[str, ...], bytes, bytes, bytes, bytes]
    )
    return Points(
        names,
        np.frombuffer(metric, "<u4").astype(np.int64),
        np.cumsum(np.frombuffer(at, "<i8")),
        np.cumsum(np.frombuffer(step, "<i8")),
        np.frombuffer(value, "<f8"),
    )


def _keep_to(transaction: Transaction, workload_uid: str, most: int) -> None:
    counted = transaction.one(COUNT, {"workload_uid": workload_uid})
    count = counted[0] if counted else 0
    while count > most and (oldest := transaction.one(OLDEST, {"workload_uid": workload_uid})):
        transaction.run(DROP, {"workload_uid": workload_uid, "source": oldest[0], "number": oldest[1]})
        count -= oldest[2]
