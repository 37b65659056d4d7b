"""GPU samples: ticks in the current hour (the head), and blocks for past hours.

A tick is split into stripes of adjacent GPUs. A block holds an hour, or part of one, of the GPUs of one device index,
split into chunks of adjacent GPUs. A block counts only once it is sealed; sealing deletes its ticks in the same
transaction. So every sample counts exactly once, in a tick or in a sealed block, even after a crash.
"""

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS
from stoker.store.db.base import Transaction
from stoker.store.sql import sequences
from stoker.store.usage import closed_hours

DEVICE_INDEX_ID = "SELECT id FROM device_index WHERE cluster_id = :cluster_id AND sha256 = :sha256"
DEVICE_INDEX_BODY = "SELECT body FROM device_index WHERE id = :id"
RECENT_DEVICE_INDEXES = """
SELECT body
FROM device_index
WHERE cluster_id = :cluster_id
ORDER BY id DESC
LIMIT :limit
"""
DEVICE_INDEX_EXISTS = "SELECT 1 FROM device_index WHERE id = :id"
ADD_DEVICE_INDEX = """
INSERT INTO device_index (id, cluster_id, sha256, created_at, gpus, body)
VALUES (:id, :cluster_id, :sha256, :at, :gpus, :body)
"""
ADD_TICK = """
INSERT INTO sample_tick (cluster_id, at, device_index_id)
VALUES (:cluster_id, :at, :device_index_id)
ON CONFLICT (cluster_id, at) DO NOTHING
"""
ADD_STRIPE = """
INSERT INTO sample_stripe (cluster_id, first_gpu, at, gpus, data)
VALUES (:cluster_id, :first_gpu, :at, :gpus, :data)
ON CONFLICT (cluster_id, first_gpu, at) DO UPDATE
SET gpus = excluded.gpus, data = excluded.data
"""
TICKS = """
SELECT at, device_index_id
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
NEWEST_BLOCK_HOUR = "SELECT MAX(hour_at) FROM sample_block WHERE cluster_id = :cluster_id"
OLDEST_TICK = "SELECT MIN(at) FROM sample_tick WHERE cluster_id = :cluster_id"
DELETE_TICK = "DELETE FROM sample_tick WHERE cluster_id = :cluster_id AND at = :at"
DELETE_STALE_STRIPES = """
DELETE FROM sample_stripe
WHERE (cluster_id, first_gpu, at) IN (
    SELECT cluster_id, first_gpu, at
    FROM sample_stripe
    WHERE cluster_id = :cluster_id
      AND at < :before
    LIMIT :limit
)
"""
ADD_BLOCK = """
INSERT INTO sample_block (id, cluster_id, hour_at, device_index_id, ticks, times, chunk_gpus, sealed_at)
VALUES (:id, :cluster_id, :hour_at, :device_index_id, :ticks, :times, :chunk_gpus, NULL)
"""
ADD_CHUNK = """
INSERT INTO sample_chunk (block_id, first_gpu, gpus, data)
VALUES (:block_id, :first_gpu, :gpus, :data)
"""
SEAL_BLOCK = "UPDATE sample_block SET sealed_at = :at WHERE id = :id"
UNSEALED_BLOCKS = "SELECT id FROM sample_block WHERE cluster_id = :cluster_id AND sealed_at IS NULL"
DELETE_BLOCK = "DELETE FROM sample_block WHERE id = :id"
SEALED_BLOCKS = """
SELECT id, hour_at, device_index_id, ticks, times, chunk_gpus, sealed_at
FROM sample_block
WHERE cluster_id = :cluster_id
  AND hour_at >= :from_hour
  AND hour_at < :to_hour
  AND sealed_at IS NOT NULL
ORDER BY hour_at, id
"""
CHUNKS = """
SELECT first_gpu, gpus, data
FROM sample_chunk
WHERE block_id = :block_id
  AND first_gpu >= :from_gpu
  AND first_gpu < :to_gpu
