"""The rollouts of all workloads of an engine.

There is at most one rollout task per workload. A rollout that fails is retried with back-off, and the reason is
published as an event until the rollout succeeds or is cancelled.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncGenerator
from typing import Generic

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.engines.model import EngineEvent, LaunchSpec
from stoker.engines.protocol import PERMANENT_ERRORS
from stoker.engines.replicas.replica import P, ReplicaRegistry, ReplicaStarter
from stoker.engines.replicas.rollout import Rollout

START_DELAYED = "StartDelayed"
_INITIAL_BACKOFF_SECONDS = 2.0
_MAX_BACKOFF_SECONDS = 60.0

log = logging.getLogger(__name__)


class _WorkloadLock:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.holders = 0


class Rollouts(Generic[P]):
    """`apply` and `cancel` are called under the workload's lock."""

    def __init__(
        self, registry: ReplicaRegistry[P], starter: ReplicaStarter[P], rollout: Rollout[P], clock: Clock
    ) -> None:
        self._registry = registry
        self._starter = starter
        self._rollout = rollout
        self._clock = clock
        self._locks: dict[str, _WorkloadLock] = {}
        self._running: dict[str, tuple[LaunchSpec, asyncio.Task[None]]] = {}

    @contextlib.asynccontextmanager
    async def lock(self, workload_uid: str) -> AsyncGenerator[None]:
        """The lock of one workload; it exists only while somebody holds it or waits for it."""
        entry = self._locks.setdefault(workload_uid, _WorkloadLock())
        entry.holders += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.holders -= 1
            if not entry.holders:
                del self._locks[workload_uid]

    async def apply(self, launch_spec: LaunchSpec) -> None:
        """Start missing pods. If pods have to be replaced, or if that takes long, it continues in a task after this
        returns."""
        if await self._is_rolling_out(launch_spec) or self._is_stale(launch_spec):
            return
        if not self._rollout.outdated_pods(launch_spec) and not await self._starter.takes_long(launch_spec):
            await self._starter.start_all(launch_spec)
            return
        task = asyncio.create_task(self._run(launch_spec))
        self._running[launch_spec.ref.uid] = (launch_spec, task)

    async def cancel(self, workload_uid: str) -> None:
        if running := self._running.pop(workload_uid, None):
            self._registry.withdraw_event(workload_uid, START_DELAYED)
            running[1].cancel()
            await asyncio.gather(running[1], return_exceptions=True)

    async def close(self) -> None:
        for workload_uid in list(self._running):
            await self.cancel(workload_uid)

    async def _run(self, launch_spec: LaunchSpec) -> None:
        try:
            for failures in itertools.count(1):
                try:
                    await self._rollout.run(launch_spec)
                    self._registry.withdraw_event(launch_spec.ref.uid, START_DELAYED)
                    return
                except StokerError as error:
                    log.warning("The pods of workload %s cannot be started: %s", launch_spec.ref.slug, error.message)
                    self._report_delay(launch_spec, error.message)
                    if error.code in PERMANENT_ERRORS:
                        self._registry.reject(launch_spec, error.message)
                        return
                except Exception:
                    log.exception("Starting the pods of workload %s has failed", launch_spec.ref.slug)
                    self._report_delay(launch_spec, "Something unexpected happened; the server's log has more.")
                await self._clock.sleep(
                    backoff_seconds(failures, first=_INITIAL_BACKOFF_SECONDS, longest=_MAX_BACKOFF_SECONDS)
                )
        finally:
            if self._running.get(launch_spec.ref.uid, (None,))[0] is launch_spec:
                del self._running[launch_spec.ref.uid]

    def _report_delay(self, launch_spec: LaunchSpec, reason: str) -> None:
        pending = tuple(pod.uid for pod in launch_spec.pods if not self._has_started(pod.uid))
        self._registry.publish_event(
            EngineEvent(launch_spec.ref.uid, launch_spec.ref.attempt, START_DELAYED, reason, pending)
        )

    def _has_started(self, uid: str) -> bool:
        pod = self._registry.find(uid)
        return pod is not None and pod.has_started

    async def _is_rolling_out(self, launch_spec: LaunchSpec) -> bool:
        """Whether the same rollout or a newer one is running. An older one, or one of other pods, is cancelled."""
        running = self._running.get(launch_spec.ref.uid)
        if running is None:
            return False
        current, new = ((spec.ref.attempt, spec.ref.revision) for spec in (running[0], launch_spec))
        if current > new or (current == new and _uids(running[0]) == _uids(launch_spec)):
            return True
        await self.cancel(launch_spec.ref.uid)
        return False

    def _is_stale(self, launch_spec: LaunchSpec) -> bool:
        pods = self._registry.attempt_pods(launch_spec.ref.uid, launch_spec.ref.attempt)
        return any(pod.record.revision > launch_spec.ref.revision for pod in pods)


def _uids(launch_spec: LaunchSpec) -> set[str]:
    return {pod.uid for pod in launch_spec.pods}
