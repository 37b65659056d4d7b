"""Ranges out of chunks and open ticks, on both databases."""

import asyncio

import numpy as np
import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, TimeRange, merge_places
from stoker.store.cluster import clusters
from stoker.store.db.base import Store
from stoker.store.telemetry import gpu_samples
from stoker.store.telemetry.gpu_samples import EncodedBlock
from stoker.telemetry.query.downsample import Downsampler
from stoker.telemetry.query.local import CHUNK_BATCH_SIZE, LocalBackend
from stoker.telemetry.tsdb import device_index, reader
from stoker.telemetry.tsdb.chunk_cache import MAX_INLINE_DECODE, CacheMissError, ChunkCache
from stoker.telemetry.tsdb.codec import (
    CHUNK_GPUS,
    encode_hour,
    encode_tick,
    encode_times,
    merge_ticks,
    pack_tick,
    quantize,
    quantize_ages,
)
from stoker.telemetry.tsdb.compactor import Compactor
from stoker.telemetry.tsdb.reader import HeadBlock

HOUR = 3_600_000
GIB = 1 << 30


def fleet(nodes: int) -> device_index.DeviceIndex:
    devices = tuple(Device(index, "", "H100", 80 * GIB) for index in range(8))
    return device_index.build_device_index([Node(f"n{number:03}", 1000, GIB, devices) for number in range(nodes)])


def columns(gpus: int, ticks: int) -> dict[GpuMetric, np.ndarray]:
    """Power says which GPU it is, utilisation which tick."""
    power = np.repeat(np.arange(gpus, dtype=float)[:, np.newaxis], ticks, axis=1)
    used = np.repeat(np.arange(ticks, dtype=float)[np.newaxis] / 1000, gpus, axis=0)
    return {
        GpuMetric.POWER: power,
        GpuMetric.UTILIZATION: used,
        GpuMetric.MEMORY_USED: np.full((gpus, ticks), 20.0 * GIB),
    }


def add_roster(store: Store, loop_run: LoopRun, of: device_index.DeviceIndex) -> int:
    def add(tx: gpu_samples.Transaction) -> int:
        if clusters.find(tx, "c") is None:
            clusters.add(tx, Cluster("c", "local", "local", "", 0))
        return gpu_samples.get_or_add_device_index(tx, "c", device_index.encode(of), of.gpu_count, 0)

    return loop_run(store.write(add))