ORDER BY first_gpu
"""
UNBOUNDED = 1 << 62


class Tick(Struct, frozen=True):
    at: int
    device_index_id: int


class SampleChunk(Struct, frozen=True):
    """Adjacent GPUs of a tick or of a block, starting at row `first_gpu` of the device index."""

    first_gpu: int
    gpus: int
    data: bytes


class EncodedBlock(Struct, frozen=True):
    """Ticks of one device index, ready to be stored; every chunk but the last has `chunk_gpus` GPUs."""

    ticks: int
    times: bytes
    chunk_gpus: int
    chunks: Sequence[SampleChunk]


class SampleBlock(Struct, frozen=True):
    """Samples of one device index in one hour. Late ticks of an hour are in a further block, sealed later."""

    id: int
    hour_at: int
    device_index_id: int
    ticks: int
    times: bytes
    chunk_gpus: int
    sealed_at: int


def get_or_add_device_index(transaction: Transaction, cluster_id: str, body: bytes, gpus: int, at: int) -> int:
    """The id of this list of GPUs; equal lists of a cluster are stored once."""
    known = {"cluster_id": cluster_id, "sha256": hashlib.sha256(body).hexdigest()}
    if row := transaction.fetch_one(DEVICE_INDEX_ID, known):
        return row[0]
    number = sequences.next_value(transaction, "device_index")
    transaction.execute(ADD_DEVICE_INDEX, {**known, "id": number, "at": at, "gpus": gpus, "body": body})
    return number


def read_device_index(transaction: Transaction, device_index_id: int) -> bytes:
    row = transaction.fetch_one(DEVICE_INDEX_BODY, {"id": device_index_id})
    if row is None:
        raise RuntimeError(f"device index {device_index_id} does not exist")
    return row[0]


def recent_device_indexes(transaction: Transaction, cluster_id: str, limit: int) -> list[bytes]:
    """The device indexes of a cluster that were added last, oldest first. One that is used again is not added again,
    so the last of them need not be in use."""
    rows = transaction.fetch_all(RECENT_DEVICE_INDEXES, {"cluster_id": cluster_id, "limit": limit})
    return [row[0] for row in reversed(rows)]


def has_device_index(transaction: Transaction, device_index_id: int) -> bool:
    """Whether the device index exists; retention deletes it together with its last samples."""
    return transaction.fetch_one(DEVICE_INDEX_EXISTS, {"id": device_index_id}) is not None


def add_tick(
    transaction: Transaction, cluster_id: str, at: int, device_index_id: int, stripes: Iterable[SampleChunk]
) -> None:
    """Store the samples of all GPUs of a device index at one time; the first write of a time wins."""
    if transaction.execute(ADD_TICK, {"cluster_id": cluster_id, "at": at, "device_index_id": device_index_id}):
        closed_hours.mark_due_again(transaction, cluster_id, at, at + MAX_SAMPLE_GAP_MS)
        transaction.execute_many(
            ADD_STRIPE, [{"cluster_id": cluster_id, "at": at, **structs.asdict(stripe)} for stripe in stripes]
        )


def list_ticks(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[Tick]:
    """The ticks in [from_at, to_at) that are in no block yet, oldest first."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at}
    return [Tick(*row) for row in transaction.fetch_all(TICKS, params)]


def read_stripes(
    transaction: Transaction, cluster_id: str, first_gpu: int, from_at: int, to_at: int
) -> list[tuple[int, bytes]]:
    """Times and data of a stripe, oldest first. A stripe without a tick at its time does not count."""
    params = {"cluster_id": cluster_id, "first_gpu": first_gpu, "from_at": from_at, "to_at": to_at}
    return [(row[0], row[1]) for row in transaction.fetch_all(STRIPES, params)]


def oldest_tick_at(transaction: Transaction, cluster_id: str) -> int | None:
    row = transaction.fetch_one(OLDEST_TICK, {"cluster_id": cluster_id})
    return row[0] if row else None


