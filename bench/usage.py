"""Usage at its size: pages of ten million hours of workloads, and closing an hour of a hundred thousand GPUs.

STOKER_BENCH_ROWS and STOKER_BENCH_GPUS make a shorter run. What is built is removed again.
"""

import asyncio
import contextlib
import gc
import importlib.resources
import multiprocessing
import os
import re
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import httpx
import numpy as np
import psycopg
from numpy.typing import NDArray
from tests.api.harness import Harness
from tests.clock import ManualClock
from tests.postgres import PostgresServer

from bench.startup import judged
from stoker.controller.reconcile.observe import record_nodes
from stoker.controller.usage.rollup import CLOSE_DELAY_MS, Rollup
from stoker.domain.access.identity import Cluster
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.usage.ledger import GPU_HOUR, HOUR_MS
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.store import open_store
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples
from stoker.store.workloads import allocations, pods, transitions
from stoker.store.workloads.allocations import Allocation
from stoker.telemetry.tsdb.codec import encode_hour, encode_tick
from stoker.telemetry.tsdb.device_index import build_device_index, encode

ROWS = int(os.environ.get("STOKER_BENCH_ROWS", "10_000_000"))
HOURS = 2_000
REQUESTS = 200
PAGE_LIMIT_MS, NAME_LIMIT_MS = 20.0, 100.0
GPUS = int(os.environ.get("STOKER_BENCH_GPUS", "100_000"))
NODE_GPUS = 8
TICK_MS = 15_000
CLOSE_LIMIT_SECONDS, CLOSE_LIMIT_MB = 6.0, 1200.0
CLUSTER = "c1"
PATH = "/api/v1/gpu-aggregation/workloads/hourly-stats"
HOUR = 1_768_471_200_000
"""2026-01-15T10:00:00Z; a harness's clock stands half an hour later."""
SCHEMA = importlib.resources.files("stoker.store") / "schema"
FILL = """
INSERT INTO workload_hour
SELECT :cluster_id, :hour_at, 'uid-' || w, n, 'job-' || w || '-x2k4b', 'job-' || w,
       CASE w % 4 WHEN 0 THEN 'Deployment' ELSE 'PyTorchJob' END, 'team-' || (w % 50), 'Running',
       :allocated, 8000, busy, 0, 10000, busy, busy, 1920, 42949672960, 64424509440, 85899345920, 1000, 1, 1,
       '{"project":"nlp","team":"research"}', '{"cost-center":"cc-001"}', :hour_at, :hour_at
FROM (
    SELECT w, w + CAST(:first AS BIGINT) AS n, ((w + CAST(:first AS BIGINT)) * 7919 % 10007) * 1000 / 1001 AS busy
    FROM numbers
) AS made
ORDER BY 3
"""
COUNT = """
INSERT INTO workload_hour_count
SELECT cluster_id, '', '', hour_at, COUNT(*)
FROM workload_hour
GROUP BY cluster_id, hour_at
UNION ALL
SELECT cluster_id, namespace, '', hour_at, COUNT(*)
FROM workload_hour
GROUP BY cluster_id, namespace, hour_at
"""
NUMBERS = """
INSERT INTO numbers
WITH RECURSIVE s(w) AS (SELECT 0 UNION ALL SELECT w + 1 FROM s WHERE w + 1 < :each)
SELECT w
FROM s
"""
Run = Callable[[str, dict[str, object]], object]


def pages() -> Iterator[str]:
    """page 1 of workloads/hourly-stats by utilization, with its exact total, through the API in this process"""
    yield from _pages_on("SQLite", "")
    with _postgres() as url:
        yield from _pages_on("PostgreSQL", url)


def _pages_on(name: str, database: str) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        Harness(Path(folder) / "data", database) as harness,
    ):
        local = harness.run(harness.installation.store.read(lambda tx: clusters.find(tx, "local")))
        assert local is not None
        begun = time.perf_counter()
        if database:
            _fill_postgres(database, local.id)
        else:
            _fill_sqlite(Path(folder) / "data" / "stoker.db", local.id)
        yield f"{name}: {ROWS:,} rows of {HOURS:,} hours built in {time.perf_counter() - begun:.0f} s"
        gc.collect()
        gc.freeze()  # as a server does once it is ready
        idle = _timed(harness, "/healthz")[1]
        yield f"  {'beside: a request that does nothing':<30} {_summary(idle)}"
        whole = {"start_time": format_rfc3339(HOUR - HOURS * HOUR_MS), "end_time": format_rfc3339(HOUR)}
        day = {**whole, "start_time": format_rfc3339(HOUR - 24 * HOUR_MS)}
        for label, query, limit in (
            ("whole range", whole, PAGE_LIMIT_MS),
            ("24 hours", day, PAGE_LIMIT_MS),
            ("one hour", {**whole, "start_time": format_rfc3339(HOUR - HOUR_MS)}, PAGE_LIMIT_MS),
            ("one namespace", {**whole, "namespace": "team-7"}, PAGE_LIMIT_MS),
            ("one namespace, 24 hours", {**day, "namespace": "team-7"}, PAGE_LIMIT_MS),
            ("one name", {**whole, "workload_name": "job-77"}, NAME_LIMIT_MS),
        ):
            for way in ("asc", "desc"):
                asked = httpx.QueryParams({**query, "order_by": "utilization", "order_direction": way})
                answer, times = _timed(harness, f"{PATH}?{asked}")
                found = answer.json()["data"]
                assert len(found["data"]) == 20, answer.text
                yield (
                    f"  {label + ', ' + way:<30} {_summary(times)}{judged(_p99(times), limit)}, "
                    f"total {found['total']:,}"
                )


