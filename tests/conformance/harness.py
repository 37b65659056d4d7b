"""Drives one engine through a fixture, and records what it reports."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator
from typing import Any, TypeVar, cast

import pytest
from tests.conformance.engine_fixture import EngineFixture, Feature
from tests.conformance.engine_process import call_and_kill
from tests.conformance.launch_specs import SpecBuilder
from tests.conformance.programs import Program

from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.cluster.node import DeviceRef, Node
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import (
    Disconnected,
    EngineEvent,
    FullSync,
    LaunchSpec,
    LogRef,
    Observation,
    ObservedPod,
    ObservedWorkload,
    WorkloadRef,
)
from stoker.engines.protocol import Engine

T = TypeVar("T")
DEADLINE_SECONDS = 60.0
"""Generous: it only ends tests that would wait for ever."""


def needs(*features: Feature) -> pytest.MarkDecorator:
    """Marks a test that not every engine can run."""
    return pytest.mark.needs(*features)


@pytest.fixture
def harness(request: pytest.FixtureRequest, engine_fixture: EngineFixture) -> Iterator["ConformanceHarness"]:
    """A harness on the engine of the module. Everything that the test has started is gone after it, or it fails."""
    for mark in request.node.iter_markers("needs"):
        for feature in mark.args:
            if reason := engine_fixture.unsupported.get(feature):
                pytest.skip(reason)
    made = ConformanceHarness(engine_fixture)
    made.open()
    yield made
    made.finish()


class ClusterView:
    """What a reader of observations knows: the last state of everything that exists."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.workloads: dict[str, ObservedWorkload] = {}
        self.events: list[EngineEvent] = []
        self.observations: list[Observation] = []

    @property
    def reported_pods(self) -> list[ObservedPod]:
        """Everything that was reported of pods, in order."""
        return [pod for each in self.observations if not isinstance(each, Disconnected) for pod in each.pods]

    def update(self, observation: Observation) -> None:
        self.observations.append(observation)
        if isinstance(observation, Disconnected):
            return
        if isinstance(observation, FullSync):
            self.nodes.clear()
            self.pods.clear()
            self.workloads.clear()
        else:
            for uid in observation.gone:
                self.pods.pop(uid, None)
            for ref in observation.gone_workloads:
                self.workloads.pop(ref, None)
        self.nodes |= {node.name: node for node in observation.nodes}
        self.pods |= {pod.uid: pod for pod in observation.pods}
        self.workloads |= {workload.engine_ref: workload for workload in observation.workloads}
        self.events += observation.events


