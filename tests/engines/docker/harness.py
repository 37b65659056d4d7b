"""A DockerEngine on a real dockerd, with what it reports written down."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs
from tests.engines.docker.daemon import IMAGE, DockerDaemon

from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.spec import Kind, ReadinessSpec, Service
from stoker.engines.docker import DockerConfig, DockerEngine, PullPolicy
from stoker.engines.docker.labels import INSTALLATION_LABEL
from stoker.engines.model import (
    ContainerSpec,
    Delta,
    Disconnected,
    EngineEvent,
    FullSync,
    LaunchSpec,
    LogRef,
    Observation,
    ObservedPod,
    ObservedWorkload,
    PodAssignment,
    WorkloadRef,
)

T = TypeVar("T")
PATIENCE = 20.0
NODE = "docker-host"


class DockerHarness:
    """`open` makes a new engine of the same installation, as a restart of the server does."""

    def __init__(self, daemon: DockerDaemon, state_dir: Path) -> None:
        self.daemon = daemon
        self.state_dir = state_dir
        self.installation = uuid.uuid4().hex
        self.seen: dict[str, ObservedPod] = {}
        self.foreign: dict[str, ObservedWorkload] = {}
        self.history: list[ObservedPod] = []
        self.events: list[EngineEvent] = []
        self.reports: list[Observation] = []
        self.settings: dict[str, Any] = {"gpus": 4, "node_name": NODE, "pull_policy": PullPolicy.NEVER}
        self._runner = asyncio.Runner()
        self._engine: DockerEngine | None = None
        self._observer: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    @property
    def engine(self) -> DockerEngine:
        if self._engine is None:
            self.open()
        assert self._engine is not None
        return self._engine

    def open(self, **settings: Any) -> DockerEngine:
        """A new engine; the one before is closed."""
        self.close()
        self.seen.clear()
        self.foreign.clear()
        self.reports.clear()
        self.settings |= settings
        config = structs.replace(DockerConfig(url=self.daemon.url), **self.settings)

        async def main() -> None:
            self._engine = DockerEngine(
                config,
                installation=self.installation,
                cluster_id="tests",
                state_dir=self.state_dir,
                ready_seconds=0.5,
            )
            self._observer = asyncio.create_task(self._observe(self._engine))

        self.run(main())
        assert self._engine is not None
        return self._engine

    def close(self) -> None:
        async def main() -> None:
            if self._engine and self._observer:
                await self._engine.close()
                await self._observer

        self.run(main())
        self._engine = self._observer = None

    def dispose(self) -> None:
        """Close the engine for good; its pods keep running."""
        self.close()
        self._runner.close()

    def kill_engine(self) -> None:
        """End the engine as kill -9 of the server does: nothing of what it was doing is finished."""

        async def main() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            if self._engine:
                await self._engine.close()

        self.run(main())
        self._engine = self._observer = None

    async def _observe(self, engine: DockerEngine) -> None:
        async for report in engine.watch():
            self.reports.append(report)
            if isinstance(report, Disconnected):
                self._news.set()
                continue
            if isinstance(report, FullSync):
                self.seen.clear()
                self.foreign.clear()
            self.events += report.events
            for pod in report.pods:
                self.seen[pod.uid] = pod
                self.history.append(pod)
            for workload in report.workloads:
                self.foreign[workload.engine_ref] = workload
            if isinstance(report, Delta):
                for uid in report.gone:
                    self.seen.pop(uid, None)
                for ref in report.gone_workloads:
                    self.foreign.pop(ref, None)
            self._news.set()

    def launch(self, script: str, **options: Any) -> LaunchSpec:
        """Apply a launch spec of one command."""
        spec = new_spec(script, **options)
        self.run(self.engine.apply(spec))
        return spec

    def pod(self, script: str, **options: Any) -> str:
        """Launch one pod; its uid."""
        return self.launch(script, **options).pods[0].uid

    def wait(self, check: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something is true after a report."""

        async def main() -> None:
            async with asyncio.timeout(seconds):
                while not check():
                    self._news.clear()
                    await self._news.wait()

        _ = self.engine
        try:
            self.run(main())
        except TimeoutError:
            raise AssertionError(f"waited {seconds} s; {self.seen}; {self.reports[-3:]}") from None

    def until(self, uid: str, check: Callable[[ObservedPod], bool], seconds: float = PATIENCE) -> ObservedPod:
        self.wait(lambda: uid in self.seen and check(self.seen[uid]), seconds)
        return self.seen[uid]

    def running(self, uid: str) -> ObservedPod:
        return self.until(uid, lambda pod: pod.phase.value == "Running")

    def end(self, uid: str, seconds: float = PATIENCE) -> ObservedPod:
        return self.until(uid, lambda pod: pod.phase.is_finished, seconds)

    def stop(self, spec: LaunchSpec, grace_seconds: float = 10.0, **options: Any) -> None:
        self.run(self.engine.terminate(spec.ref, grace_seconds=grace_seconds, **options))

    def log(self, uid: str, cursor: int = 0, limit: int = 10_000) -> list[LogLine]:
        async def main() -> list[LogLine]:
            lines: list[LogLine] = []
            while more := await self.engine.read_logs(LogRef(uid), lines[-1].position if lines else cursor, limit):
                lines += more
            return lines

        return self.run(main())

    def lines(self, uid: str) -> list[str]:
        return [line.text for line in self.log(uid)]

    def says(self, uid: str, text: str, seconds: float = PATIENCE) -> list[str]:
        give_up = time.monotonic() + seconds
        while text not in "\n".join(lines := self.lines(uid)):
            assert time.monotonic() < give_up, f"{text!r} is not in {lines}, {self.seen.get(uid)}"
            self.run(asyncio.sleep(0.02))
        return lines

    def containers(self) -> list[dict[str, Any]]:
        """All containers of this installation, as Docker reports them to anybody."""
        filters = msgspec.json.encode({"label": [f"{INSTALLATION_LABEL}={self.installation}"]}).decode()
        with self.daemon.client() as client:
            answer = client.get("/containers/json", params={"all": "1", "filters": filters})
            return answer.raise_for_status().json()

    def volumes(self) -> list[str]:
        filters = msgspec.json.encode({"label": [f"{INSTALLATION_LABEL}={self.installation}"]}).decode()
        with self.daemon.client() as client:
            answer = client.get("/volumes", params={"filters": filters}).raise_for_status().json()
            return [volume["Name"] for volume in answer["Volumes"] or []]

    def finish(self) -> None:
        """Stop, release and purge everything, and see that nothing is left."""
        with contextlib.suppress(AssertionError):
            self.wait(lambda: any(isinstance(report, FullSync) for report in self.reports))
        refs = {pod.workload_uid: self._ref(pod) for pod in self.seen.values() if pod.workload_uid}
        attempts = {(pod.workload_uid, pod.attempt): self._ref(pod) for pod in self.seen.values() if pod.workload_uid}
        for ref in attempts.values():
            self.run(self.engine.terminate(ref, grace_seconds=0.0))
        for uid in [pod.uid for pod in self.seen.values() if pod.workload_uid]:
            self.wait(lambda uid=uid: uid not in self.seen or self.seen[uid].phase.is_finished)
        for ref in attempts.values():
            self.run(self.engine.release(ref))
        for ref in refs.values():
            self.run(self.engine.purge(ref))
        self.run(self.engine.uninstall())
        self.dispose()
        assert self.containers() == []

    @staticmethod
    def _ref(pod: ObservedPod) -> WorkloadRef:
        return WorkloadRef(uid=pod.workload_uid, slug=pod.name, attempt=pod.attempt)


