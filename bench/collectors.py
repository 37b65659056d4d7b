"""What readings cost: a thousand pods of this machine, a large fleet in Prometheus' words, and a scrape of it."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator

import msgspec

from stoker.api.fleet_metrics import workload_text
from stoker.domain.clock import SystemClock
from stoker.domain.identity import SIMULATED, Cluster
from stoker.domain.live import Consumer
from stoker.telemetry.exporters import Names
from stoker.telemetry.processes import Meter
from stoker.telemetry.prometheus import Found, Prometheus, decode
from stoker.telemetry.prometheus_readings import PrometheusSource

PODS = 1000
NODES, GPUS = 12_500, 8
WORKLOADS = 10_000


def pods() -> Iterator[str]:
    """what 1,000 pods of two processes take, in one look at all processes"""
    children = [_idle() for _ in range(PODS)]
    try:
        meter, roots = Meter(), {str(pid): pid for pid in children}
        while len(found := meter.read(roots)) < PODS or not all(use.memory_bytes for use in found):
            time.sleep(0.01)
        yield f"{_milliseconds(lambda: meter.read(roots)):.0f} ms of processor time for {PODS} pods"
    finally:
        for pid in children:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _idle() -> int:
    """A process with a child, in a group of their own."""
    if pid := os.fork():
        return pid
    os.setpgid(0, 0)
    os.fork()
    while True:
        signal.pause()


def prometheus() -> Iterator[str]:
    """readings of 100,000 GPUs out of the answers of Prometheus"""
    series = [
        {"metric": {"Hostname": f"node-{node:05d}", "gpu": str(gpu)}, "value": [1_700_000_000.123, "55"]}
        for node in range(NODES)
        for gpu in range(GPUS)
    ]
    body = msgspec.json.encode({"status": "success", "data": {"resultType": "vector", "result": series}})

    class Answers(Prometheus):
        async def at(self, query: str, at: int | None = None) -> list[Found]:
            return decode(body).data.result

    nodes = [f"node-{node:05d}" for node in range(NODES)]
    source = PrometheusSource(Answers("http://bench"), Names(), lambda: nodes, SystemClock())
    asyncio.run(source.readings())
    yield f"{_milliseconds(lambda: decode(body)):.0f} ms to decode one answer of {len(body) / 1e6:.1f} MB"
    yield f"{_milliseconds(lambda: asyncio.run(source.readings())):.0f} ms for eight quantities, beside the event loop"


def scrape() -> Iterator[str]:
    """the lines of 10,000 workloads, made once for each time they are published"""
    cluster = Cluster("c", "demo", SIMULATED, "", 0)
    consumers = [
        (cluster, Consumer(f"u{place}", f"train-{place}", "train", "Job", "research", 8000, 0.5, 0.5, 300.0, None))
        for place in range(WORKLOADS)
    ]
    yield f"{_milliseconds(lambda: workload_text(consumers)):.0f} ms, {len(workload_text(consumers)) / 1e6:.1f} MB"


def _milliseconds(work: Callable[[], object]) -> float:
    """The least processor time of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best * 1000


BENCHES = (pods, prometheus, scrape)
