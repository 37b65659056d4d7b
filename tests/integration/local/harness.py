"""A local engine on its own data directory, with its recorded reports, and checks for leftover processes."""

import asyncio
import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec import structs

from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.spec import Kind, ReadinessSpec, Service
from stoker.engines.local import ContainmentMode, LocalEngine
from stoker.engines.model import (
    ContainerSpec,
    EngineEvent,
    FullSync,
    LaunchSpec,
    LogRef,
    ObservedPod,
    PodAssignment,
    WorkloadRef,
)

T = TypeVar("T")
TIMEOUT_SECONDS = 15.0


class Harness:
    def __init__(self, data_dir: Path, mode: ContainmentMode) -> None:
        self.data_dir = data_dir
        self.mode = mode
        self.seen: dict[str, ObservedPod] = {}
        self.history: list[ObservedPod] = []
        self.remarks: list[EngineEvent] = []
        self.options: dict[str, Any] = {}
        self._runner = asyncio.Runner()
        self._engine: LocalEngine | None = None
        self._observer: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        data_dir.mkdir(exist_ok=True)
        (data_dir / "admin.key").write_text("sk-stoker-secret")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    @property
    def engine(self) -> LocalEngine:
        if self._engine is None:
            self.open()
        assert self._engine is not None
        return self._engine

    def open(self, **options: Any) -> LocalEngine:
        """A new engine on the same data directory; the one before is let go."""
        self.close()
        self.options |= options

        async def main() -> None:
            self._engine = await LocalEngine.open(self.data_dir, mode=self.mode, **self.options)
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

    async def _observe(self, engine: LocalEngine) -> None:
        async for report in engine.watch():
            if isinstance(report, FullSync):
                self.seen.clear()
            self.remarks += report.events
            for pod in report.pods:
                self.seen[pod.uid] = pod
                self.history.append(pod)
            if not isinstance(report, FullSync):
                for uid in report.gone:
                    self.seen.pop(uid, None)
            self._news.set()

    def start(self, script: str, **parts: Any) -> LaunchSpec:
        order = new_order(script, **parts)
        self.run(self.engine.apply(order))
        return order

    def job(self, script: str, **parts: Any) -> str:
        """Start a pod; its uid."""
        return self.start(script, **parts).pods[0].uid

    def until(self, uid: str, check: Callable[[ObservedPod], bool], seconds: float = TIMEOUT_SECONDS) -> ObservedPod:
        """What was reported of the pod when this was first true."""

        async def main() -> ObservedPod:
            async with asyncio.timeout(seconds):
                while uid not in self.seen or not check(self.seen[uid]):
                    self._news.clear()
                    await self._news.wait()
            return self.seen[uid]

        _ = self.engine
        try:
            return self.run(main())
        except TimeoutError:
            raise AssertionError(f"waited {seconds} s; now {self.seen.get(uid)}; {self.lines(uid)}") from None

    def remarked(self, seconds: float = TIMEOUT_SECONDS) -> EngineEvent:
        """The first thing that was said of a workload beside its pods."""

        async def main() -> EngineEvent:
            async with asyncio.timeout(seconds):
                while not self.remarks:
                    self._news.clear()
                    await self._news.wait()
            return self.remarks[0]

        return self.run(main())

    def end(self, uid: str, seconds: float = TIMEOUT_SECONDS) -> ObservedPod:
        return self.until(uid, lambda pod: pod.phase.is_finished, seconds)

    def until_gone(self, uid: str) -> None:
        """Wait until the pod was reported to exist no more."""

        async def main() -> None:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while uid in self.seen:
                    self._news.clear()
                    await self._news.wait()

        self.run(main())

    def stop(self, uid: str, grace_seconds: float = 10.0) -> None:
        pod = self.seen[uid]
        self.run(
            self.engine.terminate(WorkloadRef(uid=pod.workload_uid, attempt=pod.attempt), grace_seconds=grace_seconds)
        )

    def log(self, uid: str) -> list[LogLine]:
        async def main() -> list[LogLine]:
            lines: list[LogLine] = []
            while more := await self.engine.read_logs(LogRef(uid), lines[-1].position if lines else 0, 10_000):
                lines += more
            return lines

        return self.run(main())

    def lines(self, uid: str) -> list[str]:
        return [line.text for line in self.log(uid)]

    def says(self, uid: str, text: str, seconds: float = TIMEOUT_SECONDS) -> list[str]:
        """Wait until the pod has printed a line that holds this."""
        give_up = time.monotonic() + seconds
        while text not in "\n".join(lines := self.lines(uid)):
            assert time.monotonic() < give_up, f"{text!r} is not in {lines}, {self.seen.get(uid)}"
            self.run(asyncio.sleep(0.01))
        return lines

    def finish(self) -> None:
        """Stop everything and see that nothing is left."""
        uids = [path.name for path in (self.data_dir / "local" / "pods").glob("*")]
        for uid in uids:
            if uid in self.seen and not self.seen[uid].phase.is_finished:
                self.stop(uid, 0.0)
        for uid in uids:
            if uid in self.seen:
                self.end(uid)
        self.close()
        self._runner.close()
        give_up = time.monotonic() + 5.0
        while (left := list(processes(str(self.data_dir), *uids))) and time.monotonic() < give_up:
            time.sleep(0.01)
        assert left == [], "processes were left behind"
        records = (self.data_dir / "local" / "pods").glob("*/pod.json")
        groups = [group for record in records for group in msgspec.json.decode(record.read_bytes())["groups"]]
        assert not [group for group in groups if Path(group).exists()], "control groups were left behind"


