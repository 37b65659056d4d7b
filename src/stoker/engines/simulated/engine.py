"""The simulated engine: its pods start, print, use GPUs and end by the clock, without any process.

The behaviour of a pod follows from the seed and its launch spec, so only launch specs are stored. Pods run where they
are placed; the engine makes no decision about them.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection, Iterable
from pathlib import Path

from stoker.concurrency.supervisor import Supervisor
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES, Capabilities
from stoker.domain.cluster.engine_access import LogLine, Terminal
from stoker.domain.cluster.samples import GpuSamples
from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.engines.coalescing_queue import CoalescingQueue
from stoker.engines.model import Delta, FullSync, LaunchSpec, LogRef, ServiceEndpoint, SyncReport, WorkloadRef
from stoker.engines.simulated.fleet.faults import FaultSchedule
from stoker.engines.simulated.fleet.nodes import MachineGroup, SimulatedFleet, build_machine_groups
from stoker.engines.simulated.output.shell_commands import build_shell_commands
from stoker.engines.simulated.output.terminal import SHELLS, SimulatedTerminal
from stoker.engines.simulated.pods.journal import (
    ApplyEntry,
    Journal,
    JournalEntry,
    ReleaseEntry,
    ReviseEntry,
    StopEntry,
)
from stoker.engines.simulated.pods.pod import SimulatedPod
from stoker.engines.simulated.pods.registry import SimulatedPodRegistry
from stoker.engines.simulated.pods.rollout import build_attempt, plan_pods, plan_stops
from stoker.engines.simulated.scenario import build_scenario
from stoker.engines.simulated.signals.sensors import SensorModel

JOURNAL_FILE = "journal.jsonl"
TICK_SECONDS = 0.02
"""Changes that fall due within this time are reported together."""
MAX_WAIT_SECONDS = 0.25
MEAN_DAYS_BETWEEN_FAULTS = 25.0


class SimulatedEngine:
    """Open one with `await SimulatedEngine.open(folder)`."""

    name = "simulated"

    def __init__(
        self, fleet: SimulatedFleet, faults: FaultSchedule, journal: Journal, speed: float, clock: Clock
    ) -> None:
        self.fleet = fleet
        self.faults = faults
        self.sensors = SensorModel(fleet, faults, speed)
        self._journal = journal
        self.speed = speed
        self._clock = clock
        self._registry = SimulatedPodRegistry(fleet, faults, speed)
        self._faults_until = clock.now()
        self._next_fault: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        supervisor: Supervisor,
        groups: tuple[MachineGroup, ...] | None = None,
        seed: int = 1,
        speed: float = 1.0,
        fault_days: float = MEAN_DAYS_BETWEEN_FAULTS,
        clock: Clock | None = None,
    ) -> "SimulatedEngine":
        """Open the engine and continue with the pods of the journal in the folder."""
        fleet = SimulatedFleet(groups or build_machine_groups(), seed)
        journal = Journal(folder / JOURNAL_FILE)
        engine = cls(fleet, FaultSchedule(fleet, fault_days), journal, speed, clock or SystemClock())
        engine._load()
        engine._task = asyncio.create_task(supervisor.run("engine", engine._run))
        return engine

    @property
    def capabilities(self) -> Capabilities:
        return SIMULATED_CAPABILITIES

    async def watch(self) -> AsyncGenerator[SyncReport]:
        queue = CoalescingQueue()
        self._registry.observers.add(queue)
        try:
            now = self._clock.now()
            nodes = tuple(self.faults.node_at(place, now) for place in range(len(self.fleet.nodes)))
            yield FullSync(nodes, tuple(pod.observed(now) for pod in self._registry.pods.values()))
            while names := await queue.drain():
                yield self._delta(names)
        finally:
            self._registry.observers.discard(queue)

    async def log_activity(self) -> AsyncGenerator[LogRef]:
        queue = CoalescingQueue()
        self._registry.log_observers.add(queue)
        try:
            self._registry.watch_logs(self._clock.now())
            self._wake.set()
            while uids := await queue.drain():
                for uid in uids:
                    yield LogRef(uid)
        finally:
            self._registry.log_observers.discard(queue)

    async def apply(self, launch_spec: LaunchSpec) -> str:
        now = self._clock.now()
        existing = self._registry.attempt_pods(launch_spec.ref.uid, launch_spec.ref.attempt)
        if any(pod.revision > launch_spec.ref.revision for pod in existing):
            return ""
        self._adopt_revision(launch_spec, existing, now)
        stops = plan_stops(launch_spec, existing, now, self.speed)
        self._schedule_stops(stops, now)
        attempt = build_attempt(launch_spec)
        scenario = build_scenario(self.fleet.seed, attempt.scenario_input)
        places = plan_pods(launch_spec, scenario, existing, now, self.speed)
        if places:
            self._journal.write(ApplyEntry(attempt, places))
            for pod in self._registry.add(attempt, places, scenario):
                self._registry.notify_changed(pod, now)
                self._registry.notify_log(pod, now)  # it may have started at once
        self._wake.set()
        return ""

    async def terminate(
        self, ref: WorkloadRef, *, grace_seconds: float, force: bool = False, only: Collection[str] | None = None
    ) -> None:
        now = self._clock.now()
        existing = [pod for pod in self._registry.attempt_pods(ref.uid, ref.attempt) if only is None or pod.uid in only]
        self._schedule_stops([(pod.uid, now) for pod in existing if pod.stop_at is None or pod.stop_at > now], now)
        self._wake.set()

    async def pods_of(self, ref: WorkloadRef) -> frozenset[str]:
        return frozenset(pod.uid for pod in self._registry.attempt_pods(ref.uid, ref.attempt))

    async def release(self, ref: WorkloadRef) -> None:
        now = self._clock.now()
        finished = [pod for pod in self._registry.attempt_pods(ref.uid, ref.attempt) if pod.is_finished(now)]
        if not finished:
            return
        self._journal.write(ReleaseEntry(tuple(pod.uid for pod in finished)))
        for pod in finished:
            self._registry.release(pod)
        if self._journal.needs_compaction:
            self._journal.compact(self._registry.journal_entries())

    async def purge(self, ref: WorkloadRef) -> None:
        """Does nothing: there is no working directory."""

    async def read_logs(self, source: LogRef, cursor: int, limit: int) -> list[LogLine]:
        return self._registry.pod_log(self._pod(source.pod_uid)).read(cursor, limit, self._clock.now())

    async def check_working_directory(self, directory: str, workspace_id: int) -> str:
        """Never rejects a directory: there are none."""
        return ""

    async def service_address(self, workload_uid: str) -> str:
        """An address that nothing answers to and that says why."""
        now = self._clock.now()
        pods = [pod for pod in self._registry.pods.values() if pod.attempt.workload_uid == workload_uid]
        up = next((pod for pod in pods if pod.attempt.service_port and pod.observed(now).ready), None)
        return f"{up.attempt.slug}.simulated.invalid:{up.attempt.service_port}" if up else ""

    def service_endpoints(self) -> tuple[ServiceEndpoint, ...]:
        """Always empty: nothing listens."""
        return ()

    async def list_shells(self, pod_uid: str, container: str = "") -> list[str]:
        self._pod(pod_uid)
        return SHELLS

    async def execute(
        self,
        pod_uid: str,
        command: list[str],
        *,
        container: str = "",
        tty: bool,
        columns: int,
        rows: int,
        stderr: bool = False,
    ) -> Terminal:
        pod = self._pod(pod_uid)
        if not pod.observed(self._clock.now()).ready:
            raise StokerError(
                ErrorCode.CONFLICT, "The pod does not run, so nothing can be started in it. It is simulated."
            )
        return SimulatedTerminal(command, build_shell_commands(pod, self.fleet, self.collect_now), tty=tty)

    def list_pods(self) -> list[SimulatedPod]:
        """All pods that were not released."""
        return list(self._registry.pods.values())

    def adopt_pods(self, pods: Iterable[SimulatedPod]) -> None:
        """Continue pods that were started elsewhere."""
        now = self._clock.now()
        new = [pod for pod in pods if pod.uid not in self._registry.pods]
        entries: list[JournalEntry] = [ApplyEntry(pod.attempt, (pod.plan,)) for pod in new]
        stops = tuple((pod.uid, pod.stop_at) for pod in new if pod.stop_at is not None)
        for entry in [*entries, StopEntry(stops)] if stops else entries:
            self._journal.write(entry)
            self._registry.replay(entry)
        self._registry.apply_past_faults(now)
        self._wake.set()

    def collect_now(self) -> GpuSamples:
        now = self._clock.now()
        return self.sensors.sample(now, self._registry.allocations(now))

    async def collect(self) -> GpuSamples:
        now = self._clock.now()
        allocations = self._registry.allocations(now)
        return await asyncio.to_thread(self.sensors.sample, now, allocations)

    def advance(self) -> None:
        """Report everything that has fallen due."""
        now = self._clock.now()
        self._apply_faults(now)
        self._registry.advance(now)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            self._registry.close()
            self._journal.close()

    def _load(self) -> None:
        for entry in self._journal.read():
            self._registry.replay(entry)
        self._registry.apply_past_faults(self._clock.now())
        self._journal.compact(self._registry.journal_entries())
        self._next_fault = self.faults.next_change(self._faults_until)

    async def _run(self) -> None:
        """Report what falls due, in batches."""
        while True:
            self.advance()
            times = [at for at in (self._registry.next_due(), self._next_fault) if at is not None]
            wait = (min(times) - self._clock.now()) / 1000 if times else MAX_WAIT_SECONDS
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(MAX_WAIT_SECONDS, max(TICK_SECONDS, wait))):
                    await self._wake.wait()
                    await asyncio.sleep(TICK_SECONDS)

    def _apply_faults(self, now: int) -> None:
        if self._next_fault is None or self._next_fault > now:
            return
        before, self._faults_until = self._faults_until, now
        for fault in self.faults.starting_between(before, now):
            self._registry.apply_fault(fault, now)
            self._registry.notify_node(self.fleet.names[fault.node_index])
        for fault in self.faults.ending_between(before, now):
            self._registry.notify_node(self.fleet.names[fault.node_index])
        self._next_fault = self.faults.next_change(now)

    def _delta(self, names: list[str]) -> Delta:
        now = self._clock.now()
        pods = self._registry.pods
        places = [place for name in names if (place := self.fleet.node_index.get(name)) is not None]
        return Delta(
            nodes=tuple(self.faults.node_at(place, now) for place in places),
            pods=tuple(pods[name].observed(now) for name in names if name in pods),
            gone=tuple(name for name in names if name not in pods and name not in self.fleet.node_index),
        )

    def _adopt_revision(self, launch_spec: LaunchSpec, existing: Iterable[SimulatedPod], now: int) -> None:
        """Pods that the launch spec lists and that are older belong to its revision from now on."""
        wanted, revision = {pod.uid for pod in launch_spec.pods}, launch_spec.ref.revision
        staying = [pod for pod in existing if pod.uid in wanted and pod.revision < revision]
        if staying:
            self._journal.write(ReviseEntry(tuple(pod.uid for pod in staying), revision))
        for pod in staying:
            pod.adopt_revision(revision)
            self._registry.notify_changed(pod, now)

    def _schedule_stops(self, stops: list[tuple[str, int]], now: int) -> None:
        if not stops:
            return
        self._journal.write(StopEntry(tuple(stops)))
        for uid, at in stops:
            pod = self._registry.pods[uid]
            pod.stop(at)
            self._registry.notify_changed(pod, now)

    def _pod(self, uid: str) -> SimulatedPod:
        if pod := self._registry.pods.get(uid):
            return pod
        raise not_found("pod", uid)
