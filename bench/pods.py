"""Pods of the local engine: how long one takes to start, to end and to stop, and what a thousand of them cost."""

import asyncio
import contextlib
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from stoker.domain.workload.spec import Kind
from stoker.engines.local import LocalEngine
from stoker.engines.model import ContainerSpec, LaunchSpec, LogRef, ObservedPod, PodAssignment, WorkloadRef

ROUNDS = 20
CROWD = 1000
QUIET_SECONDS = 5.0


def order(script: str, replicas: int) -> LaunchSpec:
    pods = tuple(PodAssignment(str(uuid.uuid4()), f"bench-{rank}", rank, "bench", (), {}) for rank in range(replicas))
    ref = WorkloadRef(uid=str(uuid.uuid4()), slug="bench", namespace="bench")
    return LaunchSpec(
        ref=ref, kind=Kind.JOB, replicas=replicas, containers=(ContainerSpec(entry_point=script),), pods=pods
    )


@contextlib.asynccontextmanager
async def engine(data_dir: Path) -> AsyncGenerator[tuple[LocalEngine, dict[str, ObservedPod]]]:
    """An engine and what it reports."""
    opened = await LocalEngine.open(data_dir)
    seen: dict[str, ObservedPod] = {}

    async def observe() -> None:
        async for report in opened.watch():
            seen.update((pod.uid, pod) for pod in report.pods)

    observer = asyncio.create_task(observe())
    try:
        yield opened, seen
    finally:
        await opened.close()
        await observer


async def until_ended(seen: dict[str, ObservedPod], wanted: LaunchSpec) -> None:
    while not all(pod.uid in seen and seen[pod.uid].phase.is_finished for pod in wanted.pods):
        await asyncio.sleep(0.001)


def one() -> Iterator[str]:
    """one pod: start, end that is noticed, stop"""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        yield from asyncio.run(_one(Path(name)))


async def _one(data_dir: Path) -> list[str]:
    starts, ends, stops = [], [], []
    async with engine(data_dir) as (local, seen):
        for _ in range(ROUNDS):
            wanted = order("sleep 0.1; date +%s%N", 1)
            began = time.perf_counter()
            await local.apply(wanted)
            starts.append(time.perf_counter() - began)
            await until_ended(seen, wanted)
            [line] = await local.read_logs(LogRef(wanted.pods[0].uid), 0, 1)
            ends.append(time.time() - int(line.text) / 1e9)
            wanted = order("sleep 600", 1)
            await local.apply(wanted)
            await asyncio.sleep(0.05)
            began = time.perf_counter()
            await local.terminate(wanted.ref, grace_seconds=30.0)
            await until_ended(seen, wanted)
            stops.append(time.perf_counter() - began)
    return [
        f"start {shown(starts)}, until the command is about to run",
        f"end   {shown(ends)}, from the command's last act until it is reported",
        f"stop  {shown(stops)}, from the call until the end is reported",
    ]


def thousand() -> Iterator[str]:
    """a thousand pods at once: rate, memory, idle, adoption, stop"""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        yield from asyncio.run(_thousand(Path(name)))


async def _thousand(data_dir: Path) -> list[str]:
    wanted = order("sleep 600", CROWD)
    lines = []
    async with engine(data_dir) as (local, seen):
        began = time.perf_counter()
        await local.apply(wanted)
        took = time.perf_counter() - began
        lines.append(f"{CROWD} pods started in {took:.1f} s: {CROWD / took:.0f} a second")
        shims = [int((data_dir / "local" / "pods" / pod.uid / "lock").read_text()) for pod in wanted.pods]
        lines.append(f"memory of a shim: {memory(shims)}")
        lines.append(f"idle for {QUIET_SECONDS:g} s: {await idle(shims)}")
    began = time.perf_counter()
    async with engine(data_dir) as (local, seen):
        took = time.perf_counter() - began
        await asyncio.sleep(0)
        alive = sum(pod.ready for pod in seen.values())
        lines.append(f"adopted {alive} again in {took * 1000:.0f} ms")
        began = time.perf_counter()
        await local.terminate(wanted.ref, grace_seconds=30.0)
        await until_ended(seen, wanted)
        lines.append(f"stopped all in {time.perf_counter() - began:.1f} s")
        await local.release(wanted.ref)
    return lines


def memory(processes: list[int]) -> str:
    """What they take each: all that is mapped (RSS), and their part of what is shared (PSS)."""
    resident, proportional = [], []
    for process in processes:
        fields = dict(
            line.split()[:2] for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:] if line
        )
        resident.append(int(fields["Rss:"]))
        proportional.append(int(fields["Pss:"]))
    return f"RSS {statistics.mean(resident) / 1000:.1f} MB, PSS {statistics.mean(proportional) / 1000:.2f} MB"


async def idle(processes: list[int]) -> str:
    """The processor time that the engine and all shims used while nothing happened."""
    before = sum(map(ticks, processes))
    engine_before = time.process_time()
    await asyncio.sleep(QUIET_SECONDS)
    engine_used = time.process_time() - engine_before
    used = sum(map(ticks, processes)) - before
    return f"engine {engine_used / QUIET_SECONDS:.2%} of a processor, shims {used} ticks together"


def ticks(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(stat[11]) + int(stat[12])


def shown(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1000:.0f} ms (worst of {len(ordered)}: {ordered[-1] * 1000:.0f})"


BENCHES = (one, thousand)