class ConformanceHarness:
    def __init__(self, fixture: EngineFixture) -> None:
        self.fixture = fixture
        self.view = ClusterView()
        self._runner = asyncio.Runner()
        self._engine: Engine | None = None
        self._observer: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._refs: dict[tuple[str, int], WorkloadRef] = {}
        self._uids: set[str] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def limited() -> T:
            async with asyncio.timeout(2 * DEADLINE_SECONDS):
                return await work

        return self._runner.run(limited())

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "the engine is closed"
        return self._engine

    @property
    def specs(self) -> SpecBuilder:
        return SpecBuilder(self.fixture, self.engine.capabilities)

    def open(self) -> None:
        """Open an engine object and wait for its first report; the one before is closed."""
        self.open_without_wait()
        self.wait(lambda: bool(self.view.nodes), "a full sync")

    def open_without_wait(self) -> None:
        self.close()
        self.view = ClusterView()
        self._engine = self.run(self.fixture.open())
        self._observer = self.run(self._spawn(self._observe(self._engine, self.view)))

    def reopen(self) -> None:
        """Replace the engine object, as a restart of the server does."""
        self.open()

    def close(self) -> None:
        """Close the engine object. The pods do not notice."""

        async def main() -> None:
            if self._engine and self._observer:
                await self._engine.close()
                self._observer.cancel()
                await asyncio.gather(self._observer, return_exceptions=True)

        self.run(main())
        self._engine = self._observer = None

    def call_and_kill(self, call: str, launch_spec: LaunchSpec, failpoint: str = "") -> None:
        """Another process makes a call and is killed; then an engine object is opened here."""
        self.remember(launch_spec)
        self.close()
        call_and_kill(self.fixture.opener_arguments(), call, launch_spec, failpoint)
        self.open()

    async def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.create_task(work)

    async def _observe(self, engine: Engine, view: ClusterView) -> None:
        async for observation in engine.watch():
            view.update(observation)
            self._changed.set()

    def open_watch(self) -> AsyncGenerator[Observation]:
        """A reader of its own, which the test closes."""
        return cast("AsyncGenerator[Observation]", self.engine.watch())

    # calls

    def start(self, program: Program, **parts: Any) -> LaunchSpec:
        return self.apply(self.specs.build(program, **parts))

    def apply(self, launch_spec: LaunchSpec) -> LaunchSpec:
        self.remember(launch_spec)
        self.run(self.engine.apply(launch_spec))
        return launch_spec

    def remember(self, launch_spec: LaunchSpec) -> None:
        """Delete this workload after the test."""
        self._refs[launch_spec.ref.uid, launch_spec.ref.attempt] = launch_spec.ref
        self._uids.update(pod.uid for pod in launch_spec.pods)

    def terminate(
        self,
        launch_spec: LaunchSpec,
        *,
        grace_seconds: float = 10.0,
        force: bool = False,
        only: Collection[str] | None = None,
    ) -> None:
        self.run(self.engine.terminate(launch_spec.ref, grace_seconds=grace_seconds, force=force, only=only))

    def release(self, launch_spec: LaunchSpec) -> None:
        self.run(self.engine.release(launch_spec.ref))

    def purge(self, launch_spec: LaunchSpec) -> None:
        self.run(self.engine.purge(launch_spec.ref))

    def pods_of(self, launch_spec: LaunchSpec) -> frozenset[str]:
        return self.run(self.engine.pods_of(launch_spec.ref))

    def execute(
        self, uid: str, *command: str, tty: bool = False, stderr: bool = False, columns: int = 100, rows: int = 30
    ) -> Coroutine[Any, Any, Terminal]:
        return self.engine.execute(uid, list(command), tty=tty, columns=columns, rows=rows, stderr=stderr)

    def devices(self, *indices: int) -> tuple[DeviceRef, ...]:
        """GPUs of the node, by index."""
        known = {device.index: device for device in self.view.nodes[self.fixture.node_name].devices}
        return tuple(DeviceRef(index, known[index].uuid) for index in indices)

    # observations

    def uids(self, launch_spec: LaunchSpec) -> list[str]:
        """The pods of the launch spec, by rank."""
        if launch_spec.pods:
            return [pod.uid for pod in launch_spec.pods]
        return self.wait(lambda: self._reported_uids(launch_spec), "all pods")

    def uid(self, launch_spec: LaunchSpec) -> str:
        [uid] = self.uids(launch_spec)
        return uid

    def wait(self, check: Callable[[], T | None], what: str) -> T:
        """What the check returns, as soon as that is true."""
        give_up = time.monotonic() + DEADLINE_SECONDS
        while not (found := check()):
            assert time.monotonic() < give_up, f"waited for {what}; {self.view.pods}; {self.view.events}"
            self._changed.clear()
            self.run(self.fixture.pass_time(self._changed))
        return found

    def until(self, uid: str, check: Callable[[ObservedPod], bool], what: str = "a state of the pod") -> ObservedPod:
        """What was reported of the pod when this was first true."""
        return self.wait(lambda: pod if (pod := self.view.pods.get(uid)) and check(pod) else None, what)

    def running(self, uid: str) -> ObservedPod:
        return self.until(uid, lambda pod: pod.phase is PodPhase.RUNNING, "a running pod")

    def ready(self, uid: str) -> ObservedPod:
        return self.until(uid, lambda pod: pod.ready, "a ready pod")

    def ended(self, uid: str) -> ObservedPod:
        return self.until(uid, lambda pod: pod.phase.is_finished, "the end of the pod")

    def ended_or_gone(self, uid: str) -> None:
        self.wait(lambda: self._is_over(uid), "the end of the pod, or that it is gone")

    def gone(self, uid: str) -> None:
        self.wait(lambda: uid not in self.view.pods, "that the pod is gone")

    def processes_ended(self, uid: str) -> None:
        self.wait(lambda: not self.fixture.processes(uid), f"the end of {self.fixture.processes(uid)}")

    def settle(self) -> None:
        """Let pass the time in which something wrong would happen."""
        self.run(self.fixture.settle())

    def read_log(self, uid: str, cursor: int = 0, limit: int = 1000) -> list[LogLine]:
        return self.run(self.engine.read_logs(LogRef(uid), cursor, limit))

    def log(self, uid: str, limit: int = 1000) -> list[LogLine]:
        """All lines that are there."""
        lines: list[LogLine] = []
        while more := self.read_log(uid, lines[-1].position if lines else 0, limit):
            lines += more
        return lines

    def lines(self, uid: str) -> list[str]:
        return [line.text for line in self.log(uid)]

    def prints(self, uid: str, text: str) -> list[str]:
        """Wait until the log has this text; all lines."""
        return self.wait(lambda: lines if text in "\n".join(lines := self.lines(uid)) else None, f"the output {text!r}")

    # the end

    def finish(self) -> None:
        """End everything that was started, delete it, and see that nothing is left."""
        try:
            self._remove_everything()
        finally:
            self.close()
            self._runner.close()
        left = self.fixture.leftovers(self._uids)
        assert left == []

    def _remove_everything(self) -> None:
        for ref in self._refs.values():
            self.run(self.engine.terminate(ref, grace_seconds=0.0, force=True))
        for ref in self._refs.values():
            self._uids |= self.run(self.engine.pods_of(ref))
        for uid in self._uids:
            self.ended_or_gone(uid)
        for ref in self._refs.values():
            self.run(self.engine.release(ref))
        for uid in self._uids:
            self.gone(uid)
            self.processes_ended(uid)
        for ref in self._refs.values():
            self.run(self.engine.purge(ref))

    def _is_over(self, uid: str) -> bool:
        pod = self.view.pods.get(uid)
        return pod is None or pod.phase.is_finished

    def _reported_uids(self, launch_spec: LaunchSpec) -> list[str]:
        ref = launch_spec.ref
        found = [
            pod
            for pod in self.view.pods.values()
            if (pod.workload_uid, pod.attempt, pod.revision) == (ref.uid, ref.attempt, ref.revision)
        ]
        return (
            [pod.uid for pod in sorted(found, key=lambda pod: pod.rank or 0)]
            if len(found) == launch_spec.replicas
            else []
        )


def refusal(work: Callable[[], object]) -> ErrorCode:
    """The code of the error that a call raises."""
    with pytest.raises(StokerError) as refused:
        work()
    return refused.value.code
