"""Readings as they are kept: a tick at a time in the open hour, and the hours that are over in segments.

A tick is cut into stripes of adjacent GPUs. A segment is an hour, or a part of one, of the GPUs of one roster, cut into
chunks of adjacent GPUs. It is written in pieces and counts only once it is sealed; its ticks go in the same
transaction. So every reading counts once, in a tick or in a sealed segment, whenever the writer is stopped.
"""

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from stoker.domain.clock import HOUR_MS
from stoker.store import counters, usage
from stoker.store.base import Transaction

ROSTER_OF = "SELECT id FROM roster WHERE cluster_id = :cluster_id AND sha256 = :sha256"
ROSTER = "SELECT body FROM roster WHERE id = :id"
ADD_ROSTER = """
INSERT INTO roster (id, cluster_id, sha256, created_at, gpus, body)
VALUES (:id, :cluster_id, :sha256, :at, :gpus, :body)
"""
ADD_TICK = """
INSERT INTO sample_tick (cluster_id, at, roster_id)
VALUES (:cluster_id, :at, :roster_id)
ON CONFLICT (cluster_id, at) DO NOTHING
"""
ADD_STRIPE = """
INSERT INTO sample_stripe (cluster_id, first_gpu, at, gpus, data)
VALUES (:cluster_id, :first_gpu, :at, :gpus, :data)
ON CONFLICT (cluster_id, first_gpu, at) DO UPDATE
SET gpus = excluded.gpus, data = excluded.data
"""
TICKS = """
SELECT at, roster_id
FROM sample_tick
WHERE cluster_id = :cluster_id
  AND at >= :from_at
  AND at < :to_at
ORDER BY at
"""
STRIPES = """
SELECT at, data
FROM sample_stripe
WHERE cluster_id = :cluster_id
  AND first_gpu = :first_gpu
  AND at >= :from_at
  AND at < :to_at
ORDER BY at
"""
NEWEST_TICK = "SELECT MAX(at) FROM sample_tick WHERE cluster_id = :cluster_id"
NEWEST_HOUR = "SELECT MAX(hour_at) FROM sample_segment WHERE cluster_id = :cluster_id"
OLDEST_TICK = "SELECT MIN(at) FROM sample_tick WHERE cluster_id = :cluster_id"
DROP_TICK = "DELETE FROM sample_tick WHERE cluster_id = :cluster_id AND at = :at"
SWEEP = """
DELETE FROM sample_stripe
WHERE (cluster_id, first_gpu, at) IN (
    SELECT cluster_id, first_gpu, at
    FROM sample_stripe
    WHERE cluster_id = :cluster_id
      AND at < :before
    LIMIT :limit
)
"""
ADD_SEGMENT = """
INSERT INTO sample_segment (id, cluster_id, hour_at, roster_id, ticks, times, chunk_gpus, sealed_at)
VALUES (:id, :cluster_id, :hour_at, :roster_id, :ticks, :times, :chunk_gpus, NULL)
"""
ADD_CHUNK = """
INSERT INTO sample_chunk (segment_id, first_gpu, gpus, data)
VALUES (:segment_id, :first_gpu, :gpus, :data)
"""
SEAL = "UPDATE sample_segment SET sealed_at = :at WHERE id = :id"
UNSEALED = "SELECT id FROM sample_segment WHERE cluster_id = :cluster_id AND sealed_at IS NULL"
DROP_SEGMENT = "DELETE FROM sample_segment WHERE id = :id"
SEGMENTS = """
SELECT id, hour_at, roster_id, ticks, times, chunk_gpus, sealed_at
FROM sample_segment
WHERE cluster_id = :cluster_id
  AND hour_at >= :from_hour
  AND hour_at < :to_hour
  AND sealed_at IS NOT NULL
ORDER BY hour_at, id
"""
CHUNKS = """
SELECT first_gpu, gpus, data
FROM sample_chunk
WHERE segment_id = :segment_id
  AND first_gpu >= :from_gpu
  AND first_gpu < :to_gpu
ORDER BY first_gpu
"""
ALL_OF_THEM = 1 << 62


class Tick(Struct, frozen=True):
    at: int
    roster_id: int


class Chunk(Struct, frozen=True):
    """Some GPUs of a tick or of a segment, from the roster's `first_gpu` on."""

    first_gpu: int
    gpus: int
    data: bytes


class Packed(Struct, frozen=True):
    """Ticks of one roster, ready to be kept: `times` are their moments, every chunk but the last has `chunk_gpus`."""

    ticks: int
    times: bytes
    chunk_gpus: int
    chunks: Sequence[Chunk]


class Segment(Struct, frozen=True):
    """What is kept of one roster in one hour. A segment sealed later than another was read holds late ticks."""

    id: int
    hour_at: int
    roster_id: int
    ticks: int
    times: bytes
    chunk_gpus: int
    sealed_at: int


def roster_for(transaction: Transaction, cluster_id: str, body: bytes, gpus: int, at: int) -> int:
    """The number of this list of GPUs, which is kept once however often the cluster comes back to it."""
    known = {"cluster_id": cluster_id, "sha256": hashlib.sha256(body).hexdigest()}
    if row := transaction.one(ROSTER_OF, known):
        return row[0]
    number = counters.advance(transaction, "roster")
    transaction.run(ADD_ROSTER, {**known, "id": number, "at": at, "gpus": gpus, "body": body})
    return number


