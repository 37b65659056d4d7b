"""Points of training metrics, in chunks per source: a pod's log, or the reports of code in a pod.

Only the newest chunk of a source grows. `position`, the offset up to which the pod's log is parsed, is written
together with the points, and log lines are stored only after their points. So every line counts exactly once.
"""

import functools
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import zstandard
from msgspec import Struct, structs

from stoker.domain.metrics.points import SourcePoints, TrainingPoints, concatenate, merge_sources, to_points
from stoker.domain.metrics.training import MAX_POINTS_PER_WORKLOAD, TrainingSample
from stoker.store.db.base import Transaction
from stoker.store.db.blob_format import add_version, strip_version

FORMAT_VERSION = 1
"""The version of encoded chunks; times are in milliseconds, values in the unit in which they were reported."""
MAX_CHUNK_POINTS = 512
CHUNK_CACHE_SIZE = 256
"""Number of decompressed chunks in memory, about 30 KB each: clients that watch a workload query it repeatedly."""
DUPLICATE_WINDOW_MS = 60_000
"""A point that another pod repeats within this time of the first is a duplicate."""

NEWEST_CHUNK = """
SELECT number, attempt, position, points, data
FROM training_chunk
WHERE workload_uid = :workload_uid
  AND pod_uid = :source
ORDER BY number DESC
LIMIT 1
"""
UPSERT_CHUNK = """
INSERT INTO training_chunk (workload_uid, pod_uid, number, attempt, position, first_at, last_at, points, data)
VALUES (:workload_uid, :source, :number, :attempt, :position, :first_at, :last_at, :points, :data)
ON CONFLICT (workload_uid, pod_uid, number) DO UPDATE
SET position = excluded.position, first_at = excluded.first_at, last_at = excluded.last_at,
    points = excluded.points, data = excluded.data
"""
COUNT_POINTS = """
SELECT COALESCE(CAST(SUM(points) AS BIGINT), 0)
FROM training_chunk
WHERE workload_uid = :workload_uid
"""
COUNT_POINTS_IN_RANGE = COUNT_POINTS + "  AND last_at >= :first AND first_at <= :last"
OLDEST_CHUNK = """
SELECT pod_uid, number, points
FROM training_chunk
WHERE workload_uid = :workload_uid
ORDER BY last_at, pod_uid, number
LIMIT 1
"""
DELETE_CHUNK = """
DELETE FROM training_chunk
WHERE workload_uid = :workload_uid
  AND pod_uid = :source
  AND number = :number
"""
CHUNKS_IN_RANGE = """
SELECT pod_uid, attempt, data
FROM training_chunk
WHERE workload_uid = :workload_uid
  AND last_at >= :first
  AND first_at <= :last
ORDER BY pod_uid, number
"""  # the primary key finds the few chunks of the workload


class TrainingBatch(Struct, frozen=True):
    """New samples of one source; `position` is the offset up to which its log, if it has one, is parsed."""

    workload_uid: str
    source: str
    attempt: int
    samples: Sequence[TrainingSample] | TrainingPoints
    position: int = 0


def parsed_position(transaction: Transaction, workload_uid: str, pod_uid: str) -> int:
    """The offset in the pod's log of the first line that is not parsed yet."""
    row = transaction.fetch_one(NEWEST_CHUNK, {"workload_uid": workload_uid, "source": pod_uid})
    return row[2] if row else 0


def add_batches(
    transaction: Transaction, batches: Iterable[TrainingBatch], max_points: int = MAX_POINTS_PER_WORKLOAD
) -> None:
    """Store samples; deletes the oldest chunks of workloads with more than `max_points` points."""
    grown: set[str] = set()
    for batch in batches:
        points = batch.samples if isinstance(batch.samples, TrainingPoints) else to_points(batch.samples)
        for chunk_points in points.split(MAX_CHUNK_POINTS):
            if _write_points(transaction, batch, chunk_points):
                grown.add(batch.workload_uid)
    for workload_uid in sorted(grown):
        _enforce_max_points(transaction, workload_uid, max_points)


def read_points(transaction: Transaction, workload_uid: str, start: int, end: int, metric: str = "") -> TrainingPoints:
    """The points of a range, of all metrics or of one, by metric and time. A step that several pods of an attempt
    report counts once."""
    rows = transaction.fetch_all(
        CHUNKS_IN_RANGE, {"workload_uid": workload_uid, "first": start - DUPLICATE_WINDOW_MS, "last": end}
    )
    sources = [SourcePoints(source, attempt, _decompress(data)) for source, attempt, data in rows]
    if metric:
        sources = [structs.replace(source, points=source.points.for_metric(metric)) for source in sources]
    return merge_sources(sources, start, end)


def count_points(transaction: Transaction, workload_uid: str, start: int, end: int) -> int:
    """The number of points in the chunks that `read_points` reads."""
    row = transaction.fetch_one(
        COUNT_POINTS_IN_RANGE, {"workload_uid": workload_uid, "first": start - DUPLICATE_WINDOW_MS, "last": end}
    )
    return row[0] if row else 0


def _write_points(transaction: Transaction, batch: TrainingBatch, points: TrainingPoints) -> bool:
    """Append points to the newest chunk, or write a new chunk; True if the chunk is new."""
    key = {"workload_uid": batch.workload_uid, "source": batch.source}
    newest = transaction.fetch_one(NEWEST_CHUNK, key)
    grows = newest is not None and newest[1] == batch.attempt and newest[3] + len(points) <= MAX_CHUNK_POINTS
    if newest is not None and grows:
        points = concatenate([_decompress(newest[4]), points])
    chunk = {
        "number": 0 if newest is None else newest[0] + (0 if grows else 1),
        "attempt": batch.attempt,
        "position": batch.position,
        "first_at": int(points.at.min()),
        "last_at": int(points.at.max()),
        "points": len(points),
        "data": _compress(points),
    }
    transaction.execute(UPSERT_CHUNK, {**key, **chunk})
    return not grows


def _compress(points: TrainingPoints) -> bytes:
    """Encode times and steps as differences, which compress well."""
    body = (
        points.names,
        points.metric.astype("<u4").tobytes(),
        np.diff(points.at, prepend=0).astype("<i8").tobytes(),
        np.diff(points.step, prepend=0).astype("<i8").tobytes(),
        points.value.astype("<f8").tobytes(),
    )
    return add_version(FORMAT_VERSION, zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(body)))


@functools.lru_cache(CHUNK_CACHE_SIZE)
def _decompress(data: bytes) -> TrainingPoints:
    """Decode a chunk. The result is cached and shared: callers must not change it."""
    body = zstandard.ZstdDecompressor().decompress(strip_version("training metrics", FORMAT_VERSION, data))
    names, metric, at, step, value = msgspec.msgpack.decode(
        body, type=tuple[tuple[str, ...], bytes, bytes, bytes, bytes]
    )
    return TrainingPoints(
        names,
        np.frombuffer(metric, "<u4").astype(np.int64),
        np.cumsum(np.frombuffer(at, "<i8")),
        np.cumsum(np.frombuffer(step, "<i8")),
        np.frombuffer(value, "<f8"),
    )


def _enforce_max_points(transaction: Transaction, workload_uid: str, max_points: int) -> None:
    row = transaction.fetch_one(COUNT_POINTS, {"workload_uid": workload_uid})
    count = row[0] if row else 0
    while count > max_points and (oldest := transaction.fetch_one(OLDEST_CHUNK, {"workload_uid": workload_uid})):
        transaction.execute(DELETE_CHUNK, {"workload_uid": workload_uid, "source": oldest[0], "number": oldest[1]})
        count -= oldest[2]