def new_order(
    script: str,
    *,
    kind: Kind = Kind.JOB,
    replicas: int = 1,
    env: Mapping[str, str] | None = None,
    resources: Resources = Resources(),  # noqa: B008 - frozen
    devices: tuple[tuple[int, ...], ...] = (),
    service: Service | None = None,
    readiness: ReadinessSpec | None = None,
    restart: bool = False,
    rolling: bool = False,
    grace_seconds: float = 10.0,
) -> LaunchSpec:
    name = f"harness-{uuid.uuid4().hex[:5]}"
    return LaunchSpec(
        ref=WorkloadRef(uid=str(uuid.uuid4()), slug=name, namespace="research"),
        kind=kind,
        replicas=replicas,
        containers=(ContainerSpec(entry_point=script, resources=resources),),
        pods=new_pods(name, replicas, env or {}, devices),
        service=service,
        readiness=readiness,
        restart_on_exit=restart,
        rolling_update=rolling or kind.uses_rolling_update,
        grace_seconds=grace_seconds,
    )


def new_pods(
    name: str, replicas: int, env: Mapping[str, str] | None = None, devices: tuple[tuple[int, ...], ...] = ()
) -> tuple[PodAssignment, ...]:
    return tuple(
        PodAssignment(
            str(uuid.uuid4()),
            f"{name}-{rank}",
            rank,
            "harness",
            tuple(map(DeviceRef, devices[rank])) if devices else (),
            env or {},
        )
        for rank in range(replicas)
    )


def revise(order: LaunchSpec, script: str, pods: tuple[PodAssignment, ...]) -> LaunchSpec:
    """The next revision of an order, with another script and these pods."""
    return structs.replace(
        order,
        ref=structs.replace(order.ref, revision=order.ref.revision + 1),
        replicas=len(pods),
        containers=(structs.replace(order.main, entry_point=script),),
        pods=pods,
    )


@contextlib.contextmanager
def small_disk(folder: Path) -> Generator[Callable[[], Path]]:
    """Four megabytes of disk; gives what fills them with a file."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a small disk")

    def fill() -> Path:
        with contextlib.suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        return folder / "ballast"

    try:
        yield fill
    finally:
        subprocess.run(["umount", folder], check=True)


def processes(*marks: str) -> Iterator[tuple[int, str]]:
    """Processes, dead ones aside, whose command line or environment holds one of these."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if any(mark.encode() in command + (folder / "environ").read_bytes() for mark in marks):
                    yield int(folder.name), command.replace(b"\0", b" ").decode(errors="replace")


def shim_pid(harness: Harness, uid: str) -> int:
    """The process that keeps a pod."""
    return int((harness.data_dir / "local" / "pods" / uid / "lock").read_text())
