"""Pods that nobody runs: they begin, print, use their GPUs and end as real ones do, all by the clock.

What a pod will do follows from the seed and its order, so only orders are kept. The engine places pods where it is
told and decides nothing about them.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.reach import LogLine, Terminal
from stoker.domain.readings import Readings
from stoker.engines.base import Capabilities, Changes, Everything, Observation, Order, Serving
from stoker.engines.feed import Mailbox
from stoker.engines.simulated.faults import Faults
from stoker.engines.simulated.journal import Applied, Entry, Forgotten, Journal, Stopped
from stoker.engines.simulated.machine import Group, Machines, fleet_of
from stoker.engines.simulated.pods import Pod
from stoker.engines.simulated.readings import Sensors
from stoker.engines.simulated.rollout import attempt_of, places_of, stops_of
from stoker.engines.simulated.roster import Roster
from stoker.engines.simulated.story import story
from stoker.engines.simulated.terminal import SHELLS, SimulatedTerminal
from stoker.engines.simulated.words import answers

JOURNAL = "journal.jsonl"
TICK_SECONDS = 0.02
"""What falls due within so long is told together."""
LONGEST_WAIT_SECONDS = 0.25
FAULT_DAYS = 25.0


class SimulatedEngine:
    """Open one with `await SimulatedEngine.open(folder)`."""

    name = "simulated"

    def __init__(self, machines: Machines, faults: Faults, journal: Journal, speed: float, clock: Clock) -> None:
        self.machines = machines
        self.faults = faults
        self.sensors = Sensors(machines, faults, speed)
        self._journal = journal
        self.speed = speed
        self._clock = clock
        self._roster = Roster(machines, faults, speed)
        self._faults_until = clock.now()
        self._next_fault: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        groups: tuple[Group, ...] | None = None,
        seed: int = 1,
        speed: float = 1.0,
        fault_days: float = FAULT_DAYS,
        clock: Clock | None = None,
    ) -> "SimulatedEngine":
        """Go on with the pods that are written in the folder."""
        machines = Machines(groups or fleet_of(), seed)
        journal = Journal(folder / JOURNAL)
        engine = cls(machines, Faults(machines, fault_days), journal, speed, clock or SystemClock())
        engine._load()
        engine._task = asyncio.create_task(engine._run())
        return engine

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(restarts=True, simulated=True)

    async def observe(self) -> AsyncGenerator[Observation]:
        mailbox = Mailbox()
        self._roster.observers.add(mailbox)
        try:
            now = self._clock.now()
            nodes = tuple(self.faults.node(place, now) for place in range(len(self.machines.nodes)))
            yield Everything(nodes, tuple(pod.seen(now) for pod in self._roster.pods.values()))
            while names := await mailbox.take():
                yield self._changes(names)
        finally:
            self._roster.observers.discard(mailbox)

    async def log_activity(self) -> AsyncGenerator[str]:
        mailbox = Mailbox()
        self._roster.log_readers.add(mailbox)
        try:
            self._roster.speak(self._clock.now())
            self._wake.set()
            while uids := await mailbox.take():
                for uid in uids:
                    yield uid
        finally:
            self._roster.log_readers.discard(mailbox)

    async def apply(self, order: Order) -> None:
        now = self._clock.now()
        there = self._roster.of(order.workload_uid, order.attempt)
        if any(pod.attempt.revision > order.revision for pod in there):
            return
        stops = stops_of(order, there, now, self.speed)
        self._stop(stops, now)
        attempt = attempt_of(order)
        told = story(self.machines.seed, attempt.subject)
        places = places_of(order, told, there, now, self.speed)
        if places:
            self._journal.write(Applied(attempt, places))
            for pod in self._roster.add(attempt, places, told):
                self._roster.changed(pod, now)
        self._wake.set()

    async def remove(self, workload_uid: str, attempt: int, grace_seconds: float) -> frozenset[str]:
        now = self._clock.now()
        there = self._roster.of(workload_uid, attempt)
        self._stop([(pod.uid, now) for pod in there if pod.stop_at is None or pod.stop_at > now], now)
        self._wake.set()
        return frozenset(pod.uid for pod in there)

    async def forget(self, workload_uid: str, attempt: int) -> None:
        now = self._clock.now()
        over = [pod for pod in self._roster.of(workload_uid, attempt) if pod.ended(now)]
        if not over:
            return
        self._journal.write(Forgotten(tuple(pod.uid for pod in over)))
        for pod in over:
            self._roster.drop(pod)
        if self._journal.is_long:
            self._journal.compact(self._roster.entries())

    async def discard(self, slug: str) -> None:
        """There is no working directory."""

    async def logs(self, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        return self._roster.log(self._pod(pod_uid)).read(position, limit, self._clock.now())

    async def service_address(self, workload_uid: str) -> str:
        """A name that nothing answers to, and that says why."""
        now = self._clock.now()
        pods = [pod for pod in self._roster.pods.values() if pod.attempt.workload_uid == workload_uid]
        up = next((pod for pod in pods if pod.attempt.service_port and pod.seen(now).ready), None)
        return f"{up.attempt.slug}.simulated.invalid:{up.attempt.service_port}" if up else ""

    def serving(self) -> tuple[Serving, ...]:
        """Nothing listens anywhere."""
        return ()

    async def shells(self, pod_uid: str) -> list[str]:
        self._pod(pod_uid)
        return SHELLS

    async def execute(self, pod_uid: str, command: list[str], *, tty: bool, columns: int, rows: int) -> Terminal:
        pod = self._pod(pod_uid)
        if not pod.seen(self._clock.now()).ready:
            raise StokerError(
                ErrorCode.STATE_FORBIDS, "The pod does not run, so nothing can be started in it. It is simulated."
            )
        return SimulatedTerminal(command, answers(pod, self.machines, self.readings_now), tty=tty)

    def pods(self) -> list[Pod]:
        """Every pod that is held, living or ended."""
        return list(self._roster.pods.values())

    def adopt(self, pods: Iterable[Pod]) -> None:
        """Go on with pods that began somewhere else."""
        now = self._clock.now()
        new = [pod for pod in pods if pod.uid not in self._roster.pods]
        entries: list[Entry] = [Applied(pod.attempt, (pod.place,)) for pod in new]
        stops = tuple((pod.uid, pod.stop_at) for pod in new if pod.stop_at is not None)
        for entry in [*entries, Stopped(stops)] if stops else entries:
            self._journal.write(entry)
            self._roster.replay(entry)
        self._roster.settle(now)
        self._wake.set()

    def readings_now(self) -> Readings:
        now = self._clock.now()
        return self.sensors.readings(now, self._roster.held(now))

    async def readings(self) -> Readings:
        now = self._clock.now()
        held = self._roster.held(now)
        return await asyncio.to_thread(self.sensors.readings, now, held)

    def catch_up(self) -> None:
        """Tell what has fallen due."""
        now = self._clock.now()
        self._break(now)
        self._roster.advance(now)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
            self._roster.close()
            self._journal.close()

    def _load(self) -> None:
        for entry in self._journal.read():
            self._roster.replay(entry)
        self._roster.settle(self._clock.now())
        self._journal.compact(self._roster.entries())
        self._next_fault = self.faults.next_change(self._faults_until)

    async def _run(self) -> None:
        """Tell what falls due, in batches."""
        while True:
            self.catch_up()
            times = [at for at in (self._roster.next_due(), self._next_fault) if at is not None]
            wait = (min(times) - self._clock.now()) / 1000 if times else LONGEST_WAIT_SECONDS
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LONGEST_WAIT_SECONDS, max(TICK_SECONDS, wait))):
                    await self._wake.wait()
                    await asyncio.sleep(TICK_SECONDS)

    def _break(self, now: int) -> None:
        if self._next_fault is None or self._next_fault > now:
            return
        before, self._faults_until = self._faults_until, now
        for fault in self.faults.between(before, now):
            self._roster.hit(fault, now)
            self._roster.tell(self.machines.names[fault.place])
        for fault in self.faults.ended(before, now):
            self._roster.tell(self.machines.names[fault.place])
        self._next_fault = self.faults.next_change(now)

    def _changes(self, names: list[str]) -> Changes:
        now = self._clock.now()
        pods = self._roster.pods
        places = [place for name in names if (place := self.machines.place.get(name)) is not None]
        return Changes(
            nodes=tuple(self.faults.node(place, now) for place in places),
            pods=tuple(pods[name].seen(now) for name in names if name in pods),
            gone=tuple(name for name in names if name not in pods and name not in self.machines.place),
        )

    def _stop(self, stops: list[tuple[str, int]], now: int) -> None:
        if not stops:
            return
        self._journal.write(Stopped(tuple(stops)))
        for uid, at in stops:
            pod = self._roster.pods[uid]
            pod.stop(at)
            self._roster.changed(pod, now)

    def _pod(self, uid: str) -> Pod:
        if pod := self._roster.pods.get(uid):
            return pod
        raise not_found("pod", uid)
