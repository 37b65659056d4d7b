"""What was measured of pods: a tick at a time in the open hour, and a row for each pod of the hours that are over.

A tick is cut into stripes, so that one pod is read without the others. The hours of pods are written before their ticks
go, and a moment counts once wherever it is found: whenever the writer is stopped, nothing is lost or doubled.
"""

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import zstandard

from stoker.domain.clock import HOUR_MS
from stoker.domain.pod_samples import PodBlock, PodSource, Values
from stoker.store.base import Transaction
from stoker.store.keys import by_keys

STRIPES = 64

ADD_TICK = """
INSERT INTO pod_tick (cluster_id, stripe, at, source, data)
VALUES (:cluster_id, :stripe, :at, :source, :data)
ON CONFLICT (cluster_id, stripe, at, source) DO UPDATE
SET data = excluded.data
"""
TICKS = """
SELECT at, data
FROM pod_tick
WHERE cluster_id = :cluster_id
  AND stripe = :stripe
  AND at >= :from_at
  AND at < :to_at
ORDER BY at
"""
NEWEST = """
SELECT data
FROM pod_tick
WHERE cluster_id = :cluster_id
  AND source = :source
  AND at = (
    SELECT at
    FROM pod_tick
    WHERE cluster_id = :cluster_id
      AND source = :source
      AND at >= :from_at
    ORDER BY at DESC
    LIMIT 1
  )
"""
OLDEST_TICK = "SELECT MIN(at) FROM pod_tick WHERE cluster_id = :cluster_id"
STRIPES_OF = """
SELECT DISTINCT stripe
FROM pod_tick
WHERE cluster_id = :cluster_id
  AND at >= :from_at
  AND at < :to_at
ORDER BY stripe
"""
DROP_TICKS = """
DELETE FROM pod_tick
WHERE cluster_id = :cluster_id
  AND stripe = :stripe
  AND at >= :from_at
  AND at < :to_at
"""
PUT_HOUR = """
INSERT INTO pod_hour (pod_uid, hour_at, data)
VALUES (:pod_uid, :hour_at, :data)
ON CONFLICT (pod_uid, hour_at) DO UPDATE
SET data = excluded.data
"""
HOURS = """
SELECT data
FROM pod_hour
WHERE pod_uid = :pod_uid
  AND hour_at >= :from_hour
  AND hour_at < :to_at
ORDER BY hour_at
"""
HOUR_OF = "SELECT pod_uid, data FROM pod_hour WHERE pod_uid IN (:keys) AND hour_at = :hour_at"

Moments = dict[int, Values]
_tick = msgspec.msgpack.Decoder(dict[str, dict[str, float]])
_hour = msgspec.msgpack.Decoder(tuple[list[int], dict[str, list[float | None]]])


def encode(found: Mapping[str, Values]) -> dict[int, bytes]:
    """What was measured of pods at one moment, as it is kept."""
    stripes: dict[int, dict[str, Values]] = defaultdict(dict)
    for pod_uid, values in found.items():
        stripes[_stripe(pod_uid)][pod_uid] = values
    return {stripe: _packed(pods) for stripe, pods in stripes.items()}


def add(transaction: Transaction, cluster_id: str, at: int, source: PodSource, encoded: Mapping[int, bytes]) -> None:
    rows = [
        {"cluster_id": cluster_id, "stripe": stripe, "at": at, "source": source, "data": data}
        for stripe, data in encoded.items()
    ]
    transaction.many(ADD_TICK, rows)


def blocks(
    transaction: Transaction, cluster_id: str, pod_uids: Collection[str], from_at: int, to_at: int
) -> Iterator[PodBlock]:
    """What is known of these pods from one moment to before another: pod after pod, each in the order of time."""
    span = {"from_at": from_at, "to_at": to_at}
    wanted: dict[int, set[str]] = defaultdict(set)
    for uid in pod_uids:
        wanted[_stripe(uid)].add(uid)
    fresh: dict[str, Moments] = {}
    for stripe, uids in wanted.items():
        fresh |= _ticks(transaction, cluster_id, stripe, span, uids)
    for uid in pod_uids:
        late = fresh.get(uid, {})
        hours = {"pod_uid": uid, "from_hour": from_at - from_at % HOUR_MS, "to_at": to_at}
        for (data,) in transaction.all(HOURS, hours):
            block = PodBlock(uid, *_hour.decode(_opened(data)))
            known = set(block.at)
            late = {at: values for at, values in late.items() if at not in known}
            yield _cut(block, from_at, to_at)
        if late:
            yield _block(uid, late)


