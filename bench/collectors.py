"""What readings cost: a thousand pods of this machine, a large fleet in Prometheus' words, and a scrape of it."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator

import msgspec

from stoker.api.fleet_metrics import render_workloads
from stoker.domain.access.identity import Cluster
from stoker.domain.clock import SystemClock
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.live_view import GpuConsumer
from stoker.telemetry.collectors.proc import ProcessTreeMeter
from stoker.telemetry.collectors.prometheus import PrometheusCollector
from stoker.telemetry.prometheus.client import PrometheusClient, SeriesResult, decode_response
from stoker.telemetry.prometheus.exporter_schemas import ExporterSchema

PODS = 1000
NODES, GPUS = 12_500, 8
WORKLOADS = 10_000


def pods() -> Iterator[str]:
    """what 1,000 pods of two processes take, in one look at all processes"""
    children = [_idle() for _ in range(PODS)]
    try:
        meter, roots = ProcessTreeMeter(), {str(pid): pid for pid in children}
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

    class Answers(PrometheusClient):
        async def query(self, query: str, at: int | None = None) -> list[SeriesResult]:
            return decode_response(body).data.result

    nodes = [f"node-{node:05d}" for node in range(NODES)]
    source = PrometheusCollector(Answers("http://bench"), ExporterSchema(), lambda: nodes, SystemClock())
    asyncio.run(source.collect())
    yield f"{_milliseconds(lambda: decode_response(body)):.0f} ms to decode one answer of {len(body) / 1e6:.1f} MB"
    yield f"{_milliseconds(lambda: asyncio.run(source.collect())):.0f} ms for eight quantities, beside the event loop"


def scrape() -> Iterator[str]:
    """the lines of 10,000 workloads, made once for each time they are published"""
    cluster = Cluster("c", "demo", "simulated", "", 0, capabilities=SIMULATED_CAPABILITIES)
    consumers = [
        (cluster, GpuConsumer(f"u{place}", f"train-{place}", "train", "Job", "research", 8000, 0.5, 0.5, 300.0, None))
        for place in range(WORKLOADS)
    ]
    megabytes = len(render_workloads(consumers)) / 1e6
    yield f"{_milliseconds(lambda: render_workloads(consumers)):.0f} ms, {megabytes:.1f} MB"


def _milliseconds(work: Callable[[], object]) -> float:
    """The least processor time of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best * 1000


BENCHES = (pods, prometheus, scrape)
