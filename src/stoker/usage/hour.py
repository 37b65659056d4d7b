"""Closes an hour: every GPU-second of capacity goes to one account, and every workload gets what it used.

A reading stands for the time until the next one, but not for longer than its reach; the first of the hour stands for
the time before it too, if that is no longer than half its reach. A sample is a reading of a GPU
that somebody held; it counts for each that held it. The same samples and the same ledger make every level.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.resources import MILLI
from stoker.domain.usage import Account, Entry, HourUse, Replicas, Use
from stoker.usage.facts import GpuSpan, Hold, Hour
from stoker.usage.samples import Samples, gather
from stoker.usage.spans import Crowd, Stretch, length, merged, shared, without

ACCOUNTS = tuple(Account)
AT_ONCE = 2048
"""How many holds are laid over the readings at a time: enough for numpy, little for memory."""


class _Part(Struct, frozen=True, gc=False):
    """A stretch of a hold that is neither faulty nor outside the capacity. `line` is its row of the ledger."""

    line: int
    gpu: int
    gpu_milli: int
    from_at: int
    to_at: int
    started_at: int


class _Ledger:
    """An amount for each account and each line; a line is a payer and a model, and every model has one of nobody."""

    def __init__(self, hour: Hour, holds: Iterable[Hold]) -> None:
        held = {(hold.uid, hour.models[hold.gpu]) for hold in holds}
        self.lines = sorted(held | {("", model) for model in hour.models})
        self.place = {line: number for number, line in enumerate(self.lines)}
        self.amounts = np.zeros((len(self.lines), len(ACCOUNTS)), np.int64)

    def book(self, lines: int | NDArray[np.int64], account: Account, amounts: int | NDArray[np.int64]) -> None:
        np.add.at(self.amounts[:, ACCOUNTS.index(account)], lines, amounts)

    def entries(self) -> tuple[Entry, ...]:
        return tuple(
            Entry(*line, account, int(self.amounts[row, column]))
            for row, line in enumerate(self.lines)
            for column, account in enumerate(ACCOUNTS)
            if self.amounts[row, column]
        )


def close(hour: Hour) -> HourUse:
    """The ledger of the hour and what each workload used; nothing depends on the order of what is given."""
    end = hour.at + HOUR_MS
    present = _by_gpu(hour.present, hour.at, end)
    broken = _by_gpu(hour.faulty, hour.at, end)
    faulty = {gpu: shared(spans, present[gpu]) for gpu, spans in broken.items() if gpu in present}
    holds = [hold for hold in hour.holds if hold.gpu in present and max(hold.from_at, hour.at) < min(hold.to_at, end)]
    holds.sort(key=lambda hold: (hold.uid, hold.pod, hold.gpu, hold.from_at))
    ledger = _Ledger(hour, holds)
    _book_what_was_held(hour, _parts(hour, holds, present, faulty, ledger), ledger)
    _book_the_rest(hour, present, faulty, ledger)
    owners = sorted({hold.uid for hold in holds})
    numbers = {uid: number for number, uid in enumerate(owners)}
    samples = gather(hour.measured, hour.at, holds, [numbers[hold.uid] for hold in holds], len(owners))
    entries = ledger.entries()
    return HourUse(
        at=hour.at,
        gpus=Crowd(Counter(span for spans in present.values() for span in spans).items()).highest,
        capacity=sum(entry.amount for entry in entries),
        entries=entries,
        uses=tuple(_uses(hour.at, holds, owners, entries, samples)),
        stats=samples.of_all(),
    )


def _by_gpu(spans: Iterable[GpuSpan], begin: int, end: int) -> dict[int, list[Stretch]]:
    found: defaultdict[int, list[Stretch]] = defaultdict(list)
    for span in spans:
        first, last = max(begin, span.from_at), min(end, span.to_at)
        if first < last:
            found[span.gpu].append((first, last))
    return {gpu: merged(stretches) if len(stretches) > 1 else stretches for gpu, stretches in found.items()}


def _parts(
    hour: Hour,
    holds: Iterable[Hold],
    present: dict[int, list[Stretch]],
    faulty: dict[int, list[Stretch]],
    ledger: _Ledger,
) -> list[_Part]:
    """What of the holds can be used; faulty time is booked at once."""
    begin, end = hour.at, hour.at + HOUR_MS
    whole = [(begin, end)]
    parts = []
    for hold in holds:
        line = ledger.place[hold.uid, hour.models[hold.gpu]]
        held = [(max(begin, hold.from_at), min(end, hold.to_at))]
        if present[hold.gpu] != whole or hold.gpu in faulty:
            held = shared(held, present[hold.gpu])
            lost = shared(held, faulty.get(hold.gpu, []))
            ledger.book(line, Account.FAULTY, length(lost) * hold.gpu_milli)
            held = without(held, lost)
        parts += [_Part(line, hold.gpu, hold.gpu_milli, *span, hold.started_at) for span in held]
    return parts


def _book_what_was_held(hour: Hour, parts: Sequence[_Part], ledger: _Ledger) -> None:
    """Lay the parts over the readings: starting, unmeasured, busy and idle time of each."""
    begin, until = _reaches(hour)
    for first in range(0, len(parts), AT_ONCE):
        some = parts[first : first + AT_ONCE]
        columns = np.array([(p.line, p.gpu, p.gpu_milli, p.from_at, p.to_at, p.started_at) for p in some], np.int64)
        line, gpu, milli, from_at, to_at, started_at = columns.T
        from_at, to_at = from_at - hour.at, to_at - hour.at
        working = np.clip(started_at - hour.at, from_at, to_at)
        overlap = np.minimum(to_at[:, None], until) - np.maximum(working[:, None], begin)
        readings = hour.measured.utilization[gpu]
        overlap *= (overlap > 0) & (readings >= 0)
        measured = overlap.sum(axis=1)
        busy = (overlap * (readings > hour.idle_up_to)).sum(axis=1)
        ledger.book(line, Account.STARTING, (working - from_at) * milli)
        ledger.book(line, Account.UNMEASURED, (to_at - working - measured) * milli)
        ledger.book(line, Account.BUSY, busy * milli)
        ledger.book(line, Account.IDLE, (measured - busy) * milli)


def _reaches(hour: Hour) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The time for which each tick stands, from the start of the hour."""
    ats, reach = hour.measured.ats - hour.at, hour.measured.reach
    if not len(ats):
        return ats, ats
    until = np.minimum(np.append(ats[1:], HOUR_MS), ats + reach)
    begin = ats.copy()
    if 0 < ats[0] <= reach[0] // 2:
        begin[0] = 0
    return begin, until


