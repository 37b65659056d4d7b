"""Whole lives through the API of a server on the simulated engine: submitted, placed, running, completed, all durable.

`LIVES_SECONDS` says for how long (60), `LIVES_GPUS` how many GPUs the fleet has (1024). `LIVES_PROFILE=FILE` has the
server write a profile of its event loop.
"""

import asyncio
import contextlib
import cProfile
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.workloads import WORKLOADS, Connection, Server, body, counted
from stoker.domain.identity import Cluster
from stoker.engines.base import Engine
from stoker.engines.simulated import SimulatedEngine, fleet_of
from stoker.server.fleet import LOCAL, Fleet
from stoker.store import clusters

SECONDS = float(os.environ.get("LIVES_SECONDS", "60"))
GPUS = int(os.environ.get("LIVES_GPUS", "1024"))
CLIENTS = 64
AHEAD = 4_000
"""So many may be under way at once: clients wait when the server falls behind."""
TARGET = 1_000
AT_ONCE = {"stoker.simulate/seconds": "0"}


def lives() -> Iterator[str]:
    """whole lives a second through the API, and what limits them"""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        with contextlib.closing(Server(folder, (sys.executable, "-m", "bench.lives"))) as server:
            yield from asyncio.run(_lives(server))
    finally:
        shutil.rmtree(folder)


async def _lives(server: Server) -> list[str]:
    connections = [Connection(server) for _ in range(CLIENTS)]
    watch = Connection(server)
    content = body("true", annotations=AT_ONCE, ttlSecondsAfterFinished=5)
    until = time.monotonic() + SECONDS
    submitted = completed = 0

    async def submit(connection: Connection) -> None:
        nonlocal submitted
        while time.monotonic() < until:
            if submitted - completed > AHEAD:
                await asyncio.sleep(0.01)
                continue
            await connection.ask("POST", WORKLOADS, content)
            submitted += 1

    async def follow() -> None:
        nonlocal completed
        while time.monotonic() < until:
            await asyncio.sleep(1)
            completed = (await watch.ask("GET", f"{WORKLOADS}?phase=Succeeded&limit=1"))["totalCount"]

    before, began = Used(server.pid), time.monotonic()
    await asyncio.gather(follow(), *(submit(each) for each in connections))
    taken, after = time.monotonic() - began, Used(server.pid)
    completed = (await watch.ask("GET", f"{WORKLOADS}?phase=Succeeded&limit=1"))["totalCount"]
    await counted(watch, "Succeeded", submitted)
    drained = time.monotonic() - began - taken
    for connection in (*connections, watch):
        connection.close()
    speed = completed / taken
    return [
        f"{speed:.0f} lives a second over {taken:.0f} s ({'kept' if speed >= TARGET else 'BROKEN'}: {TARGET} wanted)",
        f"{submitted} submitted, {submitted - completed} under way at the end; they were over {drained:.1f} s later",
        f"server: {after.since(before, taken)}; {server.megabytes:.0f} MB",
    ]


class Used:
    """The processor time that a server has used, by thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._threads = {each.id: each.user_time + each.system_time for each in psutil.Process(pid).threads()}

    def since(self, before: "Used", seconds: float) -> str:
        """Of one core, in all, on the event loop and in the busiest other thread, which is the writer."""
        used = {thread: total - before._threads.get(thread, 0.0) for thread, total in self._threads.items()}
        main = used.pop(self._pid, 0.0)
        writer = max(used.values(), default=0.0)
        every = main + sum(used.values())
        shares = (f"{100 * each / seconds:.0f} %" for each in (every, main, writer))
        return "{} of a core in all, {} on the event loop, {} in the writer".format(*shares)


def serve() -> None:
    """A server whose only cluster is simulated."""

    async def opened(fleet: Fleet, data_dir: Path) -> list[tuple[Cluster, Engine]]:
        local = await fleet._store.peek(lambda tx: clusters.find(tx, LOCAL))
        assert local is not None
        engine = await SimulatedEngine.open(data_dir / "simulated", groups=fleet_of(GPUS), fault_days=1e9)
        return [(local, engine)]

    Fleet._opened = opened
    from stoker.cli.main import main

    if place := os.environ.get("LIVES_PROFILE"):
        profile = cProfile.Profile()
        with contextlib.suppress(SystemExit):
            profile.runcall(main)
        profile.dump_stats(place)
    else:
        main()


BENCHES = [lives]

if __name__ == "__main__":
    serve()
