"""A cluster in a store, and collectors with scripted results."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from tests.conftest import LoopRun

from stoker.domain.access.identity import Cluster
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.samples import GpuFault, GpuSamples, PodUsage, empty_samples
from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.cluster import clusters, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.db.sqlite.store import SqliteStore

GIB = 1 << 30
CLUSTER = "c"


def gpu_node(name: str, gpus: int) -> Node:
    devices = tuple(Device(index, f"{name}-{index}", "H100", 80 * GIB) for index in range(gpus))
    return Node(name, 64_000, 512 * GIB, devices)


def reading(at: int, *names: str, gpus: int = 2, utilization: float = 0.5) -> GpuSamples:
    rows = len(names) * gpus
    single = np.full(rows, utilization, np.float32)
    return structs.replace(
        empty_samples(at, names),
        node=np.repeat(np.arange(len(names), dtype=np.int32), gpus),
        device=np.tile(np.arange(gpus, dtype=np.int16), len(names)),
        utilization=single,
        memory_used=np.full(rows, 20.0 * GIB),
        memory_total=np.full(rows, 80.0 * GIB),
        power=single * 700,
        temperature=single * 80,
    )


class ScriptedCollector:
    """A source that answers, fails or hangs."""

    name = "told"

    def __init__(self, *names: str, clock: Clock | None = None) -> None:
        self.names = names
        self._clock = clock or SystemClock()
        self.failing = False
        self.hanging = False
        self.utilization = 0.5
        self.memory_bytes = 80 * GIB
        self.pods: tuple[PodUsage, ...] = ()
        self.faults: tuple[GpuFault, ...] = ()
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    async def collect(self) -> GpuSamples:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.hanging:
                await asyncio.Event().wait()
            if self.failing:
                raise StokerError(ErrorCode.UNAVAILABLE, "The source told is down.")
            read = reading(self._clock.now(), *self.names, utilization=self.utilization)
            total = np.full_like(read.memory_total, self.memory_bytes)
            return structs.replace(read, memory_total=total, pods=self.pods, faults=self.faults)
        finally:
            self.at_once -= 1

    async def close(self) -> None: ...


def set_up(transaction: Transaction) -> None:
    clusters.add(transaction, Cluster(CLUSTER, "local", "local", "", 0))
    nodes.upsert(transaction, CLUSTER, [gpu_node("n1", 2), gpu_node("n2", 2)], 0)


@pytest.fixture
def file(tmp_path: Path, loop_run: LoopRun) -> Iterator[Store]:
    """A SQLite store with a cluster of two nodes."""
    store = SqliteStore(tmp_path)
    loop_run(store.write(set_up))
    yield store
    loop_run(store.close())
