"""Samples of pods: ticks in the current hour (the head), and one block per pod and past hour.

A tick is split into stripes by pod, so that one pod can be read without the others. Blocks are written before their
ticks are deleted, and readers count a time once wherever they find it, so a crash neither loses nor doubles samples.
"""

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import zstandard

from stoker.domain.clock import HOUR_MS
from stoker.domain.metrics.pod_samples import MetricValues, PodSampleBlock, PodSampleSource
from stoker.store.db.base import Transaction
from stoker.store.db.blob_format import add_version, strip_version
from stoker.store.sql.select_in import select_in

STRIPE_COUNT = 64
FORMAT_VERSION = 1
"""The format of ticks and blocks: values by metric name, in the units of `PodMetric`."""

ADD_TICK = """
INSERT INTO pod_sample_tick (cluster_id, stripe, at, source, data)
VALUES (:cluster_id, :stripe, :at, :source, :data)
ON CONFLICT (cluster_id, stripe, at, source) DO UPDATE
SET data = excluded.data
"""
TICKS = """
SELECT at, data
FROM pod_sample_tick
WHERE cluster_id = :cluster_id
  AND stripe = :stripe
  AND at >= :from_at
  AND at < :to_at
ORDER BY at
"""
LATEST_TICK = """
SELECT data
FROM pod_sample_tick
WHERE cluster_id = :cluster_id
  AND source = :source
  AND at = (
    SELECT at
    FROM pod_sample_tick
    WHERE cluster_id = :cluster_id
      AND source = :source
      AND at >= :from_at
    ORDER BY at DESC
    LIMIT 1
  )
"""
OLDEST_TICK = "SELECT MIN(at) FROM pod_sample_tick WHERE cluster_id = :cluster_id"
STRIPES_OF_HOUR = """
SELECT DISTINCT stripe
FROM pod_sample_tick
WHERE cluster_id = :cluster_id
  AND at >= :from_at
  AND at < :to_at
ORDER BY stripe
"""
DELETE_TICKS = """
DELETE FROM pod_sample_tick
WHERE cluster_id = :cluster_id
  AND stripe = :stripe
  AND at >= :from_at
  AND at < :to_at
"""
UPSERT_HOUR = """
INSERT INTO pod_sample_block (pod_uid, hour_at, data)
VALUES (:pod_uid, :hour_at, :data)
ON CONFLICT (pod_uid, hour_at) DO UPDATE
SET data = excluded.data
"""
HOURS = """
SELECT data
FROM pod_sample_block
WHERE pod_uid = :pod_uid
  AND hour_at >= :from_hour
  AND hour_at < :to_at
ORDER BY hour_at
"""
HOURS_OF_PODS = "SELECT pod_uid, data FROM pod_sample_block WHERE pod_uid IN (:keys) AND hour_at = :hour_at"

SamplesByTime = dict[int, MetricValues]
_tick_decoder = msgspec.msgpack.Decoder(dict[str, dict[str, float]])
_hour_decoder = msgspec.msgpack.Decoder(tuple[list[int], dict[str, list[float | None]]])


def encode_tick(samples: Mapping[str, MetricValues]) -> dict[int, bytes]:
    """Encode the samples of one time, by stripe."""
    stripes: dict[int, dict[str, MetricValues]] = defaultdict(dict)
    for pod_uid, values in samples.items():
        stripes[_stripe_of(pod_uid)][pod_uid] = values
    return {stripe: _compress(pods) for stripe, pods in stripes.items()}


def add_tick(
    transaction: Transaction, cluster_id: str, at: int, source: PodSampleSource, encoded: Mapping[int, bytes]
) -> None:
    rows = [
        {"cluster_id": cluster_id, "stripe": stripe, "at": at, "source": source, "data": data}
        for stripe, data in encoded.items()
    ]
    transaction.execute_many(ADD_TICK, rows)


def read_blocks(
    transaction: Transaction, cluster_id: str, pod_uids: Collection[str], from_at: int, to_at: int
) -> Iterator[PodSampleBlock]:
    """The samples of pods in [from_at, to_at): pod by pod, each in time order."""
    span = {"from_at": from_at, "to_at": to_at}
    uids_by_stripe: dict[int, set[str]] = defaultdict(set)
    for uid in pod_uids:
        uids_by_stripe[_stripe_of(uid)].add(uid)
    ticks: dict[str, SamplesByTime] = {}
    for stripe, uids in uids_by_stripe.items():
        ticks |= _read_ticks(transaction, cluster_id, stripe, span, uids)
    for uid in pod_uids:
        head = ticks.get(uid, {})
        hours = {"pod_uid": uid, "from_hour": from_at - from_at % HOUR_MS, "to_at": to_at}
        for (data,) in transaction.fetch_all(HOURS, hours):
            block = PodSampleBlock(uid, *_hour_decoder.decode(_decompress(data)))
            known = set(block.at)
            head = {at: values for at, values in head.items() if at not in known}
            yield _clip(block, from_at, to_at)
        if head:
            yield _build_block(uid, head)


