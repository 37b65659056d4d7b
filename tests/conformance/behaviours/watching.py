"""`watch`: a full sync first, and nothing is lost to a reader that was away or slow."""

import asyncio
import contextlib

from tests.conformance.harness import ClusterView, ConformanceHarness
from tests.conformance.programs import ENDS_SOON, RUNS, exits_with

from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import FullSync, Observation


class TestWatch:
    def test_a_full_sync_comes_first_and_lists_everything(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, replicas=2)
        for uid in harness.uids(launch_spec):
            harness.running(uid)

        async def first() -> Observation:
            async with contextlib.aclosing(harness.open_watch()) as observations:
                return await anext(observations)

        observation = harness.run(first())
        assert isinstance(observation, FullSync)
        assert harness.fixture.node_name in {node.name for node in observation.nodes}
        assert {pod.uid for pod in observation.pods if pod.workload_uid} == set(harness.uids(launch_spec))

    def test_a_slow_reader_learns_the_last_state_of_everything(self, harness: ConformanceHarness) -> None:
        slow = ClusterView()
        watch = harness.open_watch()

        async def read() -> None:
            slow.update(await anext(watch))

        harness.run(read())
        ended, removed, running = (harness.start(program) for program in (exits_with(3), exits_with(0), RUNS))
        harness.ended(harness.uid(ended))
        harness.ended(harness.uid(removed))
        harness.running(harness.uid(running))
        harness.release(removed)
        harness.gone(harness.uid(removed))

        async def catch_up() -> None:
            wanted = {harness.uid(ended): PodPhase.FAILED, harness.uid(running): PodPhase.RUNNING}
            while {uid: pod.phase for uid, pod in slow.pods.items() if pod.workload_uid} != wanted:
                await read()
            await watch.aclose()

        harness.run(catch_up())
        assert slow.pods[harness.uid(ended)].exit_code == 3

    def test_two_readers_learn_the_same(self, harness: ConformanceHarness) -> None:
        views = [ClusterView(), ClusterView()]

        async def follow(view: ClusterView) -> None:
            async for observation in harness.engine.watch():
                view.update(observation)

        async def begin() -> list[asyncio.Task[None]]:
            return [asyncio.create_task(follow(view)) for view in views]

        tasks = harness.run(begin())
        uid = harness.uid(harness.start(exits_with(6)))
        for view in views:
            harness.wait(lambda view=view: (pod := view.pods.get(uid)) and pod.exit_code == 6, "the end in every view")

        async def end() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        harness.run(end())

    def test_an_end_while_nobody_watched_is_reported_afterwards(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(ENDS_SOON))
        harness.close()
        harness.settle()
        harness.settle()
        harness.open()
        assert harness.ended(uid).exit_code == 4

    def test_a_pod_that_was_removed_while_nobody_watched_is_not_listed(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(exits_with(0))
        uid = harness.uid(launch_spec)
        harness.ended(uid)
        harness.call_and_kill("release", launch_spec)
        assert uid not in harness.view.pods
