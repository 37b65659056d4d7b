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

from bench.workloads import Connection, Server
from stoker.controller.compaction import Compactor
from stoker.controller.news import News
from stoker.controller.sampler import Sampler
from stoker.domain.clock import SystemClock
from stoker.domain.identity import Cluster
from stoker.domain.live import Part, SourceState
from stoker.domain.node import Device, Node
from stoker.domain.readings import Metric, Readings, no_gpus
from stoker.domain.resources import Resources
from stoker.domain.series import Holding, Range
from stoker.domain.workload import Kind, Phase, Pod
from stoker.server.serve import SWITCH_INTERVAL_SECONDS
from stoker.store import clusters, live_views, nodes, samples
from stoker.store.base import Store, Transaction
from stoker.store.holders import HeldGpu, Holder
from stoker.store.sqlite import SqliteStore
from stoker.telemetry.stored import StoredSeries
from stoker.telemetry.view import LiveView

NODES = 12_500
GPUS_A_NODE = 8
HELD = 0.9
GIB = 1 << 30
HOUR_MS = 3_600_000
TICK_MS = 15_000
ROUNDS = 5
REQUESTS = 400
CLUSTER = "bench"
STATE = SourceState("bench", 1, stale=False)
OPEN = "SELECT SUM(LENGTH(data)) FROM sample_stripe"
CLOSED = "SELECT SUM(LENGTH(data)) FROM sample_chunk"
PATHS = {
    "overview": "/api/clusters/overview",
    "consumers": "/api/clusters/consumers",
    "gpuHeatmap": "/api/clusters/gpuHeatmap",
    "nodes": "/api/stoker/v1/nodes",
    "gpus": "/api/stoker/v1/gpus",
}


