"""Ranges out of chunks and open ticks, on both databases."""

import asyncio

import numpy as np
import pytest
from tests.conftest import LoopRun

from stoker.domain.identity import Cluster
from stoker.domain.node import Device, Node
from stoker.domain.readings import Metric
from stoker.domain.series import Holding, Range
from stoker.store import clusters, samples
from stoker.store.base import Store
from stoker.telemetry import roster
from stoker.telemetry.chunks import CHUNK_GPUS, encode_hour, encode_tick
from stoker.telemetry.means import Means
from stoker.telemetry.stored import CHUNKS_AT_ONCE, StoredSeries
from stoker.telemetry.unpacked import LITTLE, ColdError, Unpacked

HOUR = 3_600_000
GIB = 1 << 30


def fleet(nodes: int) -> roster.Roster:
    devices = tuple(Device(index, "", "H100", 80 * GIB) for index in range(8))
    return roster.roster_of([Node(f"n{number:03}", 1000, GIB, devices) for number in range(nodes)])


def columns(gpus: int, ticks: int) -> dict[Metric, np.ndarray]:
    """Power says which GPU it is, utilisation which tick."""
    power = np.repeat(np.arange(gpus, dtype=float)[:, np.newaxis], ticks, axis=1)
    used = np.repeat(np.arange(ticks, dtype=float)[np.newaxis] / 1000, gpus, axis=0)
    return {Metric.POWER: power, Metric.UTILIZATION: used, Metric.MEMORY_USED: np.full((gpus, ticks), 20.0 * GIB)}


def add_roster(store: Store, loop_run: LoopRun, of: roster.Roster) -> int:
    def add(tx: samples.Transaction) -> int:
        if clusters.find(tx, "c") is None:
            clusters.add(tx, Cluster("c", "local", "local", "", 0))
        return samples.roster_for(tx, "c", roster.encode(of), of.gpus, 0)

    return loop_run(store.write(add))


