"""A server that has run many jobs and commands holds no more than it did after the first few."""

from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.integration.live_server import WORKLOADS, LiveClient, LiveServer, until
from websockets.sync.client import connect

FEW_RUNS, MANY_RUNS = 5, 60
READERS = 4
LATE_THREADS = 8
"""Connections to the database, with two files each, and threads that may come late."""


def run_jobs(client: LiveClient, count: int) -> None:
    names = [client.create("echo hi > /tmp/file; echo hi", ttlSecondsAfterFinished=0) for _ in range(count)]
    for name in names:
        client.end(name)
        client.send("DELETE", f"{WORKLOADS}/{name}")


def run_commands(server: LiveServer, name: str, count: int) -> None:
    """Commands with and without a terminal; some clients leave before the end."""
    signed = {"Authorization": f"Bearer {(server.data_dir / 'admin.key').read_text().strip()}"}
    address = server.address.replace("http", "ws") + f"/api/stoker/v1/workloads/{name}/exec"
    for number in range(count):
        seconds = 600 if number % 3 == 0 else 0
        command = f"command=sh&command=-c&command=echo+hello;sleep+{seconds}&tty={str(number % 2 == 0).lower()}"
        with connect(f"{address}?{command}", additional_headers=signed) as terminal:
            terminal.recv()
            if not seconds:
                assert list(terminal)[-1] == '{"exit":0}'


def follow(server: LiveServer, client: LiveClient, name: str, count: int) -> None:
    """Read the beginning of a log that goes on, and leave."""
    for _ in range(count):
        path = f"{server.address}{WORKLOADS}/{name}/pods/{name}-0/logs?follow=true"
        with client._http.stream("GET", path) as answer:
            next(answer.iter_bytes())


def held(server: LiveServer) -> Counter[str]:
    """What the server has open, and what of its pods is left."""
    process = psutil.Process(server.pid)
    local = server.data_dir / "local"
    folders = {name: len(list((local / name).iterdir())) for name in ("pods", "work", "gone", "services")}
    dead = [child for child in process.children() if child.status() == psutil.STATUS_ZOMBIE]
    return Counter(files=process.num_fds(), threads=process.num_threads(), dead=len(dead), **folders)


@pytest.mark.slow
def test_many_jobs_and_commands_leave_nothing_open(tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data") as server:
        client = server.start().client()
        name = client.create("echo up; sleep 6000")
        client.until(name, lambda found: found["phase"] == "Running")

        def use(count: int) -> None:
            run_jobs(client, count)
            run_commands(server, name, count)
            follow(server, client, name, count)

        use(FEW_RUNS)
        first = until(lambda: held(server), lambda now: now["pods"] == now["work"] == 1)
        use(MANY_RUNS)
        allowed = first + Counter(files=2 * READERS + 2, threads=READERS + LATE_THREADS)
        last = until(lambda: held(server), lambda now: now <= allowed)
        assert last <= allowed, (first, last)
        client.send("DELETE", f"{WORKLOADS}/{name}")
        client.close()
        assert server.stop() == 0
