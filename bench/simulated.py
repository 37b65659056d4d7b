"""How fast the simulated world is made: readings of a large fleet, pods that begin and end, and a month of past."""

import asyncio
import secrets
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from stoker.concurrency.supervisor import Supervisor
from stoker.demo.setup import open_demo
from stoker.domain.clock import SystemClock
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.settings.schema import Settings
from stoker.domain.workload.spec import Kind
from stoker.engines.model import ContainerSpec, LaunchSpec, PodAssignment, WorkloadRef
from stoker.engines.simulated import SimulatedEngine, build_machine_groups
from stoker.store import open_store

LARGE = 100_000
PODS = 10_000
ROUNDS = 10


def order(node: str, gpus: int, seconds: float) -> LaunchSpec:
    uid = str(uuid.uuid4())
    pod = PodAssignment(str(uuid.uuid4()), f"job-{uid[:8]}-0", 0, node, tuple(map(DeviceRef, range(gpus))), {})
    return LaunchSpec(
        ref=WorkloadRef(uid=uid, slug=f"job-{uid[:8]}", namespace="bench"),
        kind=Kind.JOB,
        containers=(ContainerSpec(resources=Resources(gpus * 1000, 8000, 2**34)),),
        pods=(pod,),
        annotations={"stoker.simulate/seconds": str(seconds)},
    )


def readings() -> Iterator[str]:
    """Readings of 100,000 GPUs that are nearly all held."""

    async def main() -> tuple[int, float]:
        with tempfile.TemporaryDirectory() as folder:
            engine = await SimulatedEngine.open(
                Path(folder), groups=build_machine_groups(LARGE), supervisor=Supervisor(SystemClock())
            )
            for name in engine.fleet.names[:PODS]:
                await engine.apply(order(name, 8, 3600))
            took = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await engine.collect()
                took.append(time.perf_counter() - began)
            await engine.close()
            return engine.fleet.gpu_count, sorted(took)[ROUNDS // 2]

    gpus, took = asyncio.run(main())
    yield f"{gpus:,} GPUs, {PODS:,} pods: {took * 1000:.0f} ms"


def pods() -> Iterator[str]:
    """Pods that are ordered, begin, end and are forgotten, with an observer."""

    async def main() -> tuple[float, int]:
        with tempfile.TemporaryDirectory() as folder:
            engine = await SimulatedEngine.open(Path(folder), supervisor=Supervisor(SystemClock()))
            left, reports = set[str](), 0
            began = time.perf_counter()

            async def watch() -> None:
                nonlocal reports
                async for report in engine.watch():
                    reports += 1
                    for pod in report.pods:
                        if pod.phase.is_finished:
                            left.discard(pod.workload_uid)
                            await engine.release(WorkloadRef(uid=pod.workload_uid))
                    if reports > 1 and not left:
                        return

            for _ in range(PODS):
                made = order("gpu-node-1", 1, 0.05)
                left.add(made.ref.uid)
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
