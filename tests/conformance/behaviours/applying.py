"""`apply` makes an attempt exist once, however often and by whomever it is called."""

import asyncio

from msgspec import structs
from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import ENDS_ONCE, RUNS, RUNS_ONCE

from stoker.domain.errors import StokerError
from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import LaunchSpec
from stoker.engines.protocol import PERMANENT_ERRORS, Engine


def count_runs(harness: ConformanceHarness, launch_spec: LaunchSpec) -> int:
    return (harness.fixture.read_work_file(launch_spec, "runs") or "").count("run\n")


async def apply_as_controller(engine: Engine, launch_spec: LaunchSpec) -> None:
    """Repeat the call after errors that are not permanent."""
    while True:
        try:
            await engine.apply(launch_spec)
            return
        except StokerError as error:
            if error.code in PERMANENT_ERRORS:
                raise
        await asyncio.sleep(0.05)


class TestApply:
    def test_pods_are_known_as_soon_as_apply_has_returned(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.specs.build(RUNS, replicas=3)

        async def apply() -> frozenset[str]:
            await harness.engine.apply(launch_spec)
            return await harness.engine.pods_of(launch_spec.ref)

        harness.remember(launch_spec)
        found = harness.run(apply())
        assert found == set(harness.uids(launch_spec))
        assert len(found) == 3

    def test_pods_of_an_unknown_workload_are_none(self, harness: ConformanceHarness) -> None:
        assert harness.pods_of(harness.specs.build(RUNS)) == frozenset()

    def test_a_second_apply_changes_nothing(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, replicas=2)
        before = {uid: harness.ready(uid) for uid in harness.uids(launch_spec)}
        harness.apply(launch_spec)
        harness.settle()
        assert {uid: pod for uid, pod in harness.view.pods.items() if pod.workload_uid} == before

    def test_an_ended_pod_is_not_started_again(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(ENDS_ONCE)
        end = harness.ended(harness.uid(launch_spec))
        assert end.phase is PodPhase.SUCCEEDED
        harness.apply(launch_spec)
        harness.reopen()
        harness.apply(launch_spec)
        harness.settle()
        assert harness.view.pods[harness.uid(launch_spec)].ended_at == end.ended_at

    @needs(Feature.WORKING_DIRECTORY)
    def test_a_program_is_started_once(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(ENDS_ONCE)
        harness.apply(launch_spec)
        harness.ended(harness.uid(launch_spec))
        harness.apply(launch_spec)
        harness.reopen()
        harness.apply(launch_spec)
        harness.settle()
        assert count_runs(harness, launch_spec) == 1

    @needs(Feature.WORKING_DIRECTORY, Feature.SECOND_ENGINE)
    def test_two_engines_that_apply_at_once_start_a_program_once(self, harness: ConformanceHarness) -> None:
        launch_specs = [harness.specs.build(ENDS_ONCE) for _ in range(10)]

        async def apply() -> None:
            engines = [await harness.fixture.open() for _ in range(2)]
            try:
                for launch_spec in launch_specs:
                    await asyncio.gather(*(apply_as_controller(engine, launch_spec) for engine in engines))
            finally:
                for engine in engines:
                    await engine.close()

        for launch_spec in launch_specs:
            harness.remember(launch_spec)
        harness.run(apply())
        harness.reopen()
        for launch_spec in launch_specs:
            assert harness.ended(harness.uid(launch_spec)).exit_code == 0
            assert count_runs(harness, launch_spec) == 1

    def test_attempts_of_one_workload_are_separate(self, harness: ConformanceHarness) -> None:
        first = harness.start(RUNS)
        second = harness.specs.build(RUNS, attempt=2)
        ref = structs.replace(second.ref, uid=first.ref.uid, slug=first.ref.slug)
        second = harness.apply(structs.replace(second, ref=ref))
        assert (harness.pods_of(first), harness.pods_of(second)) == ({harness.uid(first)}, {harness.uid(second)})
        assert [harness.running(harness.uid(each)).attempt for each in (first, second)] == [1, 2]
        harness.terminate(first)
        harness.ended(harness.uid(first))
        harness.release(first)
        harness.gone(harness.uid(first))
        assert harness.view.pods[harness.uid(second)].phase is PodPhase.RUNNING

    def test_an_older_revision_after_a_newer_one_is_ignored(self, harness: ConformanceHarness) -> None:
        old = harness.specs.build(RUNS)
        new = harness.apply(harness.specs.next_revision(old, RUNS))
        harness.running(harness.uid(new))
        harness.apply(old)
        harness.reopen()
        harness.apply(old)
        harness.settle()
        assert harness.pods_of(new) == {harness.uid(new)}
        assert harness.view.pods[harness.uid(new)].phase is PodPhase.RUNNING

    @needs(Feature.WORKING_DIRECTORY)
    def test_replicas_of_a_job_share_a_working_directory(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS_ONCE, replicas=2)
        for uid in harness.uids(launch_spec):
            harness.prints(uid, "up")
        assert count_runs(harness, launch_spec) == 2
