"""A simulated engine on a folder of its own, with a clock that is moved by hand."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.clock import ManualClock

from stoker.concurrency.supervisor import Supervisor
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.spec import Kind, Service
from stoker.engines.model import ContainerSpec, FullSync, LaunchSpec, LogRef, ObservedPod, PodAssignment, WorkloadRef
from stoker.engines.simulated import SimulatedEngine, build_machine_groups

T = TypeVar("T")
TIMEOUT_SECONDS = 10.0
BEGIN = 1_790_000_000_000
NODE = "gpu-node-1"


class SimulationClock(ManualClock):
    def __init__(self) -> None:
        super().__init__(BEGIN)


class Harness:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SimulationClock()
        self.seen: dict[str, ObservedPod] = {}
        self.nodes: dict[str, bool] = {}
        self.reports = 0
        self.options: dict[str, Any] = {"groups": build_machine_groups(64), "fault_days": 0.0}
        self._runner = asyncio.Runner()
        self._engine: SimulatedEngine | None = None
        self._observer: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    @property
    def engine(self) -> SimulatedEngine:
        if self._engine is None:
            self.open()
        assert self._engine is not None
        return self._engine

    def open(self, **options: Any) -> SimulatedEngine:
        """A new engine on the same folder; the one before is let go as by `kill -9`: nothing is said to it."""
        self.options |= options

        async def main() -> None:
            await self._leave()
            self._engine = await SimulatedEngine.open(
                self.folder, clock=self.clock, supervisor=Supervisor(self.clock), **self.options
            )
            self._observer = asyncio.create_task(self._observe(self._engine))

        self.run(main())
        assert self._engine is not None
        return self._engine

    def finish(self) -> None:
        self.run(self._leave())
        self._runner.close()

    def start(self, **parts: Any) -> LaunchSpec:
        order = new_order(**parts)
        self.run(self.engine.apply(order))
        return order

    def later(self, seconds: float) -> None:
        """Time passes, and what falls due is told."""
        self.clock.at += round(seconds * 1000)

        async def main() -> None:
            self.engine.advance()
            for _ in range(5):  # the observer takes its turn
                await asyncio.sleep(0)

        self.run(main())

    def until(self, uid: str, check: Callable[[ObservedPod], bool]) -> ObservedPod:
        """What was reported of the pod when this was first true."""

        async def main() -> ObservedPod:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while uid not in self.seen or not check(self.seen[uid]):
                    self._news.clear()
                    await self._news.wait()
            return self.seen[uid]

        _ = self.engine
        return self.run(main())

    def until_gone(self, uid: str) -> None:
        async def main() -> None:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while uid in self.seen:
                    self._news.clear()
                    await self._news.wait()

        self.run(main())

    def lines(self, uid: str, position: int = 0) -> list[str]:
        return [line.text for line in self.run(self.engine.read_logs(LogRef(uid), position, 100_000))]

    async def _leave(self) -> None:
        if self._engine and self._observer:
            await self._engine.close()
            await self._observer
        self._engine = self._observer = None

    async def _observe(self, engine: SimulatedEngine) -> None:
        async for report in engine.watch():
            self.reports += 1
            if isinstance(report, FullSync):
                self.seen.clear()
            else:
                for uid in report.gone:
                    self.seen.pop(uid, None)
            self.seen |= {pod.uid: pod for pod in report.pods}
            self.nodes |= {node.name: node.is_healthy for node in report.nodes}
            self._news.set()


def new_order(
    *,
    workload: str = "",
    kind: Kind = Kind.JOB,
    attempt: int = 1,
    revision: int = 1,
    pods: int = 1,
    node: str = NODE,
    gpus: int = 1,
    says: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
    service: Service | None = None,
    uids: tuple[str, ...] = (),
) -> LaunchSpec:
    """An order; `says` are annotations of the simulation without their prefix."""
    uid = workload or str(uuid.uuid4())
    names = uids or tuple(str(uuid.uuid4()) for _ in range(pods))
    return LaunchSpec(
        ref=WorkloadRef(uid=uid, slug="job-abcde", namespace="team", attempt=attempt, revision=revision),
        kind=kind,
        replicas=len(names),
        containers=(
            ContainerSpec(image="none", entry_point="python train.py", resources=Resources(gpus * 1000, 4000, 2**33)),
        ),
        pods=tuple(
            PodAssignment(
                uid=name,
                name=f"job-abcde-{rank}",
                rank=rank,
                node=node,
                devices=tuple(map(DeviceRef, range(rank * gpus, (rank + 1) * gpus))),
                env={},
            )
            for rank, name in enumerate(names)
        ),
        labels=labels or {},
        annotations={f"stoker.simulate/{key}": str(value) for key, value in (says or {}).items()},
        service=service,
        restart_on_exit=not kind.runs_to_completion,
        rolling_update=kind.uses_rolling_update,
    )