def _timed(harness: Harness, path: str) -> tuple[httpx.Response, list[float]]:
    """The answer, and how many milliseconds it took each time but the first."""
    answer, times = harness.get(path), []
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        answer = harness.get(path)
        times.append(1000 * (time.perf_counter() - begun))
    return answer, times


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def _summary(times: list[float]) -> str:
    return f"median {statistics.median(times):6.2f} ms  p99 {_p99(times):6.2f} ms"


def _fill_sqlite(path: Path, cluster_id: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -500000")
    connection.execute("PRAGMA temp_store = FILE")

    def run(sql: str, params: dict[str, object]) -> object:
        return connection.execute(sql, params)

    connection.execute("BEGIN")
    _fill(run, cluster_id, _indexes("sqlite"))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _fill_postgres(url: str, cluster_id: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:

        def run(sql: str, params: dict[str, object]) -> object:
            return connection.execute(re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql.replace("%", "%%")).encode(), params)

        run("SET maintenance_work_mem = '512MB'", {})
        for number in range(HOURS):
            run("SELECT create_month_partitions(:at)", {"at": HOUR - number * HOUR_MS})
        _fill(run, cluster_id, _indexes("postgres"))
        run("VACUUM ANALYZE workload_hour", {})
        run("VACUUM ANALYZE workload_hour_count", {})


def _fill(run: Run, cluster_id: str, indexes: dict[str, str]) -> None:
    """Rows first, then the indexes: it is many times as fast."""
    each = ROWS // HOURS
    for name in indexes:
        run(f"DROP INDEX {name}", {})
    run("CREATE TEMPORARY TABLE numbers (w BIGINT)", {})
    run(NUMBERS, {"each": each})
    known = {"cluster_id": cluster_id, "allocated": 8 * GPU_HOUR}
    for number in range(HOURS):
        run(FILL, {**known, "hour_at": HOUR - (HOURS - 1 - number) * HOUR_MS, "first": number * each})
    run(COUNT, {})
    for statement in indexes.values():
        run(statement, {})


def _indexes(kind: str) -> dict[str, str]:
    """The indexes of the table, as the schema files define them."""
    found: dict[str, str] = {}
    for path in sorted((SCHEMA / kind).iterdir(), key=lambda path: path.name):
        text = path.read_text(encoding="utf-8")
        for statement in re.findall(r"^(?:CREATE|DROP) INDEX [^;]*workload_hour_[^;]*", text, re.MULTILINE):
            name = statement.split()[2]
            if statement.startswith("CREATE") and "ON workload_hour " in statement:
                found[name] = statement
            else:
                found.pop(name, None)
    return found


@contextlib.contextmanager
def _postgres() -> Generator[str]:
    server = PostgresServer(fsync=False)
    try:
        server.start()
        with server.database() as url:
            yield url
    finally:
        server.remove()


def close() -> Iterator[str]:
    """closing one hour of all GPUs at 15 s, everything read from the store and written to it"""
    for name, compacted in (("from segments", True), ("from ticks", False)):
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
            begun = time.perf_counter()
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                held = pool.apply(_prepare, (folder, compacted))
            built = time.perf_counter() - begun
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, busy, megabytes, rows = pool.apply(_close, (folder,))
            read = GPUS * HOUR_MS // TICK_MS
            yield f"{name}: {GPUS:,} GPUs, {held:,} workloads, {read / 1e6:.1f} M samples, built in {built:.0f} s"
            yield (
                f"  {rows:,} rows of workloads in {seconds:.2f} s{judged(seconds, CLOSE_LIMIT_SECONDS)}, "
                f"of which {busy:.2f} s on a processor"
            )
            yield f"  peak {megabytes:.0f} MB" + judged(megabytes, CLOSE_LIMIT_MB)


def _close(folder: str) -> tuple[float, float, float, int]:
    """Seconds by the clock and on a processor, the most memory, and how many workloads were written."""

    async def work() -> tuple[float, float, int]:
        store = open_store("", Path(folder), pool=1)
        begun, before = time.perf_counter(), time.process_time()
        closed = await Rollup(store, CLUSTER, ManualClock(HOUR + HOUR_MS + CLOSE_DELAY_MS), 1.0).catch_up()
        seconds, busy = time.perf_counter() - begun, time.process_time() - before
        assert closed == 1
        rows = await store.read(lambda tx: tx.fetch_all("SELECT COUNT(*), SUM(samples) FROM workload_hour"))
        await store.close()
        assert rows[0][1] == GPUS * HOUR_MS // TICK_MS
        return seconds, busy, rows[0][0]

    seconds, busy, rows = asyncio.run(work())
    return seconds, busy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows


def _prepare(folder: str, compacted: bool) -> int:
    """A fleet that is held as a whole: one pod on every node, most workloads of one pod, some of many."""
    nodes = [_node(number) for number in range(GPUS // NODE_GPUS)]
    size = np.random.default_rng(7).choice([1, 1, 1, 1, 2, 4, 8], len(nodes))
    owner = np.repeat(np.arange(len(nodes)), size)[: len(nodes)]

    async def work() -> None:
        store = open_store("", Path(folder), pool=1)
        await store.write(
            lambda tx: clusters.add(
                tx, Cluster(CLUSTER, "big", "simulated", "", HOUR, capabilities=SIMULATED_CAPABILITIES)
            )
        )
        for first in range(0, len(nodes), 500):
            some = nodes[first : first + 500]
            await store.write(lambda tx, some=some: record_nodes(tx, CLUSTER, some, HOUR))
        for number in np.unique(owner):
            mine = [nodes[place] for place in np.flatnonzero(owner == number)]
            await store.write(lambda tx, number=number, mine=mine: _hold(tx, int(number), mine))
        await _say(store, nodes, compacted=compacted)
        await store.close()

    asyncio.run(work())
    return len(np.unique(owner))


async def _say(store: Store, nodes: list[Node], *, compacted: bool) -> None:
    roster = build_device_index(nodes)
    ats = np.arange(HOUR, HOUR + HOUR_MS, TICK_MS, dtype=np.int64)
    columns = _columns(len(ats))
    body = encode(roster)
    number = await store.write(
        lambda tx: gpu_samples.get_or_add_device_index(tx, CLUSTER, body, roster.gpu_count, HOUR)
    )
    if compacted:
        packed = encode_hour(ats, columns)
        await store.write(lambda tx: gpu_samples.add_block(tx, CLUSTER, HOUR, number, packed, HOUR + HOUR_MS))
        return
    for tick, at in enumerate(ats.tolist()):
        stripes = encode_tick({metric: values[:, tick] for metric, values in columns.items()})
        await store.write(lambda tx, at=at, stripes=stripes: gpu_samples.add_tick(tx, CLUSTER, at, number, stripes))


def _columns(ticks: int) -> dict[GpuMetric, NDArray[np.float32]]:
    """Readings that wander, as real ones do."""
    dice = np.random.default_rng(11)
    level = dice.uniform(0.2, 0.95, (GPUS, 1)).astype(np.float32)
    noise = dice.normal(0, 0.03, (GPUS, ticks)).astype(np.float32)
    utilization = np.clip(level + noise, 0, 1)
    return {
        GpuMetric.UTILIZATION: utilization,
        GpuMetric.MEMORY_USED: np.float32(40 * 2**30) + utilization * np.float32(2**30),
        GpuMetric.POWER: 200 + 500 * utilization,
        GpuMetric.TEMPERATURE: 40 + 40 * utilization,
    }


def _node(number: int) -> Node:
    devices = tuple(Device(each, f"gpu-{number}-{each}", "MI300X", 192 * 2**30) for each in range(NODE_GPUS))
    return Node(f"node-{number:06d}", 192_000, 2**41, devices)


def _hold(transaction: Transaction, number: int, nodes: list[Node]) -> None:
    uid = f"{number:08d}-0000-7000-8000-000000000000"
    one = Resources(NODE_GPUS * 1000, 1000, 1)
    labels = {"team": f"team-{number % 50}", "project": f"project-{number % 200}"}
    job = Workload(
        uid=uid,
        slug=f"job-{number}-x2k4b",
        name=f"job-{number}",
        kind=Kind.PYTORCH_JOB,
        cluster_id=CLUSTER,
        workspace_id=1,
        namespace=f"team-{number % 50}",
        user_id="u1",
        user_name="ann",
        origin_api="safe",
        spec=Spec(resources=one, replicas=len(nodes), labels=labels, annotations={"cost-center": f"cc-{number % 20}"}),
        submitted_at=HOUR,
        phase_at=HOUR,
    )
    transitions.add(transaction, submit_transition(job))
    made = [
        Pod(
            uid=f"{uid}-{rank}",
            workload_uid=uid,
            name=f"{job.slug}-{rank}",
            attempt=1,
            revision=1,
            rank=rank,
            node=node.name,
            resources=one,
            devices=tuple(range(NODE_GPUS)),
            phase=PodPhase.RUNNING,
            created_at=HOUR,
            started_at=HOUR,
        )
        for rank, node in enumerate(nodes)
    ]
    pods.add(transaction, CLUSTER, made)
    allocations.allocate(
        transaction,
        CLUSTER,
        [
            Allocation(
                pod.uid, device, uid, pod.node, "MI300X", 1000, HOUR, f"gpu-{int(pod.node[5:])}-{device}", device
            )
            for pod in made
            for device in pod.devices
        ],
    )


BENCHES = [pages, close]
