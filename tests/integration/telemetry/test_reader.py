"""Every stored tick is read once, whether it is still in the head or in a sealed block."""

import numpy as np
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuMetric
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples
from stoker.telemetry.tsdb import device_index, reader
from stoker.telemetry.tsdb.codec import CHUNK_GPUS, STRIPE_GPUS, encode_tick
from stoker.telemetry.tsdb.compactor import Compactor
from stoker.telemetry.tsdb.reader import HeadBlock, SealedBlock

HOUR = 3_600_000
MINUTE = 60_000
GPUS = STRIPE_GPUS + 8
ATS = [*range(HOUR, 2 * HOUR, 10 * MINUTE), *range(2 * HOUR, 2 * HOUR + 30 * MINUTE, 10 * MINUTE)]
READ_METRICS = [GpuMetric.POWER]


def add_ticks(store: Store, loop_run: LoopRun) -> int:
    """The power of a GPU is its row plus the number of the tick."""
    devices = tuple(Device(number, "", "H100") for number in range(GPUS))
    index = device_index.build_device_index([Node("n", 1000, 1, devices)])

    def add(transaction: Transaction) -> int:
        clusters.add(transaction, Cluster("c", "local", "local", "", 0))
        index_id = gpu_samples.get_or_add_device_index(transaction, "c", device_index.encode(index), GPUS, 0)
        for tick, at in enumerate(ATS):
            values = {GpuMetric.POWER: np.arange(GPUS, dtype=float) + tick}
            gpu_samples.add_tick(transaction, "c", at, index_id, encode_tick(values))
        return index_id

    return loop_run(store.write(add))


def power_by_tick(transaction: Transaction, block: HeadBlock | SealedBlock) -> dict[int, np.ndarray]:
    parts = list(block.read_all(transaction, GPUS, READ_METRICS))
    assert [first for first, _ in parts] == list(range(0, GPUS, block.chunk_gpus))
    power = np.concatenate([samples.values[GpuMetric.POWER] for _, samples in parts])
    return {at: power[:, column] for column, at in enumerate(block.times().tolist())}


def test_compaction_moves_ticks_and_changes_no_sample(store: Store, loop_run: LoopRun) -> None:
    add_ticks(store, loop_run)

    def read(transaction: Transaction) -> tuple[list[type], dict[int, list[float]]]:
        blocks = reader.list_blocks(transaction, "c", 0, 3 * HOUR)
        found = [power_by_tick(transaction, block) for block in blocks]
        assert sum(map(len, found)) == len(ATS), "no tick is in two blocks"
        return [type(block) for block in blocks], {at: row.tolist() for each in found for at, row in each.items()}

    kinds, before = loop_run(store.read(read))
    assert kinds == [HeadBlock]
    assert loop_run(Compactor(store, "c", ManualClock(2 * HOUR + 31 * MINUTE)).compact()) == 1
    kinds, after = loop_run(store.read(read))
    assert kinds == [SealedBlock, HeadBlock]
    assert after == before
    assert list(before) == ATS


def test_blocks_are_listed_backwards_with_the_head_in_parts(store: Store, loop_run: LoopRun) -> None:
    add_ticks(store, loop_run)
    loop_run(Compactor(store, "c", ManualClock(2 * HOUR + 31 * MINUTE)).compact())

    def read(transaction: Transaction) -> list[list[int]]:
        blocks = reader.blocks_newest_first(transaction, "c", 0, 3 * HOUR, head_ticks=2)
        return [block.times().tolist() for block in blocks]

    assert loop_run(store.read(read)) == [ATS[-2:], ATS[-3:-2], ATS[:-3]]


def test_a_chunk_is_read_by_its_first_gpu_and_can_be_cut(store: Store, loop_run: LoopRun) -> None:
    add_ticks(store, loop_run)
    loop_run(Compactor(store, "c", ManualClock(2 * HOUR + 31 * MINUTE)).compact())

    def read(transaction: Transaction) -> None:
        sealed, head = reader.list_blocks(transaction, "c", HOUR, 3 * HOUR)
        for block, size in ((sealed, CHUNK_GPUS), (head, STRIPE_GPUS)):
            samples = block.read(transaction, size, READ_METRICS)
            assert samples is not None
            recent = samples.since(int(block.times()[1]))
            tick = ATS.index(int(recent.ats[0]))
            assert recent.values[GpuMetric.POWER][0, 0] == (size + tick) * 10, "power is stored in tenths of a watt"
            assert block.read(transaction, 10 * STRIPE_GPUS, READ_METRICS) is None

    loop_run(store.read(read))
