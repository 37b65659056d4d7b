"""Docker clusters on a real dockerd: how soon a submitted workload runs, and what it costs to watch a busy host.

The start is measured beside `docker run -d` in turns, so the ratio holds on any machine. That container has the same
image, command and kind of network, but no volume, no limits and no init process, which Stoker's has.
"""

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from tests.api.harness import V1
from tests.engines.docker.daemon import IMAGE, DockerDaemon, running_daemon
from tests.engines.docker.server import WORKLOADS, Client, docker_cluster, serving

from bench.startup import judged
from stoker.domain.settings.schema import Settings

WARM_UP_ROUNDS = 3
ROUNDS = 21
POLL_SECONDS = 0.002
RATIO_LIMIT = 1.3
CONTAINERS = 100
SETTLE_SECONDS = 10.0
QUIET_SECONDS = 60.0
CPU_LIMIT_PERCENT = 1.0
NETWORK = "bench"
SCRIPT = "sleep 600"
SMALL = {"cpu": "10m", "memory": "16Mi", "replica": 1}


def start() -> Iterator[str]:
    """submit until Running through the API, beside `docker run -d` until it runs"""
    if reason := missing():
        yield reason
        return
    with running_daemon() as daemon:
        submitted, plain = asyncio.run(_start(daemon))
    ratio = statistics.median(submitted) / statistics.median(plain)
    yield f"submit -> Running  {shown(submitted)}"
    yield f"docker run -d      {shown(plain)}"
    yield f"ratio of the medians {ratio:.2f} x{judged(ratio, RATIO_LIMIT)}"


async def _start(daemon: DockerDaemon) -> tuple[list[float], list[float]]:
    submitted, plain = [], []
    daemon.docker("network", "create", NETWORK)
    async with docker_server(daemon) as client:
        for _ in range(WARM_UP_ROUNDS + ROUNDS):
            submitted.append(await submit_until_running(client))
            plain.append(await asyncio.to_thread(run_until_running, daemon))
    return submitted[WARM_UP_ROUNDS:], plain[WARM_UP_ROUNDS:]


async def submit_until_running(client: Client) -> float:
    """Seconds from the request until the API says Running; the workload is gone afterwards."""
    began = time.perf_counter()
    name = await client.submit(SCRIPT)
    await client.until(f"{WORKLOADS}/{name}", is_running, POLL_SECONDS)
    took = time.perf_counter() - began
    await client.ask("POST", f"{WORKLOADS}/{name}/stop")
    await client.until(f"{WORKLOADS}/{name}", lambda found: found["phase"] == "Stopped")
    return took


def run_until_running(daemon: DockerDaemon) -> float:
    """Seconds until Docker says that the container of its own command runs; it is gone afterwards."""
    docker = (daemon.programs / "docker", "-H", daemon.url)
    began = time.perf_counter()
    command = [*docker, "run", "-d", "--network", NETWORK, IMAGE, "/bin/sh", "-c", SCRIPT]
    container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with daemon.client() as client:
        while not client.get(f"/containers/{container}/json").json()["State"]["Running"]:
            time.sleep(POLL_SECONDS)
    took = time.perf_counter() - began
    daemon.docker("rm", "-f", container)
    return took


def watching_100_containers() -> Iterator[str]:
    """processor time of a server at rest whose Docker cluster runs a hundred containers"""
    if reason := missing():
        yield reason
        return
    with running_daemon() as daemon:
        empty, busy = asyncio.run(_watch(daemon))
    yield f"{CONTAINERS} containers: {busy:.2f} % of a core over {QUIET_SECONDS:g} s{judged(busy, CPU_LIMIT_PERCENT)}"
    yield f"no container:   {empty:.2f} % of a core, which is the server itself"


async def _watch(daemon: DockerDaemon) -> tuple[float, float]:
    async with docker_server(daemon) as client:
        empty = await cpu_percent_at_rest()
        names = [await client.submit(SCRIPT, resource=SMALL) for _ in range(CONTAINERS)]
        for name in names:
            await client.until(f"{WORKLOADS}/{name}", is_running, pause_seconds=0.5)
        busy = await cpu_percent_at_rest()
        running = len(await asyncio.to_thread(lambda: daemon.docker("ps", "-q").split()))
        if running != CONTAINERS:
            raise RuntimeError(f"{running} containers run instead of {CONTAINERS}")
    return empty, busy


async def cpu_percent_at_rest() -> float:
    """The processor time of this process, all threads, while nobody asks the server anything."""
    await asyncio.sleep(SETTLE_SECONDS)
    before = time.process_time()
    await asyncio.sleep(QUIET_SECONDS)
    return 100 * (time.process_time() - before) / QUIET_SECONDS


@contextlib.asynccontextmanager
async def docker_server(daemon: DockerDaemon) -> AsyncGenerator[Client]:
    """A server with the daemon as its cluster, and a workspace on it."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        settings = Settings(data_dir=str(Path(folder) / "data"), gpus=0)
        async with serving(settings) as client:
            added = docker_cluster(daemon)
            await client.ask("POST", f"{V1}/clusters", added)
            await client.until(f"{V1}/clusters/{added['name']}", lambda cluster: cluster["nodes"] == 1)
            await client.ask("POST", f"{V1}/workspaces", {"name": "vision", "cluster": added["name"]})
            yield client


def missing() -> str:
    """Why there can be no dockerd here; empty if there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "not measured: a dockerd in namespaces of its own needs Linux and root"
    return ""


def is_running(found: dict[str, object]) -> bool:
    return found["phase"] == "Running"


def shown(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"median {statistics.median(ordered) * 1000:.0f} ms of {len(ordered)} (worst {ordered[-1] * 1000:.0f} ms)"


BENCHES = (start, watching_100_containers)
