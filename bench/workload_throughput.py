"""Whole lives through the API of a server with a simulated cluster: submitted, placed, running, completed, all durable.

`LIVES_SECONDS` says for how long (60), `LIVES_GPUS` how many GPUs the fleet has (1024).
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator

import psutil

from bench.workloads import WORKLOADS, Connection, Server, body, served

SECONDS = float(os.environ.get("LIVES_SECONDS", "60"))
GPUS = os.environ.get("LIVES_GPUS", "1024")
CLIENTS = 64
AHEAD = 4_000
"""So many may be under way at once: clients wait when the server falls behind."""
TARGET = 1_000
TIMEOUT_SECONDS = 120.0
TEAM = "lives"
RUNS = {"stoker.simulate/seconds": "0.2"}
"""Long enough to be seen running."""


def lives() -> Iterator[str]:
    """whole lives a second through the API, and what limits them"""
    with served("--demo", "true", "--demo-gpus", GPUS, "--demo-days", "0") as server:
        yield from asyncio.run(_lives(server))


async def _lives(server: Server) -> list[str]:
    watch = Connection(server)
    await watch.ask("POST", "/api/stoker/v1/workspaces", json.dumps({"name": TEAM, "cluster": "demo"}).encode())
    clients = ClientPool(server, watch)
    before, began = Used(server.pid), time.monotonic()
    await clients.work(began + SECONDS)
    taken, after = time.monotonic() - began, Used(server.pid)
    under_way, speed = clients.submitted - clients.completed, clients.completed / taken
    drained = await clients.drain()
    return [
        f"{speed:.0f} lives a second over {taken:.0f} s ({'kept' if speed >= TARGET else 'BROKEN'}: {TARGET} wanted)",
        f"{clients.submitted} submitted, {under_way} under way at the end; they were over {drained:.1f} s later",
        f"server: {after.since(before, taken)}; {after.each(before, clients.submitted)}; {server.megabytes:.0f} MB",
    ]


class ClientPool:
    """Clients that submit as fast as they are answered, as long as the server keeps up."""

    def __init__(self, server: Server, watch: Connection) -> None:
        self.submitted = self.completed = 0
        self._watch = watch
        self._clients = [Connection(server) for _ in range(CLIENTS)]
        self._body = body("true", workspaceId=TEAM, annotations=RUNS, ttlSecondsAfterFinished=5)

    async def work(self, until: float) -> None:
        await asyncio.gather(self._follow(until), *(self._submit(each, until) for each in self._clients))
        await self._count()

    async def drain(self) -> float:
        """Seconds until all that were submitted are over."""
        began = time.monotonic()
        while self.completed < self.submitted:
            if time.monotonic() > began + TIMEOUT_SECONDS:
                raise RuntimeError(f"{self.submitted - self.completed} lives have not ended")
            await asyncio.sleep(0.1)
            await self._count()
        for connection in (*self._clients, self._watch):
            connection.close()
        return time.monotonic() - began

    async def _submit(self, connection: Connection, until: float) -> None:
        while time.monotonic() < until:
            if self.submitted - self.completed > AHEAD:
                await asyncio.sleep(0.01)
                continue
            await connection.ask("POST", WORKLOADS, self._body)
            self.submitted += 1

    async def _follow(self, until: float) -> None:
        while time.monotonic() < until:
            await asyncio.sleep(1)
            await self._count()

    async def _count(self) -> None:
        path = f"{WORKLOADS}?workspaceId={TEAM}&phase=Succeeded&limit=1"
        self.completed = (await self._watch.ask("GET", path))["totalCount"]


class Used:
    """The processor time that a server has used, by thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._threads = {each.id: each.user_time + each.system_time for each in psutil.Process(pid).threads()}

    def since(self, before: "Used", seconds: float) -> str:
        """Of one core: in all, on the event loop, and in the busiest other thread, which is the writer."""
        shares = (f"{100 * each / seconds:.0f} %" for each in self._parts(before))
        return "{} of a core in all, {} on the event loop, {} in the writer".format(*shares)

    def each(self, before: "Used", lives: int) -> str:
        """And what follows: statements and decisions are made in one interpreter, which is one core."""
        every, _, _ = self._parts(before)
        taken = every / max(1, lives)
        return f"{1000 * taken:.2f} ms of a core for each life, so one interpreter is full at {1 / taken:.0f} a second"

    def _parts(self, before: "Used") -> tuple[float, float, float]:
        used = {thread: total - before._threads.get(thread, 0.0) for thread, total in self._threads.items()}
        main = used.pop(self._pid, 0.0)
        return main + sum(used.values()), main, max(used.values(), default=0.0)


BENCHES = [lives]