def add_hour(store: Store, loop_run: LoopRun, roster_id: int, gpus: int, ats: list[int]) -> None:
    hour = encode_hour(np.array(ats), columns(gpus, len(ats)))
    loop_run(store.write(lambda tx: samples.add_chunks(tx, "c", ats[0] // HOUR * HOUR, roster_id, hour, 0)))


def test_a_range_goes_over_closed_hours_and_the_open_one(store: Store, loop_run: LoopRun) -> None:
    gpus = 200 * 8
    number = add_roster(store, loop_run, fleet(200))
    add_hour(store, loop_run, number, gpus, [HOUR + 15_000 * tick for tick in range(4)])
    for tick in range(3):
        now = {metric: array[:, 0] for metric, array in columns(gpus, 1).items()}
        at = 2 * HOUR + 15_000 * tick
        loop_run(store.write(lambda tx, at=at, now=now: samples.add_tick(tx, "c", at, number, encode_tick(now))))
    held = [Holding("n150", 3, 0, None), Holding("n000", 0, HOUR + 15_000, 2 * HOUR + 15_000)]
    lines = loop_run(
        StoredSeries(store).gpus("c", held, [Metric.POWER, Metric.MEMORY_USED], Range(HOUR, 2 * HOUR + 60_000, 15_000))
    )
    first, second = lines[Metric.POWER]
    assert (first.node, first.device, second.node, second.device) == ("n000", 0, "n150", 3)
    closed, opened = [HOUR + 15_000 * tick for tick in range(4)], [2 * HOUR + 15_000 * tick for tick in range(3)]
    assert second.points == [(1203.0, at) for at in closed + opened]
    assert first.points == [(0.0, at) for at in closed[1:] + opened[:1]]
    assert {value for line in lines[Metric.MEMORY_USED] for value, _ in line.points} == {0.25}


def test_one_hour_may_have_several_rosters_and_periods(store: Store, loop_run: LoopRun) -> None:
    few, many = add_roster(store, loop_run, fleet(1)), add_roster(store, loop_run, fleet(30))
    add_hour(store, loop_run, few, 8, [0, 300_000, 600_000])
    add_hour(store, loop_run, many, 240, [900_000 + 15_000 * tick for tick in range(8)])
    held = [Holding("n000", 7, 0, None), Holding("n029", 7, 0, None)]
    lines = loop_run(StoredSeries(store).gpus("c", held, [Metric.POWER], Range(0, HOUR, 15_000)))[Metric.POWER]
    assert [len(line.points) for line in lines] == [11, 8]
    assert {value for value, _ in lines[1].points} == {239.0}


def test_nothing_held_and_nothing_kept_is_no_line(store: Store, loop_run: LoopRun) -> None:
    series = StoredSeries(store)
    span = Range(0, HOUR, 15_000)
    assert loop_run(series.gpus("c", [], list(Metric), span)) == {metric: [] for metric in Metric}
    held = [Holding("n000", 0, 0, None)]
    assert loop_run(series.gpus("c", held, [Metric.POWER], span)) == {Metric.POWER: []}
    add_hour(store, loop_run, add_roster(store, loop_run, fleet(1)), 8, [0])
    assert loop_run(series.gpus("c", [Holding("gone", 0, 0, None)], [Metric.POWER], span)) == {Metric.POWER: []}


def test_a_workload_of_many_gpus_is_added_up_in_parts(
    store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus, most = 400 * 8, CHUNKS_AT_ONCE * CHUNK_GPUS
    add_hour(store, loop_run, add_roster(store, loop_run, fleet(400)), gpus, [0, 15_000])
    sizes: list[int] = []
    add = Means.add

    def spy(means: Means, ats: np.ndarray, places: np.ndarray, numbers: np.ndarray, units: np.ndarray) -> None:
        sizes.append(numbers.shape[1])
        add(means, ats, places, numbers, units)

    monkeypatch.setattr(Means, "add", spy)
    held = [Holding(f"n{place // 8:03}", place % 8, 0, None) for place in range(gpus)]
    lines = loop_run(StoredSeries(store).gpus("c", held, [Metric.POWER], Range(0, HOUR, HOUR)))[Metric.POWER]
    assert [line.points for line in lines] == [[(float(gpu), 0), (float(gpu), HOUR)] for gpu in range(gpus)]
    assert sizes == [most, most, most, gpus - 3 * most]


def test_more_memory_than_a_gpu_has_counts_as_all_of_it(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    used = np.repeat([[160.0 * GIB, 0.0, 40.0 * GIB]], 8, axis=0)
    hour = encode_hour(np.array([15_000, 30_000, 45_000]), {Metric.MEMORY_USED: used})
    loop_run(store.write(lambda tx: samples.add_chunks(tx, "c", 0, number, hour, 0)))
    for tick in range(3):
        said = encode_tick({Metric.MEMORY_USED: used[:, tick]})
        at = HOUR + 15_000 * (tick + 1)
        loop_run(store.write(lambda tx, at=at, said=said: samples.add_tick(tx, "c", at, number, said)))
    span = Range(60_000, HOUR + 60_000, HOUR)
    lines = loop_run(StoredSeries(store).gpus("c", [Holding("n000", 0, 0, None)], [Metric.MEMORY_USED], span))
    assert [line.points for line in lines[Metric.MEMORY_USED]] == [[(0.5, 60_000), (0.5, HOUR + 60_000)]]


def test_what_was_read_once_is_read_again_with_what_came_since(store: Store, loop_run: LoopRun) -> None:
    series, number = StoredSeries(store), add_roster(store, loop_run, fleet(2))

    def tick(at: int, power: float) -> None:
        said = encode_tick({Metric.POWER: np.full(16, power)})
        loop_run(store.write(lambda tx: samples.add_tick(tx, "c", at, number, said)))

    def points(from_at: int = 0) -> list[tuple[float, int]]:
        span = Range(from_at, 120_000, 15_000)
        lines = loop_run(series.gpus("c", [Holding("n001", 2, 0, None)], [Metric.POWER], span))[Metric.POWER]
        return [point for line in lines for point in line.points]

    tick(15_000, 1.0)
    tick(60_000, 4.0)
    assert points() == [(1.0, 15_000), (4.0, 60_000)]
    tick(75_000, 5.0)
    tick(30_000, 2.0)  # late
    assert points() == [(1.0, 15_000), (2.0, 30_000), (4.0, 60_000), (5.0, 75_000)]
    assert points(60_000) == [(4.0, 60_000), (5.0, 75_000)]
    loop_run(store.write(lambda tx: samples.drop_ticks(tx, "c", [15_000, 30_000])))
    assert points() == [(4.0, 60_000), (5.0, 75_000)], "what no longer counts is not shown"


@pytest.mark.parametrize("database_url", [""], ids=["sqlite"])  # PostgreSQL is asked by threads
def test_between_two_ranges_the_loop_hears_what_else_has_come(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    add_hour(store, loop_run, number, 8, [0, 15_000])
    series = StoredSeries(store)
    rounds: list[int] = []

    async def read() -> None:
        await series.gpus("c", [Holding("n000", 0, 0, None)], [Metric.POWER], Range(0, HOUR, 15_000))
        rounds.append(heard)

    async def all_at_once() -> None:
        nonlocal heard
        await read()  # from now on it is unpacked
        readers = [asyncio.create_task(read()) for _ in range(4)]
        while not all(reader.done() for reader in readers):
            await asyncio.sleep(0)
            heard += 1

    heard = 0
    loop_run(all_at_once())
    assert len(rounds) == 5
    assert len(set(rounds[1:])) == 4, rounds
    assert rounds == sorted(rounds)


def test_ticks_that_were_not_packed_for_long_are_read_with_what_comes_now(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    series = StoredSeries(store)
    now = {metric: array[:, 0] for metric, array in columns(8, 1).items()}
    for known, at in enumerate((HOUR, HOUR + 15_000, 9 * HOUR, 9 * HOUR + 15_000, 9 * HOUR + 30_000), start=1):
        loop_run(store.write(lambda tx, at=at: samples.add_tick(tx, "c", at, number, encode_tick(now))))
        lines = loop_run(
            series.gpus("c", [Holding("n000", 0, 0, None)], [Metric.POWER], Range(HOUR, 10 * HOUR, 15_000))
        )
        assert [len(line.points) for line in lines[Metric.POWER]] == [known]


def test_what_is_kept_unpacked_has_a_bound(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(200))
    for hour in range(4):
        add_hour(store, loop_run, number, 1600, [hour * HOUR + 15_000 * tick for tick in range(8)])
    one = 8 * 8 + 128 * 8 * 16
    kept = Unpacked(most_bytes=3 * one)

    def read(tx: samples.Transaction) -> int:
        for segment in samples.segments(tx, "c", 0, 4 * HOUR):
            for first in range(0, 1600, 128):
                with pytest.raises(ColdError):
                    kept.chunk(tx, segment, first, warm=True)
                steps = kept.chunk(tx, segment, first, warm=False)
                assert steps is not None
                assert kept.chunk(tx, segment, first, warm=True) is steps
                assert steps.of([Metric.POWER], np.array([0]))[0, 0, 0] == first * 10
                assert kept.size <= 3 * one
        return kept.size

    assert loop_run(store.read(read)) > 0


def test_the_few_ticks_that_came_since_are_unpacked_for_whoever_asks_warm(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    said = encode_tick({metric: array[:, 0] for metric, array in columns(8, 1).items()})
    ats = np.arange(HOUR, HOUR + 15_000 * (2 + LITTLE + 1), 15_000)
    for at in ats.tolist():
        loop_run(store.write(lambda tx, at=at: samples.add_tick(tx, "c", at, number, said)))
    kept = Unpacked()

    def read(tx: samples.Transaction) -> int:
        with pytest.raises(ColdError):
            kept.ticks(tx, "c", number, 0, ats, warm=True)
        kept.ticks(tx, "c", number, 0, ats[:1], warm=True)
        with pytest.raises(ColdError):
            kept.ticks(tx, "c", number, 0, ats[: LITTLE + 2], warm=True)
        steps = kept.ticks(tx, "c", number, 0, ats[: LITTLE + 1], warm=True)
        assert steps is not None
        return len(steps.ats)

    assert loop_run(store.read(read)) == LITTLE + 1