def _book_the_rest(
    hour: Hour, present: dict[int, list[Stretch]], faulty: dict[int, list[Stretch]], ledger: _Ledger
) -> None:
    """What nobody held is faulty or free."""
    paid: defaultdict[str, dict[Account, int]] = defaultdict(lambda: dict.fromkeys(Account, 0))
    for entry in ledger.entries():
        paid[entry.model][entry.account] += entry.amount
    there: defaultdict[str, int] = defaultdict(int)
    broken: defaultdict[str, int] = defaultdict(int)
    for gpu, spans in present.items():
        there[hour.models[gpu]] += length(spans) * MILLI
    for gpu, spans in faulty.items():
        broken[hour.models[gpu]] += length(spans) * MILLI
    for model, amount in there.items():
        line = ledger.place["", model]
        held = sum(paid[model].values()) - paid[model][Account.FAULTY]
        ledger.book(line, Account.FREE, amount - broken[model] - held)
        ledger.book(line, Account.FAULTY, broken[model] - paid[model][Account.FAULTY])


def _uses(
    at: int, holds: Sequence[Hold], owners: Sequence[str], entries: Iterable[Entry], samples: Samples
) -> Iterable[Use]:
    allocated: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        allocated[entry.payer] += entry.amount
    for owner, (uid, mine) in enumerate(zip(owners, _by_owner(holds), strict=True)):
        peak, replicas = _at_once(at, mine)
        yield Use(
            uid=uid,
            allocated=allocated[uid],
            peak_milli=peak,
            stats=samples.of(owner),
            memory=samples.memory(owner),
            replicas=replicas,
        )


def _by_owner(holds: Sequence[Hold]) -> Iterator[list[Hold]]:
    """Holds that are ordered by owner."""
    return (list(mine) for _, mine in groupby(holds, key=attrgetter("uid")))


def _at_once(at: int, holds: Sequence[Hold]) -> tuple[int, Replicas]:
    """How much a workload held at once at the most, and how many pods did."""
    end = at + HOUR_MS
    spans = [(max(at, hold.from_at), min(end, hold.to_at)) for hold in holds]
    if len(set(spans)) == 1:  # mostly all GPUs are held together
        pods = len({hold.pod for hold in holds})
        return sum(hold.gpu_milli for hold in holds), Replicas(float(pods), pods, pods)
    of_pods: defaultdict[str, list[Stretch]] = defaultdict(list)
    for hold, span in zip(holds, spans, strict=True):
        of_pods[hold.pod].append(span)
    replicas = Crowd((span, 1) for stretches in of_pods.values() for span in merged(stretches))
    peak = Crowd((span, hold.gpu_milli) for hold, span in zip(holds, spans, strict=True)).highest
    return peak, Replicas(replicas.average, replicas.highest, replicas.lowest)
