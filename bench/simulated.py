"""How fast the simulated world is made: readings of a large fleet, pods that begin and end, and a month of past."""

import asyncio
import secrets
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from stoker.domain.clock import SystemClock
from stoker.domain.resources import Resources
from stoker.domain.settings import Settings
from stoker.domain.workload import Kind
from stoker.engines.base import Order, PodOrder
from stoker.engines.simulated import SimulatedEngine, fleet_of
from stoker.server.demo.open import open_demo
from stoker.store import open_store

LARGE = 100_000
PODS = 10_000
ROUNDS = 10


def order(node: str, gpus: int, seconds: float) -> Order:
    uid = str(uuid.uuid4())
    pod = PodOrder(str(uuid.uuid4()), f"job-{uid[:8]}-0", 0, node, tuple(range(gpus)), {})
    return Order(
        workload_uid=uid,
        slug=f"job-{uid[:8]}",
        namespace="bench",
        kind=Kind.JOB,
        attempt=1,
        revision=1,
        image="",
        entry_point="",
        resources=Resources(gpus * 1000, 8000, 2**34),
        pods=(pod,),
        annotations={"stoker.simulate/seconds": str(seconds)},
    )


def readings() -> Iterator[str]:
    """Readings of 100,000 GPUs that are nearly all held."""

    async def main() -> tuple[int, float]:
        with tempfile.TemporaryDirectory() as folder:
            engine = await SimulatedEngine.open(Path(folder), groups=fleet_of(LARGE))
            for name in engine.machines.names[:PODS]:
                await engine.apply(order(name, 8, 3600))
            took = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await engine.readings()
                took.append(time.perf_counter() - began)
            await engine.close()
            return engine.machines.gpus, sorted(took)[ROUNDS // 2]

    gpus, took = asyncio.run(main())
    yield f"{gpus:,} GPUs, {PODS:,} pods: {took * 1000:.0f} ms"


def pods() -> Iterator[str]:
    """Pods that are ordered, begin, end and are forgotten, with an observer."""

    async def main() -> tuple[float, int]:
        with tempfile.TemporaryDirectory() as folder:
            engine = await SimulatedEngine.open(Path(folder))
            left, reports = set[str](), 0
            began = time.perf_counter()

            async def watch() -> None:
                nonlocal reports
                async for report in engine.observe():
                    reports += 1
                    for pod in report.pods:
                        if pod.phase.ended:
                            left.discard(pod.workload_uid)
                            await engine.forget(pod.workload_uid, 1)
                    if reports > 1 and not left:
                        return

            for _ in range(PODS):
                made = order("gpu-node-1", 1, 0.05)
                left.add(made.workload_uid)
                await engine.apply(made)
            await watch()
            took = time.perf_counter() - began
            await engine.close()
            return took, reports

    took, reports = asyncio.run(main())
    yield f"{PODS / took:,.0f} lives a second, in {reports} reports"


def past() -> Iterator[str]:
    """Thirty days of past of 1,024 GPUs in a new SQLite."""

    async def main() -> float:
        with tempfile.TemporaryDirectory() as folder:
            store = open_store("", Path(folder), 4)
            began = time.perf_counter()
            settings = Settings(data_dir=folder, demo=True)
            demo = await open_demo(store, settings, Path(folder), SystemClock(), secrets.token_bytes)
            took = time.perf_counter() - began
            await demo.engine.close()
            await store.close()
            return took

    yield f"{asyncio.run(main()):.1f} s"


BENCHES = (readings, pods, past)