def latest_sample_at(transaction: Transaction, cluster_id: str) -> int:
    """The time of the last tick, or the end of the last block's hour if that is later."""
    tick = transaction.fetch_one(NEWEST_TICK, {"cluster_id": cluster_id})
    hour = transaction.fetch_one(NEWEST_BLOCK_HOUR, {"cluster_id": cluster_id})
    block_end = hour[0] + HOUR_MS if hour and hour[0] is not None else 0
    return max(block_end, tick[0] if tick and tick[0] is not None else 0)


def delete_ticks(transaction: Transaction, cluster_id: str, ats: Iterable[int]) -> None:
    """Delete ticks; `delete_stale_stripes` deletes their stripes later."""
    transaction.execute_many(DELETE_TICK, [{"cluster_id": cluster_id, "at": at} for at in ats])


def delete_stale_stripes(transaction: Transaction, cluster_id: str, limit: int = 500) -> int:
    """Delete up to `limit` stripes from before the oldest tick; returns the number of deleted stripes."""
    oldest = oldest_tick_at(transaction, cluster_id)
    before = UNBOUNDED if oldest is None else oldest
    return transaction.execute(DELETE_STALE_STRIPES, {"cluster_id": cluster_id, "before": before, "limit": limit})


def add_block(
    transaction: Transaction, cluster_id: str, hour_at: int, device_index_id: int, block: EncodedBlock, at: int
) -> None:
    """Write a complete block and seal it."""
    closed_hours.mark_due_again(transaction, cluster_id, hour_at, hour_at + HOUR_MS + 1)
    block_id = begin_block(transaction, cluster_id, hour_at, device_index_id, block)
    add_chunks_to_block(transaction, block_id, block.chunks)
    seal_block(transaction, block_id, at)


def begin_block(
    transaction: Transaction, cluster_id: str, hour_at: int, device_index_id: int, block: EncodedBlock
) -> int:
    """Insert an unsealed block, whose chunks follow; returns its id."""
    number = sequences.next_value(transaction, "sample_block")
    transaction.execute(
        ADD_BLOCK,
        {
            "id": number,
            "cluster_id": cluster_id,
            "hour_at": hour_at,
            "device_index_id": device_index_id,
            "ticks": block.ticks,
            "times": block.times,
            "chunk_gpus": block.chunk_gpus,
        },
    )
    return number


def add_chunks_to_block(transaction: Transaction, block_id: int, chunks: Iterable[SampleChunk]) -> None:
    transaction.execute_many(ADD_CHUNK, [{"block_id": block_id, **structs.asdict(chunk)} for chunk in chunks])


def seal_block(transaction: Transaction, block_id: int, at: int) -> None:
    """Seal a block: from now on its samples count."""
    transaction.execute(SEAL_BLOCK, {"id": block_id, "at": at})


def delete_unsealed_blocks(transaction: Transaction, cluster_id: str) -> None:
    """Delete blocks whose writing was interrupted; their samples are still in ticks."""
    for (number,) in transaction.fetch_all(UNSEALED_BLOCKS, {"cluster_id": cluster_id}):
        transaction.execute(DELETE_BLOCK, {"id": number})


def sealed_blocks(transaction: Transaction, cluster_id: str, from_hour: int, to_hour: int) -> list[SampleBlock]:
    """The sealed blocks of the hours in [from_hour, to_hour), oldest first."""
    params = {"cluster_id": cluster_id, "from_hour": from_hour, "to_hour": to_hour}
    return [SampleBlock(*row) for row in transaction.fetch_all(SEALED_BLOCKS, params)]


def read_chunks(
    transaction: Transaction, block_id: int, from_gpu: int = 0, to_gpu: int = UNBOUNDED
) -> list[SampleChunk]:
    """The chunks that start at a GPU in [from_gpu, to_gpu), in order."""
    params = {"block_id": block_id, "from_gpu": from_gpu, "to_gpu": to_gpu}
    return [SampleChunk(*row) for row in transaction.fetch_all(CHUNKS, params)]
