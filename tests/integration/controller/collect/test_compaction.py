"""Hours that are over become segments; whatever cuts that short, every reading counts once."""

from typing import TypeVar

import numpy as np
import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun
from tests.integration.controller.collect.conftest import CLUSTER, gpu_node

from stoker.controller.policy.retention import purge_once
from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.series import DeviceAllocation, TimeRange
from stoker.domain.settings.schema import Settings
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction, TransactionFn
from stoker.store.telemetry import gpu_samples
from stoker.telemetry.query.local import LocalBackend
from stoker.telemetry.tsdb import device_index
from stoker.telemetry.tsdb.codec import encode_tick
from stoker.telemetry.tsdb.compactor import Compactor

T = TypeVar("T")
HOUR = 3_600_000
NODES = 140
"""More GPUs than one stripe has."""


class PowerCutError(Exception):
    pass


class CrashingStore:
    """A store that is gone after some writes."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._left = writes
        self.write_inline = self.write
        self.check_disk_space = store.check_disk_space
        self.read = store.read
        self.read_inline = store.read_inline
        self.close = store.close
        self.name = store.name

    async def write(self, change: TransactionFn[T]) -> T:
        if not self._left:
            raise PowerCutError
        self._left -= 1
        return await self._store.write(change)


def fill(store: Store, loop_run: LoopRun, ats: list[int], nodes: int = NODES) -> None:
    """Ticks whose power says the moment and the GPU."""
    of = device_index.build_device_index([gpu_node(f"n{number:03}", 8) for number in range(nodes)])

    def add(transaction: Transaction) -> None:
        if clusters.find(transaction, CLUSTER) is None:
            clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 0))
        number = gpu_samples.get_or_add_device_index(transaction, CLUSTER, device_index.encode(of), of.gpu_count, 0)
        for at in ats:
            power = np.arange(of.gpu_count) + at / 1000 % 1000
            gpu_samples.add_tick(transaction, CLUSTER, at, number, encode_tick({GpuMetric.POWER: power}))

    loop_run(store.write(add))


def everything(store: Store, loop_run: LoopRun, until: int = 4 * HOUR) -> list[object]:
    """All that is shown of a few GPUs."""
    held = [
        DeviceAllocation("n000", 0, 0, None),
        DeviceAllocation("n070", 3, 0, None),
        DeviceAllocation("n139", 7, 0, None),
    ]
    lines = loop_run(LocalBackend(store).query_range(CLUSTER, held, [GpuMetric.POWER], TimeRange(0, until, 15_000)))
    return list(lines[GpuMetric.POWER])


def counted(store: Store, loop_run: LoopRun) -> tuple[int, int]:
    """Ticks that are left, and moments in segments."""
    ticks = loop_run(store.read(lambda tx: gpu_samples.list_ticks(tx, CLUSTER, 0, 1 << 62)))
    kept = loop_run(store.read(lambda tx: gpu_samples.sealed_blocks(tx, CLUSTER, 0, 1 << 62)))
    return len(ticks), sum(segment.ticks for segment in kept)


def test_hours_that_are_over_become_segments_and_show_the_same(store: Store, loop_run: LoopRun) -> None:
    ats = [*range(HOUR, HOUR + 60_000, 15_000), *range(2 * HOUR, 2 * HOUR + 30_000, 15_000), 3 * HOUR]
    fill(store, loop_run, ats)
    before = everything(store, loop_run)
    assert loop_run(Compactor(store, CLUSTER, ManualClock(3 * HOUR + 31_000)).compact()) == 2
    assert counted(store, loop_run) == (1, 6)
    assert everything(store, loop_run) == before
    left = loop_run(store.read(lambda tx: gpu_samples.read_stripes(tx, CLUSTER, 0, 0, 1 << 62)))
    assert [at for at, _ in left] == [3 * HOUR]
    assert loop_run(Compactor(store, CLUSTER, ManualClock(3 * HOUR + 31_000)).compact()) == 0


def test_the_open_hour_is_left_alone_and_one_just_over_waits_for_late_ticks(store: Store, loop_run: LoopRun) -> None:
    fill(store, loop_run, [HOUR, HOUR + 15_000], nodes=1)
    assert loop_run(Compactor(store, CLUSTER, ManualClock(2 * HOUR + 29_000)).compact()) == 0
    assert loop_run(Compactor(store, CLUSTER, ManualClock(2 * HOUR + 30_000)).compact()) == 1


def test_ticks_that_come_after_their_hour_was_closed_are_kept_beside_it(store: Store, loop_run: LoopRun) -> None:
    compactor = Compactor(store, CLUSTER, ManualClock(9 * HOUR))
    fill(store, loop_run, [HOUR, HOUR + 30_000])
    loop_run(compactor.compact())
    fill(store, loop_run, [HOUR, HOUR + 15_000])  # the first is there already
    loop_run(compactor.compact())
    assert counted(store, loop_run) == (0, 3)


def test_two_rosters_of_one_hour_are_two_segments(store: Store, loop_run: LoopRun) -> None:
    fill(store, loop_run, [HOUR, HOUR + 15_000])
    fill(store, loop_run, [HOUR + 30_000], nodes=139)
    before = everything(store, loop_run)
    loop_run(Compactor(store, CLUSTER, ManualClock(9 * HOUR)).compact())
    assert len(loop_run(store.read(lambda tx: gpu_samples.sealed_blocks(tx, CLUSTER, 0, 1 << 62)))) == 2
    assert everything(store, loop_run) == before


@pytest.mark.parametrize("writes", range(12))
def test_a_power_cut_at_any_write_neither_loses_nor_doubles_a_reading(
    store: Store, loop_run: LoopRun, writes: int
) -> None:
    fill(store, loop_run, [HOUR, HOUR + 15_000, 2 * HOUR])
    before = everything(store, loop_run)
    clock = ManualClock(9 * HOUR)
    try:
        loop_run(Compactor(CrashingStore(store, writes), CLUSTER, clock).compact())
    except PowerCutError:
        assert everything(store, loop_run) == before
        assert sum(counted(store, loop_run)) == 3
    loop_run(Compactor(store, CLUSTER, clock).compact())
    assert everything(store, loop_run) == before
    assert counted(store, loop_run) == (0, 3)


def test_readings_past_their_days_are_forgotten_with_their_segments(store: Store, loop_run: LoopRun) -> None:
    fill(store, loop_run, [HOUR, 50 * HOUR])
    loop_run(Compactor(store, CLUSTER, ManualClock(60 * HOUR)).compact())
    gone = loop_run(purge_once(store, Settings(sample_days=1), ManualClock(26 * HOUR)))
    assert (gone, counted(store, loop_run)) == (0, (0, 2))
    gone = loop_run(purge_once(store, Settings(sample_days=1), ManualClock(27 * HOUR)))
    assert (gone, counted(store, loop_run)) == (10, (0, 1))  # nine chunks and what held them together
