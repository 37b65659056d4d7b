"""A server that is killed between any two calls, or inside of one, loses nothing and runs nothing twice."""

from tests.conformance.behaviours.applying import count_runs
from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import CLEANS_UP, ENDS_ONCE, ENDS_SOON, RUNS, exits_with

from stoker.domain.workload.phase import PodPhase


class TestCrashes:
    def test_after_apply_the_pods_run_and_are_found(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.specs.build(ENDS_SOON)
        harness.call_and_kill("apply", launch_spec)
        uid = harness.uid(launch_spec)
        pod = harness.until(uid, lambda pod: True)
        assert (pod.workload_uid, pod.name) == (launch_spec.ref.uid, launch_spec.pods[0].name)
        assert harness.ended(uid).exit_code == 4
        assert harness.pods_of(launch_spec) == {uid}

    @needs(Feature.WORKING_DIRECTORY)
    def test_after_apply_it_can_be_repeated(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.specs.build(ENDS_ONCE)
        harness.call_and_kill("apply", launch_spec)
        harness.apply(launch_spec)
        assert harness.ended(harness.uid(launch_spec)).exit_code == 0
        assert count_runs(harness, launch_spec) == 1

    def test_after_terminate_it_can_be_repeated(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS)
        uid = harness.uid(launch_spec)
        harness.running(uid)
        harness.call_and_kill("terminate", launch_spec)
        harness.terminate(launch_spec)
        assert harness.ended(uid).phase is PodPhase.FAILED

    @needs(Feature.PROGRAMS)
    def test_pods_that_were_found_get_their_grace(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.specs.build(CLEANS_UP)
        uid = harness.uid(launch_spec)
        harness.call_and_kill("apply", launch_spec)
        harness.prints(uid, "up")
        harness.terminate(launch_spec)
        assert harness.ended(uid).exit_code == 7

    def test_after_release_and_purge_nothing_is_left(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(exits_with(0))
        uid = harness.uid(launch_spec)
        harness.ended(uid)
        harness.call_and_kill("release", launch_spec)
        assert uid not in harness.view.pods
        assert harness.pods_of(launch_spec) == frozenset()
        harness.release(launch_spec)
        harness.call_and_kill("purge", launch_spec)
        harness.purge(launch_spec)
        assert uid not in harness.view.pods

    @needs(Feature.CRASH_POINTS, Feature.WORKING_DIRECTORY)
    def test_anywhere_inside_of_apply_ends_in_one_run(self, harness: ConformanceHarness) -> None:
        for point in harness.fixture.crash_points:
            launch_spec = harness.specs.build(ENDS_ONCE)
            harness.call_and_kill("apply", launch_spec, point)
            harness.apply(launch_spec)
            assert harness.ended(harness.uid(launch_spec)).exit_code == 0
            assert count_runs(harness, launch_spec) == 1