def new_spec(
    script: str,
    *,
    kind: Kind = Kind.JOB,
    replicas: int = 1,
    image: str = IMAGE,
    env: Mapping[str, str] | None = None,
    resources: Resources = Resources(),  # noqa: B008 - frozen
    devices: tuple[tuple[int, ...], ...] = (),
    service: Service | None = None,
    readiness: ReadinessSpec | None = None,
    restart: bool = False,
    rolling: bool = False,
    annotations: Mapping[str, str] | None = None,
    grace_seconds: float = 10.0,
) -> LaunchSpec:
    slug = f"harness-{uuid.uuid4().hex[:5]}"
    return LaunchSpec(
        ref=WorkloadRef(uid=str(uuid.uuid4()), slug=slug, namespace="research"),
        kind=kind,
        replicas=replicas,
        containers=(ContainerSpec(image=image, entry_point=script, resources=resources),),
        pods=new_pods(slug, replicas, env or {}, devices),
        service=service,
        readiness=readiness,
        restart_on_exit=restart,
        rolling_update=rolling,
        annotations=annotations or {},
        grace_seconds=grace_seconds,
    )


def new_pods(
    slug: str, replicas: int, env: Mapping[str, str] | None = None, devices: tuple[tuple[int, ...], ...] = ()
) -> tuple[PodAssignment, ...]:
    return tuple(
        PodAssignment(
            str(uuid.uuid4()),
            f"{slug}-{rank}",
            rank,
            NODE,
            tuple(DeviceRef(index) for index in devices[rank]) if devices else (),
            {"RANK": str(rank), "WORLD_SIZE": str(replicas), "MASTER_PORT": "29500"} | dict(env or {}),
        )
        for rank in range(replicas)
    )
