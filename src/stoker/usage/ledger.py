"""Closes an hour: every GPU-second of capacity goes to one account, and every workload gets what it used.

A reading stands for the time until the next one, but not for longer than its reach; the first of the hour stands for
the time before it too, if that is no longer than half its reach. A sample is a reading of a GPU
that somebody held; it counts for each that held it. The same samples and the same ledger make every level.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from stoker.domain.clock import HOUR_MS
from stoker.domain.resources import MILLI
from stoker.domain.usage import Account, Entry, HourUse, Replicas, Use
from stoker.usage.facts import Holds, Hour, Integers
from stoker.usage.gpus import Gpus
from stoker.usage.samples import Samples, gather
from stoker.usage.spans import Crowd, Stretch, length, merged, shared, without

ACCOUNTS = tuple(Account)
PLACES = {account: place for place, account in enumerate(ACCOUNTS)}
NOBODY = ""
AT_ONCE = 2048
"""How many holds are laid over the readings at a time: enough for numpy, little for memory."""


class _Ledger:
    """An amount for each account and each line; a line is a payer and a model, and every model has one of nobody."""

    def __init__(self, hour: Hour, holds: Holds) -> None:
        self.models = sorted(set(hour.models))
        number = {model: place for place, model in enumerate(self.models)}
        self.model = np.array([number[model] for model in hour.models], np.int64)
        self._payers = [NOBODY, *holds.owners]
        keys = (holds.owner + 1) * len(self.models) + self.model[holds.gpu]
        self._keys = np.union1d(np.arange(len(self.models)), keys)
        self.line = np.searchsorted(self._keys, keys)
        self.amounts = np.zeros((len(self._keys), len(ACCOUNTS)), np.int64)

    def book(self, lines: Integers, account: Account, amounts: Integers) -> None:
        np.add.at(self.amounts[:, PLACES[account]], lines, amounts)

    def by_model(self) -> Integers:
        """[model, account]"""
        found = np.zeros((len(self.models), len(ACCOUNTS)), np.int64)
        np.add.at(found, self._keys % max(1, len(self.models)), self.amounts)
        return found

    def entries(self) -> tuple[Entry, ...]:
        rows, columns = np.nonzero(self.amounts)
        payers, models = np.divmod(self._keys[rows], max(1, len(self.models)))
        amounts = self.amounts[rows, columns]
        told = zip(*(each.tolist() for each in (payers, models, columns, amounts)), strict=True)
        return tuple(
            Entry(self._payers[payer], self.models[model], ACCOUNTS[column], amount)
            for payer, model, column, amount in told
        )


def close(hour: Hour) -> HourUse:
    """The ledger of the hour and what each workload used; nothing depends on the order of what is given."""
    gpus = Gpus(hour)
    end = hour.at + HOUR_MS
    inside = np.maximum(hour.holds.from_at, hour.at) < np.minimum(hour.holds.to_at, end)
    holds = hour.holds.taken(gpus.there[hour.holds.gpu] & inside)
    ledger = _Ledger(hour, holds)
    _book_what_was_held(hour, holds, gpus, ledger)
    _book_the_rest(gpus, ledger)
    samples = gather(hour.measured, hour.at, holds)
    entries = ledger.entries()
    return HourUse(
        at=hour.at,
        gpus=gpus.highest,
        capacity=sum(entry.amount for entry in entries),
        entries=entries,
        uses=tuple(_uses(hour.at, holds, entries, samples)),
        stats=samples.of_all(),
    )


def _book_what_was_held(hour: Hour, holds: Holds, gpus: Gpus, ledger: _Ledger) -> None:
    """Lay the holds over the readings: starting, unmeasured, busy and idle time of each."""
    begin, until = _reaches(hour)
    parts = _parts(hour, holds, gpus, ledger)
    for first in range(0, parts.shape[1], AT_ONCE):
        line, gpu, milli, from_at, to_at, started_at = parts[:, first : first + AT_ONCE]
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


def _parts(hour: Hour, holds: Holds, gpus: Gpus, ledger: _Ledger) -> Integers:
    """What of the holds is neither faulty nor outside the capacity: line, GPU, milli-GPUs, from, to, start. Faulty time
    is booked at once."""
    from_at = np.maximum(holds.from_at, gpus.from_at[holds.gpu])
    to_at = np.minimum(holds.to_at, gpus.to_at[holds.gpu])
    odd = gpus.odd[holds.gpu]
    parts = np.stack([ledger.line, holds.gpu, holds.gpu_milli, from_at, to_at, holds.started_at])
    pieces = [parts[:, ~odd & (from_at < to_at)]]
    for place in np.flatnonzero(odd).tolist():
        line, gpu, milli, *_, started_at = parts[:, place].tolist()
        held = shared([(int(holds.from_at[place]), int(holds.to_at[place]))], gpus.present[gpu])
        lost = shared(held, gpus.faulty.get(gpu, []))
        ledger.amounts[line, PLACES[Account.FAULTY]] += length(lost) * milli
        left = [(line, gpu, milli, *stretch, started_at) for stretch in without(held, lost)]
        pieces.append(np.array(left, np.int64).reshape(-1, 6).T)
    return np.concatenate(pieces, axis=1)


def _reaches(hour: Hour) -> tuple[Integers, Integers]:
    """The time for which each tick stands, from the start of the hour."""
    ats, reach = hour.measured.ats - hour.at, hour.measured.reach
    if not len(ats):
        return ats, ats
    until = np.minimum(np.append(ats[1:], HOUR_MS), ats + reach)
    begin = ats.copy()
    if 0 < ats[0] <= reach[0] // 2:
        begin[0] = 0
    return begin, until


def _book_the_rest(gpus: Gpus, ledger: _Ledger) -> None:
    """What nobody held is faulty or free."""
    totals = np.zeros((2, len(ledger.models)), np.int64)
    for total, times in zip(totals, gpus.times(), strict=True):
        np.add.at(total, ledger.model, times * MILLI)
    there, broken = totals
    paid = ledger.by_model()
    lost = paid[:, PLACES[Account.FAULTY]]
    lines = np.arange(len(ledger.models))
    ledger.book(lines, Account.FREE, there - broken - (paid.sum(axis=1) - lost))
    ledger.book(lines, Account.FAULTY, broken - lost)


def _uses(at: int, holds: Holds, entries: Iterable[Entry], samples: Samples) -> Iterator[Use]:
    allocated: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        allocated[entry.payer] += entry.amount
    told = zip(holds.owners, _at_once(at, holds), samples.stats(), samples.memory(), strict=True)
    for uid, (peak, replicas), stats, memory in told:
        yield Use(uid, allocated[uid], peak, stats, memory, replicas)


def _at_once(at: int, holds: Holds) -> Iterator[tuple[int, Replicas]]:
    """How much each owner held at once at the most, and how many pods did."""
    if not len(holds):
        return
    spans = np.stack([np.maximum(holds.from_at, at), np.minimum(holds.to_at, at + HOUR_MS)])
    starts = np.searchsorted(holds.owner, np.arange(len(holds.owners) + 1))
    firsts = starts[:-1]
    alike = (np.minimum.reduceat(spans, firsts, axis=1) == np.maximum.reduceat(spans, firsts, axis=1)).all(axis=0)
    others = np.diff(holds.pod, prepend=-1) != 0
    others[firsts] = True
    pods = np.add.reduceat(others, firsts, dtype=np.int64).tolist()
    milli = np.add.reduceat(holds.gpu_milli, firsts).tolist()
    for owner, (first, last) in enumerate(pairwise(starts.tolist())):
        if alike[owner]:  # mostly all GPUs are held together
            yield milli[owner], Replicas(float(pods[owner]), pods[owner], pods[owner])
        else:
            mine = slice(first, last)
            yield _in_turn(holds.pod[mine].tolist(), holds.gpu_milli[mine].tolist(), spans[:, mine].T.tolist())


def _in_turn(pods: Sequence[int], milli: Sequence[int], spans: Sequence[Sequence[int]]) -> tuple[int, Replicas]:
    stretches: list[Stretch] = [(first, last) for first, last in spans]
    of_pods: defaultdict[int, list[Stretch]] = defaultdict(list)
    for pod, stretch in zip(pods, stretches, strict=True):
        of_pods[pod].append(stretch)
    replicas = Crowd((stretch, 1) for found in of_pods.values() for stretch in merged(found))
    peak = Crowd(zip(stretches, milli, strict=True)).highest
    return peak, Replicas(replicas.average, replicas.highest, replicas.lowest)