def latest_tick(
    transaction: Transaction, cluster_id: str, source: PodSampleSource, from_at: int
) -> dict[str, dict[str, float]]:
    """The latest samples of all pods, if they are not from before `from_at`."""
    found: dict[str, dict[str, float]] = {}
    for (data,) in transaction.fetch_all(LATEST_TICK, {"cluster_id": cluster_id, "source": source, "from_at": from_at}):
        found |= _tick_decoder.decode(_decompress(data))
    return found


def oldest_tick_at(transaction: Transaction, cluster_id: str) -> int | None:
    row = transaction.fetch_one(OLDEST_TICK, {"cluster_id": cluster_id})
    return row[0] if row else None


def stripes_of_hour(transaction: Transaction, cluster_id: str, hour_at: int) -> list[int]:
    """The stripes that have ticks in this hour."""
    span = {"cluster_id": cluster_id, "from_at": hour_at, "to_at": hour_at + HOUR_MS}
    return [stripe for (stripe,) in transaction.fetch_all(STRIPES_OF_HOUR, span)]


def encode_hours(transaction: Transaction, cluster_id: str, stripe: int, hour_at: int) -> dict[str, bytes]:
    """Encode the block of each pod of a stripe, merged with the block that is already stored."""
    span = {"from_at": hour_at, "to_at": hour_at + HOUR_MS}
    found = _read_ticks(transaction, cluster_id, stripe, span)
    for uid, data in select_in(transaction, HOURS_OF_PODS, found, {"hour_at": hour_at}):
        found[uid] = _samples_by_time(*_hour_decoder.decode(_decompress(data))) | found[uid]
    blocks = {uid: _build_block(uid, samples) for uid, samples in found.items()}
    return {uid: _compress((block.at, block.columns)) for uid, block in blocks.items()}


def write_hours(transaction: Transaction, hour_at: int, encoded: Iterable[tuple[str, bytes]]) -> None:
    transaction.execute_many(UPSERT_HOUR, [{"pod_uid": uid, "hour_at": hour_at, "data": data} for uid, data in encoded])


def delete_ticks(transaction: Transaction, cluster_id: str, stripe: int, hour_at: int) -> None:
    """Delete the ticks of a stripe and hour, after the blocks of its pods are written."""
    span = {"from_at": hour_at, "to_at": hour_at + HOUR_MS}
    transaction.execute(DELETE_TICKS, {"cluster_id": cluster_id, "stripe": stripe, **span})


def _read_ticks(
    transaction: Transaction, cluster_id: str, stripe: int, span: Mapping[str, int], pod_uids: set[str] | None = None
) -> dict[str, SamplesByTime]:
    """Samples by pod and time; samples of several sources at the same time are merged."""
    found: dict[str, SamplesByTime] = defaultdict(dict)
    for at, data in transaction.fetch_all(TICKS, {"cluster_id": cluster_id, "stripe": stripe, **span}):
        pods = _tick_decoder.decode(_decompress(data))
        for uid in pods if pod_uids is None else pods.keys() & pod_uids:
            found[uid][at] = {**found[uid].get(at, {}), **pods[uid]}
    return found


def _build_block(pod_uid: str, samples: Mapping[int, MetricValues]) -> PodSampleBlock:
    at = sorted(samples)
    names = sorted({name for values in samples.values() for name in values})
    return PodSampleBlock(pod_uid, at, {name: [samples[time].get(name) for time in at] for name in names})


def _samples_by_time(at: Sequence[int], columns: Mapping[str, Sequence[float | None]]) -> SamplesByTime:
    return {
        time: {name: value for name, values in columns.items() if (value := values[index]) is not None}
        for index, time in enumerate(at)
    }


def _clip(block: PodSampleBlock, from_at: int, to_at: int) -> PodSampleBlock:
    indexes = [index for index, at in enumerate(block.at) if from_at <= at < to_at]
    if len(indexes) == len(block.at):
        return block
    kept = slice(indexes[0], indexes[-1] + 1) if indexes else slice(0)
    return PodSampleBlock(block.pod_uid, block.at[kept], {name: values[kept] for name, values in block.columns.items()})


def _stripe_of(pod_uid: str) -> int:
    return zlib.crc32(pod_uid.encode()) % STRIPE_COUNT


def _compress(body: object) -> bytes:
    return add_version(FORMAT_VERSION, zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(body)))


def _decompress(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(strip_version("samples of pods", FORMAT_VERSION, data))
