"""Closes an hour: every GPU-second of capacity goes to one account, and every workload gets what it used.

A reading stands for the time until the next one, but not for longer than `reach_ms`. A sample is a reading of a GPU
that somebody held; it counts for each that held it. The same samples and the same ledger make every level.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.usage import HOUR_MS, Account, Entry, HourUse, Replicas, Use
from stoker.usage.facts import GpuSpan, Hold, Hour
from stoker.usage.samples import Samples, gather
from stoker.usage.spans import Crowd, Stretch, clipped, length, merged, shared, without

GPU_MILLI = 1000
ACCOUNTS = tuple(Account)
AT_ONCE = 2048
"""How many holds are laid over the readings at a time: enough for numpy, little for memory."""


class _Part(Struct, frozen=True):
    """A stretch of a hold that is neither faulty nor outside the capacity."""

    owner: int
    gpu: int
    gpu_milli: int
    from_at: int
    to_at: int
    started_at: int


def close(hour: Hour) -> HourUse:
    """The ledger of the hour and what each workload used; nothing depends on the order of what is given."""
    end = hour.at + HOUR_MS
    present = _by_gpu(hour.present, hour.at, end)
    faulty = {
        gpu: shared(spans, present[gpu]) for gpu, spans in _by_gpu(hour.faulty, hour.at, end).items() if gpu in present
    }
    holds = [hold for hold in hour.holds if hold.gpu in present and max(hold.from_at, hour.at) < min(hold.to_at, end)]
    holds.sort(key=lambda hold: (hold.uid, hold.pod, hold.gpu, hold.from_at))
    owners = sorted({hold.uid for hold in holds})
    place = {uid: number for number, uid in enumerate(owners)}
    ledger = np.zeros((len(owners) + 1, len(ACCOUNTS)), np.int64)
    parts = _parts(hour, holds, place, present, faulty, ledger)
    _book(hour, parts, ledger)
    _book_the_rest(present, faulty, ledger)
    capacity = sum(length(spans) for spans in present.values()) * GPU_MILLI
    samples = gather(hour.measured, hour.at, holds, [place[hold.uid] for hold in holds], len(owners))
    return HourUse(
        at=hour.at,
        gpus=Crowd((span, 1) for spans in present.values() for span in spans).highest,
        capacity=capacity,
        entries=tuple(
            Entry(uid, account, int(ledger[row, column]))
            for row, uid in enumerate([*owners, ""])
            for column, account in enumerate(ACCOUNTS)
            if ledger[row, column]
        ),
        uses=tuple(_uses(hour.at, holds, owners, ledger, samples)),
        stats=samples.of_all(),
    )


def _by_gpu(spans: Iterable[GpuSpan], begin: int, end: int) -> dict[int, list[Stretch]]:
    found: defaultdict[int, list[Stretch]] = defaultdict(list)
    for span in spans:
        found[span.gpu] += clipped([(span.from_at, span.to_at)], begin, end)
    return {gpu: merged(stretches) for gpu, stretches in found.items() if stretches}


def _parts(
    hour: Hour,
    holds: Iterable[Hold],
    place: dict[str, int],
    present: dict[int, list[Stretch]],
    faulty: dict[int, list[Stretch]],
    ledger: NDArray[np.int64],
) -> list[_Part]:
    """What of the holds can be used; faulty time is booked at once."""
    whole = [(hour.at, hour.at + HOUR_MS)]
    parts = []
    for hold in holds:
        owner = place[hold.uid]
        held = clipped([(hold.from_at, hold.to_at)], *whole[0])
        if present[hold.gpu] != whole or hold.gpu in faulty:
            held = shared(held, present[hold.gpu])
            lost = shared(held, faulty.get(hold.gpu, []))
            ledger[owner, ACCOUNTS.index(Account.FAULTY)] += length(lost) * hold.gpu_milli
            held = without(held, lost)
        parts += [_Part(owner, hold.gpu, hold.gpu_milli, *span, hold.started_at) for span in held]
    return parts


def _book(hour: Hour, parts: Sequence[_Part], ledger: NDArray[np.int64]) -> None:
    """Lay the parts over the readings: starting, unmeasured, busy and idle time of each."""
    begin, until = _reaches(hour)
    for first in range(0, len(parts), AT_ONCE):
        some = parts[first : first + AT_ONCE]
        columns = np.array([(p.owner, p.gpu, p.gpu_milli, p.from_at, p.to_at, p.started_at) for p in some], np.int64)
        owner, gpu, milli, from_at, to_at, started_at = columns.T
        from_at, to_at = from_at - hour.at, to_at - hour.at
        working = np.clip(started_at - hour.at, from_at, to_at)
        overlap = np.minimum(to_at[:, None], until) - np.maximum(working[:, None], begin)
        readings = hour.measured.utilization[gpu]
        overlap *= (overlap > 0) & (readings >= 0)
        measured = overlap.sum(axis=1)
        busy = (overlap * (readings > hour.idle_up_to)).sum(axis=1)
        for account, time in (
            (Account.STARTING, working - from_at),
            (Account.UNMEASURED, to_at - working - measured),
            (Account.BUSY, busy),
            (Account.IDLE, measured - busy),
        ):
            np.add.at(ledger[:, ACCOUNTS.index(account)], owner, time * milli)


def _reaches(hour: Hour) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The time for which each tick stands, from the start of the hour."""
    ats = hour.measured.ats - hour.at
    following = np.append(ats[1:], np.int64(1 << 40)) if len(ats) else ats
    return ats, np.minimum(following, ats + hour.reach_ms)


def _book_the_rest(
    present: dict[int, list[Stretch]], faulty: dict[int, list[Stretch]], ledger: NDArray[np.int64]
) -> None:
    """What nobody held is faulty or free."""
    bad = ACCOUNTS.index(Account.FAULTY)
    everything = sum(length(spans) for spans in present.values()) * GPU_MILLI
    broken = sum(length(spans) for spans in faulty.values()) * GPU_MILLI
    used = int(ledger.sum()) - int(ledger[:, bad].sum())
    ledger[-1, ACCOUNTS.index(Account.FREE)] = everything - broken - used
    ledger[-1, bad] = broken - int(ledger[:, bad].sum())


def _uses(
    at: int, holds: Sequence[Hold], owners: Sequence[str], ledger: NDArray[np.int64], samples: Samples
) -> Iterable[Use]:
    held: defaultdict[str, list[tuple[Stretch, int]]] = defaultdict(list)
    pods: defaultdict[str, dict[str, list[Stretch]]] = defaultdict(lambda: defaultdict(list))
    for hold in holds:
        span = (max(at, hold.from_at), min(at + HOUR_MS, hold.to_at))
        held[hold.uid].append((span, hold.gpu_milli))
        pods[hold.uid][hold.pod].append(span)
    for owner, uid in enumerate(owners):
        replicas = Crowd((span, 1) for spans in pods[uid].values() for span in merged(spans))
        yield Use(
            uid=uid,
            allocated=int(ledger[owner].sum()),
            peak_milli=Crowd(held[uid]).highest,
            stats=samples.of(owner),
            memory=samples.memory(owner),
            replicas=Replicas(replicas.average, replicas.highest, replicas.lowest),
        )
