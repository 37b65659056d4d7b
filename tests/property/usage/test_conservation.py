"""Whatever happens in an hour, every GPU-second lies in one account, and the statistics are those of the samples."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from stoker.domain.usage.ledger import HOUR_MS, HourUsage, LedgerEntry, UsageCategory
from stoker.usage.inputs import (
    AllocationInterval,
    DeviceInterval,
    HourInputs,
    HourSamples,
    build_allocation_intervals,
    build_device_intervals,
)
from stoker.usage.ledger import close_hour

AT = 1_700_000_000_000 // HOUR_MS * HOUR_MS
GPUS = 3
MODELS = ["H100", "MI300X", "H100"]
IDLE_UP_TO = 100


class HourCase(Struct, frozen=True, eq=False):
    """An hour, thing by thing."""

    present: list[DeviceInterval]
    faulty: list[DeviceInterval]
    holds: list[AllocationInterval]
    measured: HourSamples

    def closed(self) -> HourUsage:
        spans, holds = (
            (build_device_intervals(self.present), build_device_intervals(self.faulty)),
            build_allocation_intervals(self.holds),
        )
        return close_hour(HourInputs(AT, MODELS, *spans, holds, self.measured, IDLE_UP_TO))


def moments(before: int = 600_000, after: int = 600_000) -> st.SearchStrategy[int]:
    return st.integers(-before // 1000, (HOUR_MS + after) // 1000).map(lambda second: AT + second * 1000)


@st.composite
def spans(draw: st.DrawFn) -> list[DeviceInterval]:
    found = draw(st.lists(st.tuples(st.integers(0, GPUS - 1), moments(), moments()), max_size=4))
    return [DeviceInterval(gpu, min(a, b), max(a, b)) for gpu, a, b in found]


@st.composite
def all_holds(draw: st.DrawFn) -> list[AllocationInterval]:
    """Each GPU is held by one after another, or shared by two halves."""
    holds = []
    for gpu in range(GPUS):
        for half in range(2 if draw(st.booleans()) else 1):
            edges = sorted(draw(st.lists(moments(), min_size=2, max_size=6, unique=True)))
            milli = 500 if half or draw(st.booleans()) else 1000
            milli = 500 if any(hold.gpu == gpu for hold in holds) else milli
            for number, (first, last) in enumerate(zip(edges[::2], edges[1::2], strict=False)):
                uid = draw(st.sampled_from("abc"))
                started = draw(st.one_of(st.just(first), moments()))
                holds.append(AllocationInterval(gpu, uid, f"{uid}-{gpu}-{half}-{number}", milli, first, last, started))
    for gpu in range(GPUS):
        mine = [hold for hold in holds if hold.gpu == gpu]
        if len({hold.pod.split("-")[2] for hold in mine}) > 1:
            holds = [hold for hold in holds if hold.gpu != gpu] + [
                AllocationInterval(h.gpu, h.uid, h.pod, 500, h.from_at, h.to_at, h.started_at) for h in mine
            ]
    return holds


def ages(ticks: int) -> st.SearchStrategy[np.ndarray]:
    """Readings that are older than their tick, or younger, by seconds."""
    seconds = st.lists(st.integers(-10, 300), min_size=GPUS * ticks, max_size=GPUS * ticks)
    return seconds.map(lambda found: np.array(found, np.int32).reshape(GPUS, ticks) * 1000)


@st.composite
def hours(draw: st.DrawFn) -> HourCase:
    ats = sorted(set(draw(st.lists(moments(after=-1000), max_size=12))))
    values = st.integers(-1, 10_000)
    table = [[draw(values) for _ in ats] for _ in range(GPUS)]
    whole = [DeviceInterval(gpu, AT - HOUR_MS, AT + 2 * HOUR_MS) for gpu in range(GPUS)]
    reach = np.array([draw(st.sampled_from([30_000, 600_000])) for _ in ats], np.int64)
    measured = HourSamples(
        np.array(ats, np.int64),
        reach,
        np.array(table, np.int16).reshape(GPUS, len(ats)),
        np.array(table, np.int32).reshape(GPUS, len(ats)),
        np.full(GPUS, 81_920, np.int64),
        draw(st.one_of(st.none(), ages(len(ats)))),
    )
    present = draw(st.one_of(st.just(whole), spans()))
    return HourCase(present, draw(spans()), draw(all_holds()), measured)


def by_hand(hour: HourCase) -> list[LedgerEntry]:
    """The law, moment by moment."""
    end = AT + HOUR_MS
    edges = {AT, end, *(span.from_at for span in [*hour.present, *hour.faulty])}
    edges |= {span.to_at for span in [*hour.present, *hour.faulty]}
    edges |= {moment for hold in hour.holds for moment in (hold.from_at, hold.to_at, hold.started_at)}
    edges |= {int(at) for at in hour.measured.tick_times} | {
        int(end) for end in hour.measured.tick_times + hour.measured.validity
    }
    times = sorted(edge for edge in edges if AT <= edge <= end)
    amounts: defaultdict[tuple[str, str, UsageCategory], int] = defaultdict(int)
    for first, last in pairwise(times):
        for gpu in range(GPUS):
            if not any(span.gpu == gpu and span.from_at <= first < span.to_at for span in hour.present):
                continue
            left = 1000
            bad = any(span.gpu == gpu and span.from_at <= first < span.to_at for span in hour.faulty)
            for hold in hour.holds:
                if hold.gpu == gpu and hold.from_at <= first < hold.to_at:
                    left -= hold.gpu_milli
                    account = UsageCategory.FAULTY if bad else account_of(hour, hold, first)
                    amounts[hold.uid, MODELS[gpu], account] += (last - first) * hold.gpu_milli
            amounts["", MODELS[gpu], UsageCategory.FAULTY if bad else UsageCategory.FREE] += (last - first) * left
    return sorted(LedgerEntry(*line, amount) for line, amount in amounts.items() if amount)


def taken_at(hour: HourCase, gpu: int, place: int) -> int:
    measured = hour.measured
    return int(measured.tick_times[place]) - (0 if measured.age is None else int(measured.age[gpu, place]))


def account_of(hour: HourCase, hold: AllocationInterval, moment: int) -> UsageCategory:
    if moment < hold.started_at:
        return UsageCategory.STARTING
    ats, reach = hour.measured.tick_times, hour.measured.validity
    own = [place for place in range(len(ats)) if taken_at(hour, hold.gpu, place) >= hold.from_at]
    earlier = [place for place, at in enumerate(ats) if at <= moment]
    place = earlier[-1] if earlier else -1
    if own and ats[own[0]] > moment and ats[own[0]] - max(AT, hold.from_at) <= reach[own[0]] // 2:
        place = own[0]
    if place not in own or moment >= int((ats + reach)[place]):
        return UsageCategory.UNMEASURED
    reading = int(hour.measured.utilization[hold.gpu, place])
    if reading < 0:
        return UsageCategory.UNMEASURED
    return UsageCategory.BUSY if reading > IDLE_UP_TO else UsageCategory.IDLE


@given(hours())
def test_the_ledger_is_the_law_and_adds_up_to_the_capacity(hour: HourCase) -> None:
    made = hour.closed()
    assert sorted(made.entries) == by_hand(hour)
    assert sum(entry.amount for entry in made.entries) == made.capacity
    assert all(entry.amount > 0 for entry in made.entries)


@given(hours())
def test_what_workloads_had_is_what_they_pay_for(hour: HourCase) -> None:
    made = hour.closed()
    for use in made.workloads:
        assert use.allocated == sum(entry.amount for entry in made.entries if entry.workload_uid == use.uid)
        assert use.allocated <= use.peak_milli * HOUR_MS
        assert use.replicas.min <= use.replicas.average <= use.replicas.max


@given(hours())
def test_statistics_are_exact(hour: HourCase) -> None:
    made = hour.closed()
    there = {span.gpu for span in hour.present if max(span.from_at, AT) < min(span.to_at, AT + HOUR_MS)}
    samples: defaultdict[str, list[int]] = defaultdict(list)
    for hold in hour.holds:
        if hold.to_at <= AT or hold.from_at >= AT + HOUR_MS:
            continue
        for place, at in enumerate(hour.measured.tick_times):
            reading = int(hour.measured.utilization[hold.gpu, place])
            then = taken_at(hour, hold.gpu, place)
            again = hour.measured.age is not None and place > 0 and then == taken_at(hour, hold.gpu, place - 1)
            held = hold.from_at <= then < hold.to_at
            if hold.gpu in there and held and not again and AT <= at < AT + HOUR_MS and reading >= 0:
                samples[hold.uid].append(reading)
    pools = [(use.stats, samples[use.uid]) for use in made.workloads]
    pools.append((made.stats, [value for values in samples.values() for value in values]))
    for stats, values in pools:
        assert stats.samples == len(values)
        assert stats.total == sum(values)
        if values:
            assert (stats.min, stats.max) == (min(values), max(values))
            assert np.allclose([stats.p50, stats.p95], np.percentile(values, [50, 95]))


@given(hours(), st.randoms())
def test_the_order_of_what_is_known_does_not_matter(hour: HourCase, random: object) -> None:
    shuffled = list(hour.holds)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = structs.replace(hour, present=hour.present[::-1], faulty=hour.faulty[::-1], holds=shuffled)
    assert other.closed() == hour.closed()
