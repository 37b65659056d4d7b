"""A fleet of 100,000 GPUs: what a reading of all of them costs, what is published, how hours are kept and read back."""

import asyncio
import contextlib
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import numpy as np
from msgspec import structs
from tests.clock import ManualClock

from bench.workloads import Connection, Server
from stoker.concurrency.supervisor import Supervisor
from stoker.controller.collect.sampler import Sampler
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.domain.access.identity import Cluster
from stoker.domain.clock import SystemClock
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.gpu_identity import uuid_of_amd
from stoker.domain.cluster.live_view import CollectorStatus, LiveViewKind
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import GpuMetric, GpuSamples, empty_samples, encode_uuids
from stoker.domain.metrics.series import DeviceAllocation, TimeRange
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind
from stoker.server.http_server import SWITCH_INTERVAL_SECONDS
from stoker.store.cluster import clusters, live_views, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.db.sqlite.store import SqliteStore
from stoker.store.telemetry import gpu_samples
from stoker.store.workloads.allocations import GpuAllocation, WorkloadAllocation
from stoker.telemetry.live.builder import LiveViewBuilder
from stoker.telemetry.query.local import LocalBackend
from stoker.telemetry.tsdb.compactor import Compactor

NODES = 12_500
GPUS_A_NODE = 8
HELD = 0.9
GIB = 1 << 30
HOUR_MS = 3_600_000
TICK_MS = 15_000
ROUNDS = 5
REQUESTS = 400
CLUSTER = "bench"
STATE = CollectorStatus("bench", 1, stale=False)
OPEN = "SELECT SUM(LENGTH(data)) FROM sample_stripe"
CLOSED = "SELECT SUM(LENGTH(data)) FROM sample_chunk"
PATHS = {
    "overview": "/api/clusters/overview",
    "consumers": "/api/clusters/consumers",
    "gpuHeatmap": "/api/clusters/gpuHeatmap",
    "nodes": "/api/stoker/v1/nodes",
    "gpus": "/api/stoker/v1/gpus",
}


class Fleet:
    """Nodes, workloads of eight GPUs on nine tenths of them, and readings that wander."""

    def __init__(self) -> None:
        self.nodes = [
            Node(
                f"gpu-node-{number:05}", 192_000, 2048 * GIB, tuple(gpu(number, index) for index in range(GPUS_A_NODE))
            )
            for number in range(NODES)
        ]
        self._uuids = encode_uuids(device.uuid for node in self.nodes for device in node.devices)
        self.holders = [holder(number, self.nodes[number].name) for number in range(int(NODES * HELD))]
        self._random = np.random.default_rng(7)
        self._usual = self._random.uniform(0.3, 0.98, NODES * GPUS_A_NODE)
        self._memory = self._random.uniform(20, 180, NODES * GPUS_A_NODE) * GIB

    def readings(self) -> GpuSamples:
        used = np.clip(self._usual + self._random.normal(0, 0.02, len(self._usual)), 0, 1).astype(np.float32)
        return structs.replace(
            empty_samples(0, tuple(node.name for node in self.nodes)),
            node=np.repeat(np.arange(NODES, dtype=np.int32), GPUS_A_NODE),
            device=np.tile(np.arange(GPUS_A_NODE, dtype=np.int16), NODES),
            utilization=used,
            memory_used=self._memory,
            memory_total=np.full(len(used), 192.0 * GIB),
            power=150 + 550 * used,
            temperature=35 + 40 * used,
            uuid=self._uuids,
        )


def gpu(node: int, index: int) -> Device:
    return Device(index, gpu_uuid(node, index), "AMD Instinct MI300X", 192 * GIB)


def gpu_uuid(node: int, index: int) -> str:
    return uuid_of_amd(1 + node * GPUS_A_NODE + index)


class FleetSource:
    name = "bench"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def collect(self) -> GpuSamples:
        return await asyncio.to_thread(self._fleet.readings)

    async def close(self) -> None: ...


