"""Hours that are over become segments; whatever cuts that short, every reading counts once."""

from typing import TypeVar

import numpy as np
import pytest
from tests.conftest import LoopRun
from tests.engine.sampling.conftest import CLUSTER, gpu_node

from stoker.controller.compaction import Compactor
from stoker.controller.retention import forget_once
from stoker.domain.identity import Cluster
from stoker.domain.readings import Metric
from stoker.domain.series import Holding, Range
from stoker.domain.settings import Settings
from stoker.store import clusters, samples
from stoker.store.base import Change, Store, Transaction
from stoker.telemetry import roster
from stoker.telemetry.chunks import encode_tick
from stoker.telemetry.stored import StoredSeries

T = TypeVar("T")
HOUR = 3_600_000
NODES = 140
"""More GPUs than one stripe has."""


class FixedClock:
    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


class PowerCutError(Exception):
    pass


class Dying:
    """A store that is gone after some writes."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._left = writes
        self.poke = self.write
        self.check_room = store.check_room
        self.read = store.read
        self.peek = store.peek
        self.close = store.close
        self.name = store.name

    async def write(self, change: Change[T]) -> T:
        if not self._left:
            raise PowerCutError
        self._left -= 1
        return await self._store.write(change)


def fill(store: Store, loop_run: LoopRun, ats: list[int], nodes: int = NODES) -> None:
    """Ticks whose power says the moment and the GPU."""
    of = roster.roster_of([gpu_node(f"n{number:03}", 8) for number in range(nodes)])

    def add(transaction: Transaction) -> None:
        if clusters.find(transaction, CLUSTER) is None:
            clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 0))
        number = samples.roster_for(transaction, CLUSTER, roster.encode(of), of.gpus, 0)
        for at in ats:
            power = np.arange(of.gpus) + at / 1000 % 1000
            samples.add_tick(transaction, CLUSTER, at, number, encode_tick({Metric.POWER: power}))

    loop_run(store.write(add))


def everything(store: Store, loop_run: LoopRun, until: int = 4 * HOUR) -> list[object]:
    """All that is shown of a few GPUs."""
    held = [Holding("n000", 0, 0, None), Holding("n070", 3, 0, None), Holding("n139", 7, 0, None)]
    lines = loop_run(StoredSeries(store).gpus(CLUSTER, held, [Metric.POWER], Range(0, until, 15_000)))
    return list(lines[Metric.POWER])


def counted(store: Store, loop_run: LoopRun) -> tuple[int, int]:
    """Ticks that are left, and moments in segments."""
    ticks = loop_run(store.read(lambda tx: samples.ticks(tx, CLUSTER, 0, 1 << 62)))
    kept = loop_run(store.read(lambda tx: samples.segments(tx, CLUSTER, 0, 1 << 62)))
    return len(ticks), sum(segment.ticks for segment in kept)


def test_hours_that_are_over_become_segments_and_show_the_same(store: Store, loop_run: LoopRun) -> None:
    ats = [*range(HOUR, HOUR + 60_000, 15_000), *range(2 * HOUR, 2 * HOUR + 30_000, 15_000), 3 * HOUR]
    fill(store, loop_run, ats)
    before = everything(store, loop_run)
    assert loop_run(Compactor(store, CLUSTER, FixedClock(3 * HOUR + 31_000)).compact()) == 2
    assert counted(store, loop_run) == (1, 6)
    assert everything(store, loop_run) == before
    left = loop_run(store.read(lambda tx: samples.stripes(tx, CLUSTER, 0, 0, 1 << 62)))
    assert [at for at, _ in left] == [3 * HOUR]
    assert loop_run(Compactor(store, CLUSTER, FixedClock(3 * HOUR + 31_000)).compact()) == 0


def test_the_open_hour_is_left_alone_and_one_just_over_waits_for_late_ticks(store: Store, loop_run: LoopRun) -> None:
    fill(store, loop_run, [HOUR, HOUR + 15_000], nodes=1)
    assert loop_run(Compactor(store, CLUSTER, FixedClock(2 * HOUR + 29_000)).compact()) == 0
    assert loop_run(Compactor(store, CLUSTER, FixedClock(2 * HOUR + 30_000)).compact()) == 1


def test_ticks_that_come_after_their_hour_was_closed_are_kept_beside_it(store: Store, loop_run: LoopRun) -> None:
    compactor = Compactor(store, CLUSTER, FixedClock(9 * HOUR))
    fill(store, loop_run, [HOUR, HOUR + 30_000])
    loop_run(compactor.compact())
    fill(store, loop_run, [HOUR, HOUR + 15_000])  # the first is there already
    loop_run(compactor.compact())
    assert counted(store, loop_run) == (0, 3)


def test_two_rosters_of_one_hour_are_two_segments(store: Store, loop_run: LoopRun) -> None:
    fill(store, loop_run, [HOUR, HOUR + 15_000])
    fill(store, loop_run, [HOUR + 30_000], nodes=139)
    before = everything(store, loop_run)
    loop_run(Compactor(store, CLUSTER, FixedClock(9 * HOUR)).compact())
    assert len(loop_run(store.read(lambda tx: samples.segments(tx, CLUSTER, 0, 1 << 62)))) == 2
    assert everything(store, loop_run) == before


@pytest.mark.parametrize("writes", range(12))
def test_a_power_cut_at_any_write_neither_loses_nor_doubles_a_reading(
    store: Store, loop_run: LoopRun, writes: int
) -> None:
    fill(store, loop_run, [HOUR, HOUR + 15_000, 2 * HOUR])
    before = everything(store, loop_run)
    clock = FixedClock(9 * HOUR)
    try:
        loop_run(Compactor(Dying(store, writes), CLUSTER, clock).compact())
    except PowerCutError:
        assert everything(store, loop_run) == before
        assert sum(counted(store, loop_run)) == 3
    loop_run(Compactor(store, CLUSTER, clock).compact())
    assert everything(store, loop_run) == before
    assert counted(store, loop_run) == (0, 3)


def test_readings_past_their_days_are_forgotten_with_their_segments(store: Store, loop_run: LoopRun) -> None:
    fill(store, loop_run, [HOUR, 50 * HOUR])
    loop_run(Compactor(store, CLUSTER, FixedClock(60 * HOUR)).compact())
    gone = loop_run(forget_once(store, Settings(sample_days=1), FixedClock(26 * HOUR)))
    assert (gone, counted(store, loop_run)) == (0, (0, 2))
    gone = loop_run(forget_once(store, Settings(sample_days=1), FixedClock(27 * HOUR)))
    assert (gone, counted(store, loop_run)) == (10, (0, 1))  # nine chunks and what held them together
