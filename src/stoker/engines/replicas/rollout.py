"""Replaces the pods of one revision by those of the next: rank by rank, or all at once. It can be repeated at any
point.

A serving replica is stopped as late as possible: its replacement is prepared before, and where there is room for both,
the old pod runs until the new one is ready. The next rank waits for that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic

from stoker.domain.workload.spec import Kind
from stoker.engines.model import LaunchSpec
from stoker.engines.replicas.replica import P, ReplicaRegistry, ReplicaStarter

MEMINFO = Path("/proc/meminfo")


class Rollout(Generic[P]):
    """`drain` takes a pod out of its service; `available_memory` is the free memory of the node."""

    def __init__(
        self,
        registry: ReplicaRegistry[P],
        starter: ReplicaStarter[P],
        drain: Callable[[P], Awaitable[None]],
        available_memory: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._starter = starter
        self._drain = drain
        self._available_memory = available_memory

    def outdated_pods(self, launch_spec: LaunchSpec) -> list[P]:
        """Living pods of the attempt that the launch spec does not list."""
        wanted = {pod.uid for pod in launch_spec.pods}
        return [
            pod
            for pod in self._registry.attempt_pods(launch_spec.ref.uid, launch_spec.ref.attempt)
            if pod.record.uid not in wanted and not pod.is_finished
        ]

    async def run(self, launch_spec: LaunchSpec) -> None:
        """Replace outdated pods. While a new pod is not ready, the remaining old ones keep running."""
        ranks = {pod.rank for pod in launch_spec.pods}
        if not launch_spec.rolling_update or not any(
            pod.record.rank in ranks for pod in self.outdated_pods(launch_spec)
        ):
            await self._terminate(self.outdated_pods(launch_spec), launch_spec.grace_seconds)
            await self._starter.start_all(launch_spec)
            return
        for wanted in sorted(launch_spec.pods, key=lambda pod: pod.rank):
            pod = await self._starter.prepare(launch_spec, wanted)
            old = [old_pod for old_pod in self.outdated_pods(launch_spec) if old_pod.record.rank == wanted.rank]
            serving = [old_pod for old_pod in old if old_pod.is_ready and self._can_surge(launch_spec)]
            await self._terminate([old_pod for old_pod in old if old_pod not in serving], launch_spec.grace_seconds)
            await self._starter.start(launch_spec, wanted)
            if not await self._wait_ready(pod):
                return
            await self._terminate(serving, launch_spec.grace_seconds)
        await self._terminate(self.outdated_pods(launch_spec), launch_spec.grace_seconds)

    def _can_surge(self, launch_spec: LaunchSpec) -> bool:
        """Whether a replica and its replacement can run at the same time: not if they share a GPU, and not in a
        StatefulSet."""
        if launch_spec.kind != Kind.DEPLOYMENT or launch_spec.main.resources.gpu_milli:
            return False
        return self._available_memory() >= launch_spec.main.resources.memory_bytes

    async def _terminate(self, pods: list[P], grace_seconds: float) -> None:
        await asyncio.gather(*(self._drain(pod) for pod in pods if pod.is_ready))
        for pod in pods:
            await self._registry.stop(pod, grace_seconds, "It was replaced before it began.")
        for pod in pods:
            while not pod.is_finished:
                await pod.wait_for_change()

    async def _wait_ready(self, pod: P) -> bool:
        """Wait until the pod is ready; False if it ends before."""
        while not pod.is_finished:
            if pod.is_ready:
                return True
            await pod.wait_for_change()
        return False


def available_memory_bytes(meminfo: str = "") -> int:
    """MemAvailable of the kernel: what a new program can allocate without swapping; 0 if it is not known."""
    for line in (meminfo or MEMINFO.read_text()).splitlines():
        name, _, amount = line.partition(":")
        if name == "MemAvailable":
            return int(amount.split()[0]) * 1024
    return 0