def add_hour(store: Store, loop_run: LoopRun, roster_id: int, gpus: int, ats: list[int]) -> None:
    hour = encode_hour(np.array(ats), columns(gpus, len(ats)))
    loop_run(store.write(lambda tx: gpu_samples.add_block(tx, "c", ats[0] // HOUR * HOUR, roster_id, hour, 0)))


def test_a_range_goes_over_closed_hours_and_the_open_one(store: Store, loop_run: LoopRun) -> None:
    gpus = 200 * 8
    number = add_roster(store, loop_run, fleet(200))
    add_hour(store, loop_run, number, gpus, [HOUR + 15_000 * tick for tick in range(4)])
    for tick in range(3):
        now = {metric: array[:, 0] for metric, array in columns(gpus, 1).items()}
        at = 2 * HOUR + 15_000 * tick
        loop_run(store.write(lambda tx, at=at, now=now: gpu_samples.add_tick(tx, "c", at, number, encode_tick(now))))
    held = [DeviceAllocation("n150", 3, 0, None), DeviceAllocation("n000", 0, HOUR + 15_000, 2 * HOUR + 15_000)]
    lines = loop_run(
        LocalBackend(store).query_range(
            "c", held, [GpuMetric.POWER, GpuMetric.MEMORY_USED], TimeRange(HOUR, 2 * HOUR + 60_000, 15_000)
        )
    )
    first, second = lines[GpuMetric.POWER]
    assert (first.node, first.device, second.node, second.device) == ("n000", 0, "n150", 3)
    closed, opened = [HOUR + 15_000 * tick for tick in range(4)], [2 * HOUR + 15_000 * tick for tick in range(3)]
    assert second.points == [(1203.0, at) for at in closed + opened]
    assert first.points == [(0.0, at) for at in closed[1:] + opened[:1]]
    assert {value for line in lines[GpuMetric.MEMORY_USED] for value, _ in line.points} == {0.25}


def test_one_hour_may_have_several_rosters_and_periods(store: Store, loop_run: LoopRun) -> None:
    few, many = add_roster(store, loop_run, fleet(1)), add_roster(store, loop_run, fleet(30))
    add_hour(store, loop_run, few, 8, [0, 300_000, 600_000])
    add_hour(store, loop_run, many, 240, [900_000 + 15_000 * tick for tick in range(8)])
    held = [DeviceAllocation("n000", 7, 0, None), DeviceAllocation("n029", 7, 0, None)]
    lines = loop_run(LocalBackend(store).query_range("c", held, [GpuMetric.POWER], TimeRange(0, HOUR, 15_000)))[
        GpuMetric.POWER
    ]
    assert [len(line.points) for line in lines] == [11, 8]
    assert {value for value, _ in lines[1].points} == {239.0}


@pytest.mark.parametrize("packed", [False, True])
def test_a_sample_is_a_point_of_when_it_was_taken_and_of_who_held_its_gpu_then(
    store: Store, loop_run: LoopRun, packed: bool
) -> None:
    number = add_roster(store, loop_run, fleet(1))
    taken = [0, 0, 60_000, 60_000, 60_000, 120_000]  # a minute apart, and seen by every tick until the next
    ats = [30_000 * place for place in range(1, 7)]
    stripes = []
    for at, sampled_at in zip(ats, taken, strict=True):
        steps = {GpuMetric.POWER: quantize(GpuMetric.POWER, np.full(8, sampled_at / 1000))}
        stripes.append(pack_tick(steps, quantize_ages(np.full(8, at - sampled_at))))
    if packed:
        chunks = merge_ticks(0, [stripe.data for (stripe,) in stripes])
        hour = EncodedBlock(len(ats), encode_times(np.array(ats, np.int64)), CHUNK_GPUS, chunks)
        loop_run(store.write(lambda tx: gpu_samples.add_block(tx, "c", 0, number, hour, 0)))
    else:
        for at, stripe in zip(ats, stripes, strict=True):
            loop_run(store.write(lambda tx, at=at, s=stripe: gpu_samples.add_tick(tx, "c", at, number, s)))

    def points(holding: DeviceAllocation) -> list[tuple[float, int]]:
        series = LocalBackend(store).query_range("c", [holding], [GpuMetric.POWER], TimeRange(0, 180_000, 15_000))
        return [point for line in loop_run(series)[GpuMetric.POWER] for point in line.points]

    assert points(DeviceAllocation("n000", 0, 0, 80_000)) == [(0.0, 0), (60.0, 60_000)], (
        "each sample once, at its own time"
    )
    assert points(DeviceAllocation("n000", 0, 80_000, None)) == [(120.0, 120_000)], (
        "the ticks until then have another's sample"
    )


def test_nothing_held_and_nothing_kept_is_no_line(store: Store, loop_run: LoopRun) -> None:
    series = LocalBackend(store)
    span = TimeRange(0, HOUR, 15_000)
    assert loop_run(series.query_range("c", [], list(GpuMetric), span)) == {metric: [] for metric in GpuMetric}
    held = [DeviceAllocation("n000", 0, 0, None)]
    assert loop_run(series.query_range("c", held, [GpuMetric.POWER], span)) == {GpuMetric.POWER: []}
    add_hour(store, loop_run, add_roster(store, loop_run, fleet(1)), 8, [0])
    assert loop_run(series.query_range("c", [DeviceAllocation("gone", 0, 0, None)], [GpuMetric.POWER], span)) == {
        GpuMetric.POWER: []
    }


def test_a_workload_of_many_gpus_is_added_up_in_parts(
    store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus, most = 400 * 8, CHUNK_BATCH_SIZE * CHUNK_GPUS
    add_hour(store, loop_run, add_roster(store, loop_run, fleet(400)), gpus, [0, 15_000])
    sizes: list[int] = []
    add = Downsampler.add

    def spy(
        means: Downsampler,
        ats: np.ndarray,
        places: np.ndarray,
        numbers: np.ndarray,
        units: np.ndarray,
        ages: np.ndarray | None,
    ) -> None:
        sizes.append(numbers.shape[1])
        add(means, ats, places, numbers, units, ages)

    monkeypatch.setattr(Downsampler, "add", spy)
    held = [DeviceAllocation(f"n{place // 8:03}", place % 8, 0, None) for place in range(gpus)]
    lines = loop_run(LocalBackend(store).query_range("c", held, [GpuMetric.POWER], TimeRange(0, HOUR, HOUR)))[
        GpuMetric.POWER
    ]
    assert [line.points for line in lines] == [[(float(gpu), 0), (float(gpu), HOUR)] for gpu in range(gpus)]
    assert sizes == [most, most, most, gpus - 3 * most]


def test_more_memory_than_a_gpu_has_counts_as_all_of_it(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    used = np.repeat([[160.0 * GIB, 0.0, 40.0 * GIB]], 8, axis=0)
    hour = encode_hour(np.array([15_000, 30_000, 45_000]), {GpuMetric.MEMORY_USED: used})
    loop_run(store.write(lambda tx: gpu_samples.add_block(tx, "c", 0, number, hour, 0)))
    for tick in range(3):
        said = encode_tick({GpuMetric.MEMORY_USED: used[:, tick]})
        at = HOUR + 15_000 * (tick + 1)
        loop_run(store.write(lambda tx, at=at, said=said: gpu_samples.add_tick(tx, "c", at, number, said)))
    span = TimeRange(60_000, HOUR + 60_000, HOUR)
    lines = loop_run(
        LocalBackend(store).query_range("c", [DeviceAllocation("n000", 0, 0, None)], [GpuMetric.MEMORY_USED], span)
    )
    assert [line.points for line in lines[GpuMetric.MEMORY_USED]] == [[(0.5, 60_000), (0.5, HOUR + 60_000)]]


def test_what_was_read_once_is_read_again_with_what_came_since(store: Store, loop_run: LoopRun) -> None:
    series, number = LocalBackend(store), add_roster(store, loop_run, fleet(2))

    def tick(at: int, power: float) -> None:
        said = encode_tick({GpuMetric.POWER: np.full(16, power)})
        loop_run(store.write(lambda tx: gpu_samples.add_tick(tx, "c", at, number, said)))

    def points(from_at: int = 0) -> list[tuple[float, int]]:
        span = TimeRange(from_at, 120_000, 15_000)
        lines = loop_run(series.query_range("c", [DeviceAllocation("n001", 2, 0, None)], [GpuMetric.POWER], span))[
            GpuMetric.POWER
        ]
        return [point for line in lines for point in line.points]

    tick(15_000, 1.0)
    tick(60_000, 4.0)
    assert points() == [(1.0, 15_000), (4.0, 60_000)]
    tick(75_000, 5.0)
    tick(30_000, 2.0)  # late
    assert points() == [(1.0, 15_000), (2.0, 30_000), (4.0, 60_000), (5.0, 75_000)]
    assert points(60_000) == [(4.0, 60_000), (5.0, 75_000)]
    loop_run(store.write(lambda tx: gpu_samples.delete_ticks(tx, "c", [15_000, 30_000])))
    assert points() == [(4.0, 60_000), (5.0, 75_000)], "what no longer counts is not shown"


@pytest.mark.parametrize("database_url", [""], ids=["sqlite"])  # PostgreSQL is asked by threads
def test_between_two_ranges_the_loop_hears_what_else_has_come(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    add_hour(store, loop_run, number, 8, [0, 15_000])
    series = LocalBackend(store)
    rounds: list[int] = []

    async def read() -> None:
        await series.query_range(
            "c", [DeviceAllocation("n000", 0, 0, None)], [GpuMetric.POWER], TimeRange(0, HOUR, 15_000)
        )
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
    series = LocalBackend(store)
    now = {metric: array[:, 0] for metric, array in columns(8, 1).items()}
    for known, at in enumerate((HOUR, HOUR + 15_000, 9 * HOUR, 9 * HOUR + 15_000, 9 * HOUR + 30_000), start=1):
        loop_run(store.write(lambda tx, at=at: gpu_samples.add_tick(tx, "c", at, number, encode_tick(now))))
        lines = loop_run(
            series.query_range(
                "c", [DeviceAllocation("n000", 0, 0, None)], [GpuMetric.POWER], TimeRange(HOUR, 10 * HOUR, 15_000)
            )
        )
        assert [len(line.points) for line in lines[GpuMetric.POWER]] == [known]


def test_what_is_kept_unpacked_has_a_bound(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(200))
    for hour in range(4):
        add_hour(store, loop_run, number, 1600, [hour * HOUR + 15_000 * tick for tick in range(8)])
    one = 8 * 8 + 128 * 8 * 16
    kept = ChunkCache(max_bytes=3 * one)

    def read(tx: gpu_samples.Transaction) -> int:
        for block in reader.list_sealed_blocks(tx, "c", 0, 4 * HOUR):
            for first in range(0, 1600, 128):
                with pytest.raises(CacheMissError):
                    kept.read(tx, block, first, cached_only=True)
                steps = kept.read(tx, block, first, cached_only=False)
                assert steps is not None
                assert kept.read(tx, block, first, cached_only=True) is steps
                assert steps.select([GpuMetric.POWER], np.array([0]))[0, 0, 0] == first * 10
                assert kept.size <= 3 * one
        return kept.size

    assert loop_run(store.read(read)) > 0


def test_the_few_ticks_that_came_since_are_unpacked_for_whoever_asks_warm(store: Store, loop_run: LoopRun) -> None:
    number = add_roster(store, loop_run, fleet(1))
    said = encode_tick({metric: array[:, 0] for metric, array in columns(8, 1).items()})
    ats = np.arange(HOUR, HOUR + 15_000 * (2 + MAX_INLINE_DECODE + 1), 15_000)
    for at in ats.tolist():
        loop_run(store.write(lambda tx, at=at: gpu_samples.add_tick(tx, "c", at, number, said)))
    kept = ChunkCache()

    def read(tx: gpu_samples.Transaction) -> int:
        with pytest.raises(CacheMissError):
            kept.read(tx, HeadBlock("c", number, ats), 0, cached_only=True)
        kept.read(tx, HeadBlock("c", number, ats[:1]), 0, cached_only=True)
        with pytest.raises(CacheMissError):
            kept.read(tx, HeadBlock("c", number, ats[: MAX_INLINE_DECODE + 2]), 0, cached_only=True)
        steps = kept.read(tx, HeadBlock("c", number, ats[: MAX_INLINE_DECODE + 1]), 0, cached_only=True)
        assert steps is not None
        return len(steps.ats)

    assert loop_run(store.read(read)) == MAX_INLINE_DECODE + 1


def cards(**uuids_by_node: str) -> device_index.DeviceIndex:
    """Each letter is the UUID of a card."""
    return device_index.build_device_index(
        [
            Node(name, 1000, GIB, tuple(Device(index, uuid, "H100", 80 * GIB) for index, uuid in enumerate(uuids)))
            for name, uuids in uuids_by_node.items()
        ]
    )


def put_cards(store: Store, loop_run: LoopRun, index: device_index.DeviceIndex, at: int) -> None:
    """The power of a card is the number of its letter."""
    number = add_roster(store, loop_run, index)
    power = np.array([float(ord(uuid)) for uuid in index.uuid.tolist()])
    tick = encode_tick({GpuMetric.POWER: power})
    loop_run(store.write(lambda tx: gpu_samples.add_tick(tx, "c", at, number, tick)))


def power_lines(
    store: Store, loop_run: LoopRun, held: list[DeviceAllocation], span: TimeRange
) -> list[tuple[str, int, str, list[tuple[float, int]]]]:
    lines = loop_run(LocalBackend(store).query_range("c", held, [GpuMetric.POWER], span))[GpuMetric.POWER]
    return [(line.node, line.device, line.uuid, line.points) for line in lines]


@pytest.mark.parametrize("begin", [0, HOUR - 15_000])
def test_the_series_of_a_gpu_goes_on_when_it_is_renumbered_and_when_it_moves(
    store: Store, loop_run: LoopRun, begin: int
) -> None:
    """Within an hour, and over its end."""
    ats = [begin, begin + 15_000, begin + 30_000]
    for at, index in zip(ats, (cards(n1="xy", n2="z"), cards(n1="yx", n2="z"), cards(n1="y", n2="zx")), strict=True):
        put_cards(store, loop_run, index, at)
    span = TimeRange(begin, begin + 30_000, 15_000)
    held = [DeviceAllocation("n2", 1, 0, None, "x"), DeviceAllocation("n1", 0, 0, None, "y")]
    y, x = ("n1", 0, "y", [(121.0, at) for at in ats]), ("n2", 1, "x", [(120.0, at) for at in ats])
    assert power_lines(store, loop_run, held, span) == [y, x]
    loop_run(Compactor(store, "c", ManualClock(begin + 4 * HOUR)).compact())
    assert loop_run(store.read(lambda tx: gpu_samples.list_ticks(tx, "c", 0, 1 << 62))) == []
    assert power_lines(store, loop_run, held, span) == [y, x]


def test_two_allocations_of_one_gpu_at_two_places_are_one_series_at_the_last_of_them(
    store: Store, loop_run: LoopRun
) -> None:
    put_cards(store, loop_run, cards(n1="xy"), 0)
    put_cards(store, loop_run, cards(n1="yx"), 15_000)
    held = [DeviceAllocation("n1", 0, 0, 15_000, "x"), DeviceAllocation("n1", 1, 15_000, None, "x")]
    assert power_lines(store, loop_run, held, TimeRange(0, 15_000, 15_000)) == [
        ("n1", 1, "x", [(120.0, 0), (120.0, 15_000)])
    ]


def test_two_gpus_at_one_place_one_after_the_other_are_two_series(store: Store, loop_run: LoopRun) -> None:
    put_cards(store, loop_run, cards(n1="xy"), 0)
    put_cards(store, loop_run, cards(n1="zy"), 15_000)
    held = [DeviceAllocation("n1", 0, 0, 15_000, "x"), DeviceAllocation("n1", 0, 15_000, None, "z")]
    lines = loop_run(LocalBackend(store).query_range("c", held, [GpuMetric.POWER], TimeRange(0, 15_000, 15_000)))
    assert [(line.uuid, line.points) for line in lines[GpuMetric.POWER]] == [
        ("x", [(120.0, 0)]),
        ("z", [(122.0, 15_000)]),
    ]
    assert merge_places(lines[GpuMetric.POWER]) == [GpuSeries("n1", 0, [(120.0, 0), (122.0, 15_000)])]


def test_a_gpu_without_a_uuid_is_its_place(store: Store, loop_run: LoopRun) -> None:
    put_cards(store, loop_run, cards(n1="xy"), 0)
    put_cards(store, loop_run, cards(n1="yx"), 15_000)
    held = [DeviceAllocation("n1", 0, 0, None)]
    assert power_lines(store, loop_run, held, TimeRange(0, 15_000, 15_000)) == [
        ("n1", 0, "", [(120.0, 0), (121.0, 15_000)])
    ]