def holder(number: int, node: str) -> WorkloadAllocation:
    uid = f"{number:08}-0000-4000-8000-000000000000"
    pod = Pod(
        uid=uid,
        workload_uid=uid,
        name=f"job-{number}-worker-0",
        attempt=1,
        revision=1,
        rank=0,
        node=node,
        resources=Resources(GPUS_A_NODE * 1000, 96_000, 1024 * GIB),
        created_at=0,
    )
    gpus = [GpuAllocation(node, index, 1000, uuid=gpu_uuid(number, index)) for index in range(GPUS_A_NODE)]
    return WorkloadAllocation(
        uid, f"job-{number}-bcdfg", f"job-{number}", Kind.PYTORCH_JOB, "default", Phase.RUNNING, [pod], gpus
    )


def picture() -> Iterator[str]:
    """the live view of 100,000 GPUs and 11,250 workloads, worked out again after a reading and after a change"""
    fleet, view = Fleet(), LiveViewBuilder()
    began = time.perf_counter()
    view.reset(fleet.nodes, fleet.holders)
    yield f"made for the first time in {milliseconds(began):.0f} ms"
    reads, paints, mends = [], [], []
    parts: dict[LiveViewKind, bytes] = {}
    for _ in range(ROUNDS):
        readings = fleet.readings()
        began = time.perf_counter()
        view.set_samples(readings)
        reads.append(milliseconds(began))
        began = time.perf_counter()
        parts = view.build_parts(1, STATE)
        paints.append(milliseconds(began))
        began = time.perf_counter()
        view.update([structs.replace(fleet.nodes[5], cordoned=True)], ["gone"], fleet.holders[:10])
        view.build_parts(1, STATE)
        mends.append(milliseconds(began))
    yield f"a reading taken up and packed in {min(reads):.0f} ms; the tick has {size(view) / 1e6:.2f} MB"
    yield f"all parts in {min(paints):.0f} ms after a reading, {min(mends):.0f} ms after ten workloads and a node moved"
    yield "parts: " + ", ".join(f"{part} {len(body) / 1e6:.2f} MB" for part, body in parts.items())


def sampler() -> Iterator[str]:
    """the sampler at work on SQLite, every second: how long the event loop of the server is held at most"""
    yield from asyncio.run(_sampler())


async def _sampler() -> list[str]:
    fleet, news = Fleet(), DirtySet()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    async with opened(fleet) as store:
        clock = SystemClock()
        sampler = Sampler(store, FleetSource(fleet), CLUSTER, clock, news, Supervisor(clock), 1.0)
        work = asyncio.create_task(sampler.run())
        await until_published(store, 1)
        holds = []
        until = time.monotonic() + 10
        while time.monotonic() < until:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            holds.append(milliseconds(began) - 1)
        published = await store.read_inline(lambda tx: live_views.version(tx, CLUSTER, LiveViewKind.OVERVIEW))
        ticks = await store.read_inline(lambda tx: gpu_samples.list_ticks(tx, CLUSTER, 0, 1 << 62))
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    median, worst = np.percentile(holds, [50, 99])
    return [
        f"{len(ticks)} ticks kept and {published} views published in 10 s",
        f"the event loop was late by {median:.1f} ms (p50), {worst:.1f} ms (p99), {max(holds):.1f} ms (most)",
    ]


def hour() -> Iterator[str]:
    """one hour of 100,000 GPUs every 15 s: 24 million readings of four metrics, kept, packed and read back"""
    yield from asyncio.run(_hour())