class Clock:
    """Stands still."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


class Fleet:
    """Nodes, workloads of eight GPUs on nine tenths of them, and readings that wander."""

    def __init__(self) -> None:
        devices = tuple(Device(index, "", "AMD Instinct MI300X", 192 * GIB) for index in range(GPUS_A_NODE))
        self.nodes = [Node(f"gpu-node-{number:05}", 192_000, 2048 * GIB, devices) for number in range(NODES)]
        self.holders = [holder(number, self.nodes[number].name) for number in range(int(NODES * HELD))]
        self._random = np.random.default_rng(7)
        self._usual = self._random.uniform(0.3, 0.98, NODES * GPUS_A_NODE)
        self._memory = self._random.uniform(20, 180, NODES * GPUS_A_NODE) * GIB

    def readings(self) -> Readings:
        used = np.clip(self._usual + self._random.normal(0, 0.02, len(self._usual)), 0, 1).astype(np.float32)
        return structs.replace(
            no_gpus(0, tuple(node.name for node in self.nodes)),
            node=np.repeat(np.arange(NODES, dtype=np.int32), GPUS_A_NODE),
            device=np.tile(np.arange(GPUS_A_NODE, dtype=np.int16), NODES),
            utilization=used,
            memory_used=self._memory,
            memory_total=np.full(len(used), 192.0 * GIB),
            power=150 + 550 * used,
            temperature=35 + 40 * used,
        )


class FleetSource:
    name = "bench"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def readings(self) -> Readings:
        return await asyncio.to_thread(self._fleet.readings)

    async def close(self) -> None: ...


def holder(number: int, node: str) -> Holder:
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
    gpus = [HeldGpu(node, index, 1000) for index in range(GPUS_A_NODE)]
    return Holder(uid, f"job-{number}-bcdfg", f"job-{number}", Kind.PYTORCH_JOB, "default", Phase.RUNNING, [pod], gpus)


def picture() -> Iterator[str]:
    """the live view of 100,000 GPUs and 11,250 workloads, worked out again after a reading and after a change"""
    fleet, view = Fleet(), LiveView()
    began = time.perf_counter()
    view.replace(fleet.nodes, fleet.holders)
    yield f"made for the first time in {milliseconds(began):.0f} ms"
    reads, paints, mends = [], [], []
    parts: dict[Part, bytes] = {}
    for _ in range(ROUNDS):
        readings = fleet.readings()
        began = time.perf_counter()
        view.read(readings)
        reads.append(milliseconds(began))
        began = time.perf_counter()
        parts = view.parts(1, STATE)
        paints.append(milliseconds(began))
        began = time.perf_counter()
        view.change([structs.replace(fleet.nodes[5], cordoned=True)], ["gone"], fleet.holders[:10])
        view.parts(1, STATE)
        mends.append(milliseconds(began))
    yield f"a reading taken up and packed in {min(reads):.0f} ms; the tick has {size(view) / 1e6:.2f} MB"
    yield f"all parts in {min(paints):.0f} ms after a reading, {min(mends):.0f} ms after ten workloads and a node moved"
    yield "parts: " + ", ".join(f"{part} {len(body) / 1e6:.2f} MB" for part, body in parts.items())


def sampler() -> Iterator[str]:
    """the sampler at work on SQLite, every second: how long the event loop of the server is held at most"""
    yield from asyncio.run(_sampler())


async def _sampler() -> list[str]:
    fleet, news = Fleet(), News()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    async with opened(fleet) as store:
        work = asyncio.create_task(Sampler(store, FleetSource(fleet), CLUSTER, SystemClock(), news, 1.0).run())
        await until_published(store, 1)
        holds = []
        until = time.monotonic() + 10
        while time.monotonic() < until:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            holds.append(milliseconds(began) - 1)
        published = await store.peek(lambda tx: live_views.version(tx, CLUSTER, Part.OVERVIEW))
        ticks = await store.peek(lambda tx: samples.ticks(tx, CLUSTER, 0, 1 << 62))
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
    fleet, view = Fleet(), LiveView()
    view.replace(fleet.nodes, fleet.holders)
    lines, writes = [], []
    async with opened(fleet) as store:
        number = 0
        for at in range(HOUR_MS, 2 * HOUR_MS, TICK_MS):
            view.read(fleet.readings())
            began = time.perf_counter()
            number = await store.write(lambda tx, at=at, before=number: keep(tx, view, at, before))
            writes.append(milliseconds(began))
        lines.append(f"a tick is written in {np.median(writes):.1f} ms; the open hour has {stored(store, OPEN):.0f} MB")
        lines.append(f"eight GPUs of the open hour are read in {await reading(store):.1f} ms")
        before, began = peak_megabytes(), time.perf_counter()
        await Compactor(store, CLUSTER, Clock(3 * HOUR_MS)).compact()
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
        clusters.add(transaction, Cluster(CLUSTER, CLUSTER, "simulated", "", 0))
        nodes.put(transaction, CLUSTER, fleet.nodes, 0)

    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        store = SqliteStore(Path(folder))
        try:
            await store.write(change)
            yield store
        finally:
            await store.close()


async def until_published(store: Store, version: int) -> None:
    while await store.peek(lambda tx: live_views.version(tx, CLUSTER, Part.OVERVIEW)) < version:
        await asyncio.sleep(0.01)


def keep(transaction: Transaction, view: LiveView, at: int, known: int) -> int:
    number = known or samples.roster_for(transaction, CLUSTER, view.roster, view.gpus, 0)
    samples.add_tick(transaction, CLUSTER, at, number, view.tick)
    return number


async def reading(store: Store) -> float:
    """All metrics of one node's GPUs over the hour, the best of some rounds, in milliseconds."""
    held = [Holding("gpu-node-07777", index, 0, None) for index in range(GPUS_A_NODE)]
    series = StoredSeries(store)
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await series.gpus(CLUSTER, held, list(Metric), Range(HOUR_MS, 2 * HOUR_MS, TICK_MS))
        took.append(milliseconds(began))
    return min(took)


def stored(store: SqliteStore, sql: str) -> float:
    """Megabytes."""
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        return connection.execute(sql).fetchone()[0] / 1e6


def size(view: LiveView) -> int:
    return sum(len(stripe.data) for stripe in view.tick)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1000


BENCHES = [picture, sampler, hour, endpoints]