def newest(transaction: Transaction, cluster_id: str, source: PodSource, from_at: int) -> dict[str, dict[str, float]]:
    """What was last measured of all pods, if that was not before this moment."""
    found: dict[str, dict[str, float]] = {}
    for (data,) in transaction.all(NEWEST, {"cluster_id": cluster_id, "source": source, "from_at": from_at}):
        found |= _tick.decode(_opened(data))
    return found


def oldest(transaction: Transaction, cluster_id: str) -> int | None:
    """The moment of the oldest tick."""
    row = transaction.one(OLDEST_TICK, {"cluster_id": cluster_id})
    return row[0] if row else None


def stripes(transaction: Transaction, cluster_id: str, hour_at: int) -> list[int]:
    """The stripes that have ticks in this hour."""
    span = {"cluster_id": cluster_id, "from_at": hour_at, "to_at": hour_at + HOUR_MS}
    return [stripe for (stripe,) in transaction.all(STRIPES_OF, span)]


def hours(transaction: Transaction, cluster_id: str, stripe: int, hour_at: int) -> dict[str, bytes]:
    """The hour of each pod of a stripe, with what is already kept of it."""
    span = {"from_at": hour_at, "to_at": hour_at + HOUR_MS}
    found = _ticks(transaction, cluster_id, stripe, span)
    for uid, data in by_keys(transaction, HOUR_OF, found, {"hour_at": hour_at}):
        found[uid] = _moments(*_hour.decode(_opened(data))) | found[uid]
    closed = {uid: _block(uid, moments) for uid, moments in found.items()}
    return {uid: _packed((block.at, block.columns)) for uid, block in closed.items()}


def put_hours(transaction: Transaction, hour_at: int, kept: Iterable[tuple[str, bytes]]) -> None:
    transaction.many(PUT_HOUR, [{"pod_uid": uid, "hour_at": hour_at, "data": data} for uid, data in kept])


def drop_ticks(transaction: Transaction, cluster_id: str, stripe: int, hour_at: int) -> None:
    """The hours of its pods are kept."""
    span = {"from_at": hour_at, "to_at": hour_at + HOUR_MS}
    transaction.run(DROP_TICKS, {"cluster_id": cluster_id, "stripe": stripe, **span})


def _ticks(
    transaction: Transaction, cluster_id: str, stripe: int, span: Mapping[str, int], wanted: set[str] | None = None
) -> dict[str, Moments]:
    """By pod and moment; what several sources said at the same moment is one."""
    found: dict[str, Moments] = defaultdict(dict)
    for at, data in transaction.all(TICKS, {"cluster_id": cluster_id, "stripe": stripe, **span}):
        pods = _tick.decode(_opened(data))
        for uid in pods if wanted is None else pods.keys() & wanted:
            found[uid][at] = {**found[uid].get(at, {}), **pods[uid]}
    return found


def _block(pod_uid: str, moments: Mapping[int, Values]) -> PodBlock:
    at = sorted(moments)
    names = sorted({name for values in moments.values() for name in values})
    return PodBlock(pod_uid, at, {name: [moments[each].get(name) for each in at] for name in names})


def _moments(at: Sequence[int], columns: Mapping[str, Sequence[float | None]]) -> Moments:
    return {
        moment: {name: value for name, values in columns.items() if (value := values[place]) is not None}
        for place, moment in enumerate(at)
    }


def _cut(block: PodBlock, from_at: int, to_at: int) -> PodBlock:
    places = [place for place, at in enumerate(block.at) if from_at <= at < to_at]
    if len(places) == len(block.at):
        return block
    part = slice(places[0], places[-1] + 1) if places else slice(0)
    return PodBlock(block.pod_uid, block.at[part], {name: values[part] for name, values in block.columns.items()})


def _stripe(pod_uid: str) -> int:
    return zlib.crc32(pod_uid.encode()) % STRIPES


def _packed(body: object) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(body))


def _opened(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)