async def _hour() -> list[str]:
    fleet, view = Fleet(), LiveViewBuilder()
    view.reset(fleet.nodes, fleet.holders)
    lines, writes = [], []
    async with opened(fleet) as store:
        number = 0
        for at in range(HOUR_MS, 2 * HOUR_MS, TICK_MS):
            view.set_samples(fleet.readings())
            began = time.perf_counter()
            number = await store.write(lambda tx, at=at, before=number: keep(tx, view, at, before))
            writes.append(milliseconds(began))
        lines.append(f"a tick is written in {np.median(writes):.1f} ms; the open hour has {stored(store, OPEN):.0f} MB")
        lines.append(f"eight GPUs of the open hour are read in {await reading(store):.1f} ms")
        before, began = peak_megabytes(), time.perf_counter()
        await Compactor(store, CLUSTER, ManualClock(3 * HOUR_MS)).compact()
        lines.append(
            f"packed in {milliseconds(began) / 1000:.1f} s, with {peak_megabytes() - before:.0f} MB more than before;"
            f" the closed hour has {stored(store, CLOSED):.0f} MB"
        )
        lines.append(f"eight GPUs of the closed hour are read in {await reading(store):.1f} ms")
    return lines


def endpoints() -> Iterator[str]:
    """the endpoints over HTTP, one client after another, while the simulated fleet of 100,000 GPUs is driven"""
    flags = ("--demo", "--demo-gpus", str(NODES * GPUS_A_NODE), "--demo-days", "0")
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        contextlib.closing(Server(Path(folder), *flags)) as server,
    ):
        yield from asyncio.run(_endpoints(server))


async def _endpoints(server: Server) -> list[str]:
    lines = []
    connection = Connection(server)
    while (await connection.ask("GET", PATHS["overview"]))["data"]["totalNodes"] < NODES / 2:
        await asyncio.sleep(0.2)
    for name, path in PATHS.items():
        took = []
        for _ in range(REQUESTS):
            began = time.perf_counter()
            await connection.ask("GET", path)
            took.append(milliseconds(began))
            await asyncio.sleep(0.01)
        median, worst = np.percentile(took, [50, 99])
        lines.append(f"{name:<11} p50 {median:.1f} ms, p99 {worst:.1f} ms")
    connection.close()
    return [*lines, f"the server has {server.megabytes:.0f} MB"]


@contextlib.asynccontextmanager
async def opened(fleet: Fleet) -> AsyncGenerator[SqliteStore]:
    """A store that knows the fleet."""

    def change(transaction: Transaction) -> None:
        clusters.add(transaction, Cluster(CLUSTER, CLUSTER, "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES))
        nodes.upsert(transaction, CLUSTER, fleet.nodes, 0)

    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        store = SqliteStore(Path(folder))
        try:
            await store.write(change)
            yield store
        finally:
            await store.close()


async def until_published(store: Store, version: int) -> None:
    while await store.read_inline(lambda tx: live_views.version(tx, CLUSTER, LiveViewKind.OVERVIEW)) < version:
        await asyncio.sleep(0.01)


def keep(transaction: Transaction, view: LiveViewBuilder, at: int, known: int) -> int:
    number = known or gpu_samples.get_or_add_device_index(transaction, CLUSTER, view.encoded_index, view.gpu_count, 0)
    gpu_samples.add_tick(transaction, CLUSTER, at, number, view.tick)
    return number


async def reading(store: Store) -> float:
    """All metrics of one node's GPUs over the hour, the best of some rounds, in milliseconds."""
    held = [DeviceAllocation("gpu-node-07777", index, 0, None, gpu_uuid(7777, index)) for index in range(GPUS_A_NODE)]
    series = LocalBackend(store)
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await series.query_range(CLUSTER, held, list(GpuMetric), TimeRange(HOUR_MS, 2 * HOUR_MS, TICK_MS))
        took.append(milliseconds(began))
    return min(took)


def stored(store: SqliteStore, sql: str) -> float:
    """Megabytes."""
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        return connection.execute(sql).fetchone()[0] / 1e6


def size(view: LiveViewBuilder) -> int:
    return sum(len(stripe.data) for stripe in view.tick)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1000


BENCHES = [picture, sampler, hour, endpoints]
