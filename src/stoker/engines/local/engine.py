"""Pods as processes of this machine. Every pod has a keeper that outlives the server, so what is on disk and what
the keepers say is the truth; nothing of an engine but open connections is lost when it goes."""

import asyncio
import contextlib
import logging
import resource
from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec import structs

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import not_found
from stoker.domain.node import CONTAINED, Node
from stoker.domain.reach import LogLine, Terminal
from stoker.domain.report_token import ReportTo
from stoker.engines.base import Capabilities, Changes, Everything, Observation, Order, Serving
from stoker.engines.feed import Mailbox
from stoker.engines.local import cgroups, devices, surroundings
from stoker.engines.local.containment import Containment, ContainmentMode, containment
from stoker.engines.local.logs import read_log
from stoker.engines.local.machine import this_machine
from stoker.engines.local.orders import Limits
from stoker.engines.local.places import Places
from stoker.engines.local.pods import Pod
from stoker.engines.local.rollout import Rollout
from stoker.engines.local.roster import Roster
from stoker.engines.local.services import Services
from stoker.engines.local.starter import Starter
from stoker.engines.local.terminal import open_terminal

log = logging.getLogger(__name__)


class _Turn:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.takers = 0


class LocalEngine:
    """Open one with `await LocalEngine.open(data_dir)`."""

    def __init__(
        self, places: Places, node: Node, kept: Containment, limits: Limits, service_host: str, clock: Clock
    ) -> None:
        self.containment = kept
        self._node = node
        self._places = places
        self._services = Services(places.services, service_host)
        self._roster = Roster(places, clock, self._services.follow)
        self._starter = Starter(places, limits, self._roster)
        self._rollout = Rollout(self._roster, self._starter, clock)
        self._turns: dict[str, _Turn] = {}
        self._rolling: dict[str, tuple[Order, asyncio.Task[None]]] = {}

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        *,
        node_name: str = "",
        gpus: int | None = None,
        mode: ContainmentMode = ContainmentMode.AUTO,
        hidden: tuple[Path, ...] = (),
        service_host: str = "127.0.0.1",
        log_segment_bytes: int = 16 * 1024**2,
        log_segments: int = 4,
        first_user: int = 0,
        clock: Clock | None = None,
        reports: ReportTo | None = None,
    ) -> "LocalEngine":
        """Adopt the pods that are there. `gpus` declares pretend devices in place of those that were found; `hidden`
        are files and folders outside the data directory that no job may see; `first_user` is where the users of
        jobs begin, if the server is root; `reports` is where jobs send metrics."""
        kept = await asyncio.to_thread(containment, mode, first_user)
        groups = cgroups.take(cgroups.detect())
        walls = kept.mode is ContainmentMode.NAMESPACES
        limits = Limits(walls, groups, hidden, log_segment_bytes, log_segments, first_user, reports)
        found = await asyncio.to_thread(devices.found) if gpus is None else devices.pretend(gpus)
        _allow_many_files()
        node = this_machine(node_name, found)
        labels = {**node.labels, CONTAINED: str(kept.mount_namespace).lower()}
        node = structs.replace(node, labels=labels)
        engine = cls(Places(data_dir), node, kept, limits, service_host, clock or SystemClock())
        await engine._roster.load()
        for pod in list(engine._roster.pods.values()):
            engine._services.follow(pod)
        await engine._services.settled()
        return engine

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(restarts=True)

    @property
    def node(self) -> Node:
        return self._node

    def pod_roots(self) -> dict[str, int]:
        """The keeper of each pod that runs: all its processes are below it. Any thread may ask."""
        pods = self._roster.pods.copy()  # in one step: the loop's thread may add to it meanwhile
        return {uid: link.pid for uid, pod in pods.items() if (link := pod.link) is not None}

    async def observe(self) -> AsyncGenerator[Observation]:
        mailbox = Mailbox()
        self._roster.observers.add(mailbox)
        try:
            yield Everything((self._node,), tuple(pod.seen() for pod in self._roster.pods.values()))
            while uids := await mailbox.take():
                there = [pod.seen() for uid in uids if (pod := self._roster.pods.get(uid))]
                gone = tuple(uid for uid in uids if uid not in self._roster.pods)
                yield Changes(pods=tuple(there), gone=gone)
        finally:
            self._roster.observers.discard(mailbox)

    async def log_activity(self) -> AsyncGenerator[str]:
        mailbox = Mailbox()
        self._roster.log_readers.add(mailbox)
        try:
            for uid in list(self._roster.pods):
                yield uid
            while uids := await mailbox.take():
                for uid in uids:
                    yield uid
        finally:
            self._roster.log_readers.discard(mailbox)

    async def apply(self, order: Order) -> None:
        """Start what is missing. Where pods have to be replaced for it, that goes on after this returns."""
        async with self._turn(order.workload_uid):
            if await self._is_under_way(order) or self._is_stale(order):
                return
            if not self._rollout.outdated(order):
                await self._rollout.start_all(order)
                return
            task = asyncio.create_task(self._roll(order))
            self._rolling[order.workload_uid] = (order, task)

    async def remove(self, workload_uid: str, attempt: int, grace_seconds: float) -> frozenset[str]:
        async with self._turn(workload_uid):
            await self._halt(workload_uid)
            there = self._roster.of(workload_uid, attempt)
            for pod in there:
                await self._roster.stop(pod, grace_seconds, "It was stopped before it began.")
            return frozenset(pod.record.uid for pod in there)

    async def forget(self, workload_uid: str, attempt: int) -> None:
        async with self._turn(workload_uid):
            for pod in self._roster.of(workload_uid, attempt):
                if pod.ended:
                    self._roster.drop(pod)
                    await asyncio.to_thread(self._places.let_go, pod.path)

    async def discard(self, slug: str) -> None:
        """Remove the working directory of a workload whose pods have ended."""
        await asyncio.to_thread(self._places.discard, slug)

    async def logs(self, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        return await asyncio.to_thread(read_log, self._pod(pod_uid).path, position, limit)

    async def service_address(self, workload_uid: str) -> str:
        await self._services.settled()
        return self._services.address(workload_uid)

    def serving(self) -> list[Serving]:
        return self._services.serving()

    async def shells(self, pod_uid: str) -> list[str]:
        self._pod(pod_uid)
        return surroundings.shells()

    async def execute(self, pod_uid: str, command: list[str], *, tty: bool, columns: int, rows: int) -> Terminal:
        return await open_terminal(self._pod(pod_uid).path, command, tty=tty, columns=columns, rows=rows)

    async def close(self) -> None:
        for uid in list(self._rolling):
            await self._halt(uid)
        await self._services.close()
        await self._roster.close()

    async def _roll(self, order: Order) -> None:
        try:
            await self._rollout.run(order)
        except Exception:
            log.exception("Replacing the pods of workload %s has stopped", order.slug)
        finally:
            if self._rolling.get(order.workload_uid, (None,))[0] is order:
                del self._rolling[order.workload_uid]

    async def _is_under_way(self, order: Order) -> bool:
        """Whether the same replacement, or a newer one, runs already; an older one, or other pods, is given up."""
        running = self._rolling.get(order.workload_uid)
        if running is None:
            return False
        theirs, ours = ((each.attempt, each.revision) for each in (running[0], order))
        if theirs > ours or (theirs == ours and _uids(running[0]) == _uids(order)):
            return True
        await self._halt(order.workload_uid)
        return False

    def _is_stale(self, order: Order) -> bool:
        pods = self._roster.of(order.workload_uid, order.attempt)
        return any(pod.record.revision > order.revision for pod in pods)

    async def _halt(self, workload_uid: str) -> None:
        if running := self._rolling.pop(workload_uid, None):
            running[1].cancel()
            await asyncio.gather(running[1], return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _turn(self, workload_uid: str) -> AsyncGenerator[None]:
        """One at a time for each workload."""
        turn = self._turns.setdefault(workload_uid, _Turn())
        turn.takers += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.takers -= 1
            if not turn.takers:
                del self._turns[workload_uid]

    def _pod(self, uid: str) -> Pod:
        if pod := self._roster.pods.get(uid):
            return pod
        raise not_found("pod", uid)


def _uids(order: Order) -> set[str]:
    return {pod.uid for pod in order.pods}


def _allow_many_files() -> None:
    """Two descriptors for each running pod: take all that this process may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
