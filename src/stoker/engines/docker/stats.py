"""Samples the CPU and memory usage of pods.

Docker is asked for one container at a time, so only some are asked in each collection, the ones that waited longest
first; the others keep their last values. At rest this costs the same however many containers run.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct

from stoker.domain.clock import Clock
from stoker.domain.cluster.samples import GpuSamples, PodUsage, empty_samples
from stoker.domain.errors import StokerError
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.schema import ContainerMemoryStats, ContainerStats, parse_time_ns

COLLECTOR_NAME = "docker"
MAX_REQUESTS_PER_COLLECTION = 25
_CONCURRENT_REQUESTS = 4
_INACTIVE_FILE_FIELDS = ("total_inactive_file", "inactive_file")
"""Cache that the kernel drops when memory is needed, as cgroup v1 and v2 name it; it is not counted as used."""


class ContainerUsage(Struct, frozen=True):
    """The last sample of one container."""

    container: str
    read_at: int
    """Epoch nanoseconds, by the clock of the Docker host."""
    cpu_ns: int
    usage: PodUsage


class DockerCollector:
    """`containers` returns the running container of each pod."""

    def __init__(self, client: DockerClient, containers: Callable[[], Mapping[str, str]], clock: Clock) -> None:
        self._client = client
        self._containers = containers
        self._clock = clock
        self._last: dict[str, ContainerUsage] = {}

    @property
    def name(self) -> str:
        return COLLECTOR_NAME

    async def collect(self) -> GpuSamples:
        running = self._containers()
        self._last = {uid: last for uid, last in self._last.items() if running.get(uid) == last.container}
        slots = asyncio.Semaphore(_CONCURRENT_REQUESTS)

        async def sample(uid: str) -> None:
            async with slots:
                stats = await self._client.stats(running[uid])
            if stats is not None:
                self._last[uid] = measure(uid, running[uid], stats, self._last.get(uid))

        waiting = sorted(running, key=lambda uid: self._last[uid].read_at if uid in self._last else 0)
        results = await asyncio.gather(*map(sample, waiting[:MAX_REQUESTS_PER_COLLECTION]), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, StokerError):
                raise result
        if errors := [result for result in results if isinstance(result, StokerError)]:
            raise StokerError(errors[0].code, f"{COLLECTOR_NAME}: {errors[0].message}", hint=errors[0].hint)
        return empty_samples(self._clock.now(), pods=tuple(last.usage for last in self._last.values()))

    async def close(self) -> None:
        """The client belongs to the engine, which closes it."""


def measure(uid: str, container: str, stats: ContainerStats, last: ContainerUsage | None) -> ContainerUsage:
    """The mean CPU usage since the last sample of the container, and the memory now."""
    read_at, cpu_ns = parse_time_ns(stats.read) or 0, stats.cpu_stats.cpu_usage.total_usage
    cpu_milli = None
    if last is not None and read_at > last.read_at and cpu_ns >= last.cpu_ns:
        cpu_milli = round((cpu_ns - last.cpu_ns) * 1000 / (read_at - last.read_at))
    return ContainerUsage(container, read_at, cpu_ns, PodUsage(uid, cpu_milli, used_memory(stats.memory_stats)))


def used_memory(memory: ContainerMemoryStats) -> int:
    fields = memory.stats or {}
    cache = next((fields[name] for name in _INACTIVE_FILE_FIELDS if name in fields), 0)
    return max(0, memory.usage - cache)
