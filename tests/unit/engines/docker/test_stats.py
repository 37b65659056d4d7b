"""The usage of containers is the mean since their last sample; only some are asked at a time."""

import asyncio

import pytest
from tests.clock import ManualClock

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.docker.api.schema import ContainerMemoryStats, ContainerStats, CpuStats, CpuUsage
from stoker.engines.docker.stats import MAX_REQUESTS_PER_COLLECTION, DockerCollector, measure, used_memory


def stats(second: int, cpu_ns: int, memory: int = 0) -> ContainerStats:
    return ContainerStats(
        f"2026-01-01T00:00:{second:02d}Z", CpuStats(CpuUsage(cpu_ns)), ContainerMemoryStats(memory, {})
    )


class ScriptedClient:
    """Answers with a counter of its own calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: StokerError | None = None

    async def stats(self, container: str) -> ContainerStats | None:
        if self.error:
            raise self.error
        self.asked.append(container)
        return stats(len(self.asked) % 60, 1)


def test_cpu_is_known_from_the_second_sample_on() -> None:
    first = measure("p", "c", stats(1, 10**9), None)
    assert first.usage.cpu_milli is None
    second = measure("p", "c", stats(3, 2 * 10**9, 5), first)
    assert (second.usage.cpu_milli, second.usage.memory_bytes) == (500, 5)


@pytest.mark.parametrize("field", ["inactive_file", "total_inactive_file"])
def test_memory_is_without_the_cache_that_the_kernel_can_drop(field: str) -> None:
    assert used_memory(ContainerMemoryStats(100, {field: 30, "other": 1})) == 70


def test_a_collection_asks_for_those_that_waited_longest() -> None:
    client = ScriptedClient()
    running = {f"p{number}": f"c{number}" for number in range(MAX_REQUESTS_PER_COLLECTION * 2)}

    async def main() -> None:
        collector = DockerCollector(client, lambda: running, ManualClock(1))  # type: ignore[arg-type]
        assert len((await collector.collect()).pods) == MAX_REQUESTS_PER_COLLECTION
        assert len((await collector.collect()).pods) == 2 * MAX_REQUESTS_PER_COLLECTION
        assert sorted(client.asked) == sorted(running.values())
        running.pop("p0")
        assert len((await collector.collect()).pods) == 2 * MAX_REQUESTS_PER_COLLECTION - 1

    asyncio.run(main())


def test_a_daemon_that_does_not_answer_fails_the_collection() -> None:
    client = ScriptedClient()
    client.error = StokerError(ErrorCode.UNAVAILABLE, "it is down")

    async def main() -> None:
        collector = DockerCollector(client, lambda: {"p": "c"}, ManualClock(1))  # type: ignore[arg-type]
        with pytest.raises(StokerError, match="docker: it is down"):
            await collector.collect()

    asyncio.run(main())
