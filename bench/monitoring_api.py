"""The nine operations of the monitoring API, each beside a bare answer of the same size from the same server.

The machine is shared, so what counts is the ratio: both are asked in turns over the same connections.
"""

import asyncio
import contextlib
import itertools
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.runai import COUNT
from bench.startup import judged
from bench.workloads import Connection, Server

CLIENTS = 8
TURN_SECONDS = 0.5
TURNS = 6
CALM_SHARE = 0.2
"""Of a core, over `LOOK_SECONDS`: then the server has closed the hours of its history, and does what it always does."""
LOOK_SECONDS = 16.0
SETTLE_SECONDS = 400.0
SMALL = ("--demo", "--demo-days", "5")
LARGE = ("--demo", "--demo-days", "1", "--demo-gpus", "100000")
LARGE_WORKLOADS = 100_000
SEVERAL = 16
RENAMED = """
UPDATE over
SET uid = SUBSTR(uid, 1, 24) || PRINTF('%03d%09d', :copy, rowid),
    slug = SUBSTR(slug, 1, 40) || '-' || :copy || '-' || rowid
"""
LEAST = {"overview": 0.3, "consumers": 0.3, "gpuHeatmap": 0.3, "workloadMetadata": 0.3}
LEAST |= {"workloads": 0.25, "detail": 0.25, "hierarchy": 0.25}
MAX_MS = {"metrics": 30.0, "trainingPerformance": 30.0, "metrics, closed hours": 100.0}


class BareServer(Server):
    """The server of `bench.baseline_server`."""

    COMMAND = (sys.executable, "-m", "bench.baseline_server")


def small() -> Iterator[str]:
    """throughput against a bare answer of the same size, and p99, on a simulated cluster of about 1,024 GPUs"""
    yield from _measured(SMALL)


def large() -> Iterator[str]:
    """the same on 100,000 GPUs and with 100,000 workloads"""
    yield from _measured(LARGE, LARGE_WORKLOADS)


def _measured(options: tuple[str, ...], workloads: int = 0) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        if workloads:
            with contextlib.closing(BareServer(Path(folder), *options)) as server:
                yield _settled(server)
            there = _crowded(server.data_dir / "stoker.db", workloads)
            yield f"{there:,} workloads; those that have ended are there several times"
        with contextlib.closing(BareServer(Path(folder), *options)) as server:
            yield _settled(server)
            yield from asyncio.run(_all(server))
            yield f"memory of the server: {server.megabytes:.0f} MB"


def _crowded(path: Path, wanted: int) -> int:
    """Write workloads that have ended down again, under other names, until there are so many."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TEMPORARY TABLE over AS SELECT * FROM workload WHERE ended_at IS NOT NULL")
        there = connection.execute("SELECT COUNT(*) FROM workload").fetchone()[0]
        for number in itertools.count(100):
            if there >= wanted:
                break
            connection.execute(RENAMED, {"copy": number})
            there += connection.execute("INSERT INTO workload SELECT * FROM over").rowcount
        connection.execute("DELETE FROM workload_count")
        connection.execute(COUNT)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return there


def _settled(server: Server) -> str:
    """Wait until its history is told, so that what is measured is what a user meets all day."""
    began, process = time.monotonic(), psutil.Process(server.pid)
    process.cpu_percent()
    share = 1.0
    while share > CALM_SHARE and time.monotonic() < began + SETTLE_SECONDS:
        time.sleep(LOOK_SECONDS)
        share = process.cpu_percent() / 100
    calm = "calm" if share <= CALM_SHARE else "NOT calm"
    return f"{calm} after {time.monotonic() - began:.0f} s: {100 * share:.0f} % of a core"


async def _all(server: Server) -> list[str]:
    lines = []
    connections = [Connection(server) for _ in range(CLIENTS)]
    try:
        for name, path in (await _paths(connections[0])).items():
            size = len(await connections[0].raw("GET", path))
            rates, bares, waits = [], [], []
            for _ in range(TURNS):
                rate, took = await _turn(connections, path)
                rates.append(rate)
                waits += took
                bares.append((await _turn(connections, f"/api/workloads/bare/{size}"))[0])
            lines.append(_line(name, size, statistics.median(rates), statistics.median(bares), waits))
    finally:
        for connection in connections:
            connection.close()
    return lines


async def _paths(connection: Connection) -> dict[str, str]:
    """Every operation, aimed at a workload that trains, on as many GPUs in a small fleet as in a large one."""
    path, consumers = "/api/clusters/consumers?pageSize=1000&pageNum=", []
    for page in itertools.count(1):
        found = (await connection.ask("GET", f"{path}{page}"))["data"]["data"]
        consumers += found
        if not found or found[-1]["stat"]["gpuRequest"] <= SEVERAL:
            break
    now = int(time.time())
    lately = f"start={(now - 600) * 1000}&end={now * 1000}"
    for each in sorted(consumers, key=lambda each: abs(each["stat"]["gpuRequest"] - SEVERAL)):
        uid = each["uid"]
        if (await connection.ask("GET", f"/api/workloads/{uid}/trainingPerformance?{lately}"))["data"]:
            break
    gang = consumers[0]["uid"]
    open_hour = now // 3600 * 3600
    this_hour = f"start={open_hour}&end={max(now, open_hour + 60)}&step=60"
    return {
        "overview": "/api/clusters/overview",
        "consumers": "/api/clusters/consumers",
        "gpuHeatmap": "/api/clusters/gpuHeatmap",
        "workloadMetadata": "/api/workloadMetadata",
        "workloads": "/api/workloads",
        "detail": f"/api/workloads/{uid}",
        "hierarchy": f"/api/workloads/{uid}/hierarchy",
        "metrics": f"/api/workloads/{uid}/metrics?{this_hour}",
        "metrics, closed hours": f"/api/workloads/{uid}/metrics?start={open_hour - 7200}&end={open_hour}&step=60",
        "metrics of the largest": f"/api/workloads/{gang}/metrics?{this_hour}",
        "trainingPerformance": f"/api/workloads/{uid}/trainingPerformance?{lately}",
    }


async def _turn(connections: list[Connection], path: str) -> tuple[float, list[float]]:
    """Answers a second, and how long each took."""
    took: list[float] = []
    end = time.perf_counter() + TURN_SECONDS

    async def ask(connection: Connection) -> None:
        while (began := time.perf_counter()) < end:
            await connection.raw("GET", path)
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(ask(connection) for connection in connections))
    return len(took) / (time.perf_counter() - began), took


def _line(name: str, size: int, rate: float, bare: float, waits: list[float]) -> str:
    p99 = statistics.quantiles(waits, n=100)[98] * 1000 if len(waits) > 1 else waits[0] * 1000
    ratio = rate / bare
    text = f"{name}: {rate:.0f}/s, {ratio:.2f} of a bare answer of {size} bytes ({bare:.0f}/s), p99 {p99:.1f} ms"
    if name in LEAST:
        return f"{text} (at least {LEAST[name]:g}: {'kept' if ratio >= LEAST[name] else 'BROKEN'})"
    return text + (judged(p99, MAX_MS[name]) if name in MAX_MS else "")


BENCHES = (small, large)