def roster(transaction: Transaction, roster_id: int) -> bytes:
    row = transaction.one(ROSTER, {"id": roster_id})
    if row is None:
        raise RuntimeError(f"roster {roster_id} is not there")
    return row[0]


def add_tick(transaction: Transaction, cluster_id: str, at: int, roster_id: int, stripes: Iterable[Chunk]) -> None:
    """Keep what all GPUs of a roster said at one moment; the first to say it wins."""
    if transaction.run(ADD_TICK, {"cluster_id": cluster_id, "at": at, "roster_id": roster_id}):
        usage.came_late(transaction, cluster_id, at, at + 1)
        transaction.many(
            ADD_STRIPE, [{"cluster_id": cluster_id, "at": at, **structs.asdict(stripe)} for stripe in stripes]
        )


def ticks(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[Tick]:
    """Ticks that are in no segment yet, oldest first; `to_at` is not among them."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at}
    return [Tick(*row) for row in transaction.all(TICKS, params)]


def stripes(
    transaction: Transaction, cluster_id: str, first_gpu: int, from_at: int, to_at: int
) -> list[tuple[int, bytes]]:
    """What was kept of some GPUs, with its moments, oldest first. It counts where there is a tick."""
    params = {"cluster_id": cluster_id, "first_gpu": first_gpu, "from_at": from_at, "to_at": to_at}
    return [(row[0], row[1]) for row in transaction.all(STRIPES, params)]


def oldest_tick(transaction: Transaction, cluster_id: str) -> int | None:
    row = transaction.one(OLDEST_TICK, {"cluster_id": cluster_id})
    return row[0] if row else None


def newest(transaction: Transaction, cluster_id: str) -> int:
    """A moment before which nothing is missing that was ever kept: the last tick, or the end of the last hour."""
    tick = transaction.one(NEWEST_TICK, {"cluster_id": cluster_id})
    hour = transaction.one(NEWEST_HOUR, {"cluster_id": cluster_id})
    ended = hour[0] + HOUR_MS if hour and hour[0] is not None else 0
    return max(ended, tick[0] if tick and tick[0] is not None else 0)


def drop_ticks(transaction: Transaction, cluster_id: str, ats: Iterable[int]) -> None:
    """These count no more; `sweep` removes what they held."""
    transaction.many(DROP_TICK, [{"cluster_id": cluster_id, "at": at} for at in ats])


def sweep(transaction: Transaction, cluster_id: str, limit: int = 500) -> int:
    """Remove some of what was kept before the oldest tick; says how much went."""
    oldest = oldest_tick(transaction, cluster_id)
    before = ALL_OF_THEM if oldest is None else oldest
    return transaction.run(SWEEP, {"cluster_id": cluster_id, "before": before, "limit": limit})


def add_chunks(transaction: Transaction, cluster_id: str, hour_at: int, roster_id: int, hour: Packed, at: int) -> None:
    """A whole segment at once."""
    usage.came_late(transaction, cluster_id, hour_at, hour_at + 1)
    segment_id = begin_segment(transaction, cluster_id, hour_at, roster_id, hour)
    add_to_segment(transaction, segment_id, hour.chunks)
    seal_segment(transaction, segment_id, at)


def begin_segment(transaction: Transaction, cluster_id: str, hour_at: int, roster_id: int, hour: Packed) -> int:
    """A segment that does not count yet; its chunks are still to come."""
    number = counters.advance(transaction, "sample_segment")
    transaction.run(
        ADD_SEGMENT,
        {
            "id": number,
            "cluster_id": cluster_id,
            "hour_at": hour_at,
            "roster_id": roster_id,
            "ticks": hour.ticks,
            "times": hour.times,
            "chunk_gpus": hour.chunk_gpus,
        },
    )
    return number


def add_to_segment(transaction: Transaction, segment_id: int, chunks: Iterable[Chunk]) -> None:
    transaction.many(ADD_CHUNK, [{"segment_id": segment_id, **structs.asdict(chunk)} for chunk in chunks])


def seal_segment(transaction: Transaction, segment_id: int, at: int) -> None:
    """From here on it counts."""
    transaction.run(SEAL, {"id": segment_id, "at": at})


def drop_unsealed(transaction: Transaction, cluster_id: str) -> None:
    """Forget the segments whose writing was cut short; what they held is still in ticks."""
    for (number,) in transaction.all(UNSEALED, {"cluster_id": cluster_id}):
        transaction.run(DROP_SEGMENT, {"id": number})


def segments(transaction: Transaction, cluster_id: str, from_hour: int, to_hour: int) -> list[Segment]:
    """Of the hours that begin in this range, oldest first; `to_hour` is not among them."""
    params = {"cluster_id": cluster_id, "from_hour": from_hour, "to_hour": to_hour}
    return [Segment(*row) for row in transaction.all(SEGMENTS, params)]


def chunks(transaction: Transaction, segment_id: int, from_gpu: int = 0, to_gpu: int = ALL_OF_THEM) -> list[Chunk]:
    """The chunks that begin in this range of the roster, in its order."""
    params = {"segment_id": segment_id, "from_gpu": from_gpu, "to_gpu": to_gpu}
    return [Chunk(*row) for row in transaction.all(CHUNKS, params)]
