"""The CPU and memory that pods use are sampled."""

from tests.engines.docker.harness import DockerHarness

from stoker.domain.clock import SystemClock


def test_a_busy_pod_uses_cpu_and_an_idle_one_does_not(harness: DockerHarness) -> None:
    busy = harness.pod("while :; do :; done")
    idle = harness.pod("sleep 600")
    done = harness.pod("true")
    harness.running(busy)
    harness.running(idle)
    harness.end(done)

    async def main() -> dict[str, tuple[int | None, int]]:
        collector = harness.engine.usage_collector(SystemClock())
        first = await collector.collect()
        assert {pod.cpu_milli for pod in first.pods} == {None}
        await SystemClock().sleep(1.0)
        second = await collector.collect()
        return {pod.pod_uid: (pod.cpu_milli, pod.memory_bytes) for pod in second.pods}

    usage = harness.run(main())
    assert set(usage) == {busy, idle}
    assert (usage[busy][0] or 0) > 100
    assert (usage[idle][0] or 0) < 50
    assert usage[idle][1] > 0
