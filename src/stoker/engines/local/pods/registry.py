"""All pods of this machine, updated by notifications of their shims. A pod is added once and removed when it is
released."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.domain.clock import Clock
from stoker.engines.coalescing_queue import CoalescingQueue
from stoker.engines.local.isolation import cgroups
from stoker.engines.local.node.orphan_processes import kill_orphans
from stoker.engines.local.pods.paths import LocalPaths
from stoker.engines.local.pods.pod import LocalPod, read_pod
from stoker.engines.local.shim_client import connect_shim
from stoker.engines.model import EngineEvent, LaunchSpec

_CONNECT_DELAYS_SECONDS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

log = logging.getLogger(__name__)


class PodRegistry:
    def __init__(self, paths: LocalPaths, clock: Clock, on_change: Callable[[LocalPod], None]) -> None:
        self.pods: dict[str, LocalPod] = {}
        self.observers: set[CoalescingQueue] = set()
        self.log_observers: set[CoalescingQueue] = set()
        self.events: dict[str, EngineEvent] = {}
        self._paths = paths
        self._clock = clock
        self._on_change = on_change
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read the pods that are on disk, connect to the shims that run, and find out which pods were lost."""
        found = [pod for path in sorted(self._paths.pods_dir.iterdir()) if (pod := read_pod(path))]
        lost = []
        for pod in found:
            self.pods[pod.record.uid] = pod
            if pod.is_finished:
                cgroups.remove(pod.record.groups)
            elif not self.connect(pod):
                if pod.is_shim_alive():
                    self._spawn_task(self.wait_for_shim(pod, "Its shim died before the command began."))
                elif pod.has_started:
                    pod.reload()
                    lost += [] if pod.is_finished else [pod]
        await self.mark_lost(lost)
        log.info("Found %d pods, %d of them running and %d lost", len(found), len(self.connected_pods()), len(lost))

    def find(self, uid: str) -> LocalPod | None:
        return self.pods.get(uid)

    def attempt_pods(self, workload_uid: str, attempt: int) -> list[LocalPod]:
        """All pods of an attempt, by rank."""
        found = [
            pod
            for pod in self.pods.values()
            if pod.record.workload_uid == workload_uid and pod.record.attempt == attempt
        ]
        return sorted(found, key=lambda pod: (pod.record.rank, pod.record.revision))

    def connected_pods(self) -> list[LocalPod]:
        return [pod for pod in self.pods.values() if pod.shim is not None]

    def rendezvous_owners(self) -> dict[int, str]:
        """By port: the slug of the living workload whose ranks meet there."""
        living = [pod.record for pod in self.pods.values() if not pod.is_finished]
        return {record.rendezvous_port: record.slug for record in living if record.rendezvous_port}

    def add(self, pod: LocalPod) -> None:
        self.pods[pod.record.uid] = pod
        self.notify_changed(pod)

    def remove(self, pod: LocalPod) -> None:
        """Remove a pod that has ended."""
        del self.pods[pod.record.uid]
        self.notify_changed(pod)

    def connect(self, pod: LocalPod) -> bool:
        """Connect to the pod's shim. Returns False if it does not run."""
        if pod.shim is None:
            pod.shim = connect_shim(
                pod.path, lambda notification: self._on_notification(pod, notification), lambda: self._on_shim_exit(pod)
            )
        return pod.shim is not None

    async def wait_for_shim(self, pod: LocalPod, reason: str) -> None:
        """Connect to a shim that may not listen yet. If it does not run, the pod has ended: for this reason if it never
        started."""
        for pause in _CONNECT_DELAYS_SECONDS:
            await asyncio.sleep(pause)
            pod.reload()
            if pod.is_finished or self.connect(pod):
                break
            if not pod.is_shim_alive():
                pod.mark_never_started(reason, self._clock.now())
                if not pod.is_finished:
                    await self.mark_lost([pod])
                break
        self.notify_changed(pod)

    async def stop(self, pod: LocalPod, grace_seconds: float, reason: str) -> None:
        """Ask a pod to stop. One that has not started never will, for this reason."""
        if pod.shim is None and not pod.is_finished:
            await self.wait_for_shim(pod, reason)
        if pod.shim is not None:
            pod.shim.stop(grace_seconds)

    def notify_changed(self, pod: LocalPod) -> None:
        """Notify all observers of a change. The engine's watchers come first: whatever fails here, they see it."""
        for queue in self.observers:
            queue.put(pod.record.uid)
        if pod.is_finished and pod.shim is not None:
            pod.shim.close()
            pod.shim = None
        if pod.is_finished:
            cgroups.remove(pod.record.groups)
            self._notify_log(pod)
        self._on_change(pod)
        pod.notify()

    def publish_event(self, event: EngineEvent) -> None:
        """Publish an event to current and future observers, until it is withdrawn."""
        name = event_key(event.workload_uid, event.reason)
        self.events[name] = event
        for queue in self.observers:
            queue.put(name)

    def withdraw_event(self, workload_uid: str, reason: str) -> None:
        self.events.pop(event_key(workload_uid, reason), None)

    def reject(self, launch_spec: LaunchSpec, reason: str) -> None:
        """Does nothing: only replacements start after `apply` has returned, and what they replace still runs."""

    async def mark_lost(self, pods: list[LocalPod]) -> None:
        """Record pods whose shims have died as lost, after all their processes were killed."""
        if open_ones := [(pod.record.uid, pod.record.groups) for pod in pods if not pod.record.namespaces]:
            await asyncio.to_thread(kill_orphans, open_ones)
        for pod in pods:
            pod.is_lost = True
            log.warning("Pod %s was lost: its shim has died", pod.record.name)
            self.notify_changed(pod)

    async def close(self) -> None:
        for pod in self.connected_pods():
            if pod.shim is not None:
                pod.shim.close()
                pod.shim = None
        for queue in self.observers | self.log_observers:
            queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_notification(self, pod: LocalPod, notification: str) -> None:
        if notification == "s":
            pod.reload()
            self.notify_changed(pod)
        else:
            self._notify_log(pod)

    def _notify_log(self, pod: LocalPod) -> None:
        for queue in self.log_observers:
            queue.put(pod.record.uid)

    def _on_shim_exit(self, pod: LocalPod) -> None:
        pod.shim = None
        pod.reload()
        if pod.is_finished:
            self.notify_changed(pod)
            return
        self._spawn_task(self.mark_lost([pod]))

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A pod could not be connected to or recorded as lost", exc_info=error)


def event_key(workload_uid: str, reason: str) -> str:
    """The key of an event in the observers' queues; it cannot be the uid of a pod."""
    return f"{workload_uid}/{reason}"
