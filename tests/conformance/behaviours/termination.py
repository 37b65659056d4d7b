"""`terminate` ends pods at any time of their lives, with whatever they have started."""

import time

from tests.conformance.behaviours.applying import count_runs
from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import CLEANS_UP, IGNORES_TERM, RUNS, STARTS_LATE, STUBBORN_TREE, exits_with

from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import LaunchSpec


def create_without_start(harness: ConformanceHarness) -> LaunchSpec:
    """A launch spec whose pod exists and has not started."""
    launch_spec = harness.specs.build(STARTS_LATE)
    if harness.fixture.crash_points:
        harness.call_and_kill("apply", launch_spec, harness.fixture.crash_points[0])
    else:
        harness.apply(launch_spec)
    harness.until(harness.uid(launch_spec), lambda pod: pod.phase is PodPhase.PENDING, "a pending pod")
    return launch_spec


class TestTerminate:
    def test_a_running_pod_ends_by_sigterm(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, replicas=2)
        for uid in harness.uids(launch_spec):
            harness.running(uid)
        harness.terminate(launch_spec)
        for uid in harness.uids(launch_spec):
            pod = harness.ended(uid)
            assert (pod.phase, pod.exit_code, pod.signal) == (PodPhase.FAILED, 143, 15)

    def test_a_pod_that_has_not_started_never_does(self, harness: ConformanceHarness) -> None:
        launch_spec = create_without_start(harness)
        uid = harness.uid(launch_spec)
        harness.terminate(launch_spec)
        harness.ended_or_gone(uid)
        harness.reopen()
        harness.settle()
        assert not [pod for pod in harness.view.reported_pods if pod.uid == uid and pod.started_at]
        if Feature.WORKING_DIRECTORY not in harness.fixture.unsupported:
            assert count_runs(harness, launch_spec) == 0

    def test_a_stop_right_after_the_start_is_not_missed(self, harness: ConformanceHarness) -> None:
        for _ in range(3):
            launch_spec = harness.specs.build(RUNS)

            async def main(launch_spec: LaunchSpec = launch_spec) -> None:
                await harness.engine.apply(launch_spec)
                await harness.engine.terminate(launch_spec.ref, grace_seconds=30.0)

            harness.remember(launch_spec)
            harness.run(main())
            harness.ended_or_gone(harness.uid(launch_spec))

    def test_an_ended_pod_stays_as_it_ended(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(exits_with(3))
        end = harness.ended(harness.uid(launch_spec))
        harness.terminate(launch_spec)
        harness.terminate(launch_spec, grace_seconds=0.0)
        harness.settle()
        assert harness.view.pods[end.uid] == end

    def test_an_unknown_workload_is_no_error(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.specs.build(RUNS)
        harness.terminate(launch_spec)
        harness.terminate(launch_spec, force=True)
        harness.release(launch_spec)
        harness.purge(launch_spec)

    def test_only_some_pods_can_be_stopped(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, replicas=3)
        first, second, third = harness.uids(launch_spec)
        for uid in (first, second, third):
            harness.running(uid)
        harness.terminate(launch_spec, only={second, "absent"})
        harness.ended(second)
        harness.settle()
        assert [harness.view.pods[uid].phase for uid in (first, third)] == [PodPhase.RUNNING] * 2
        harness.terminate(launch_spec, only=set())
        harness.settle()
        assert not harness.view.pods[first].phase.is_finished

    def test_a_second_stop_does_not_put_the_end_off(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS)
        harness.running(harness.uid(launch_spec))
        harness.terminate(launch_spec)
        harness.terminate(launch_spec, grace_seconds=600.0)
        assert harness.ended(harness.uid(launch_spec)).signal == 15

    @needs(Feature.PROGRAMS)
    def test_a_program_can_clean_up(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(CLEANS_UP)
        uid = harness.uid(launch_spec)
        harness.prints(uid, "up")
        harness.terminate(launch_spec)
        assert harness.ended(uid).exit_code == 7
        assert harness.lines(uid)[-1] == "bye"

    @needs(Feature.PROGRAMS)
    def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(IGNORES_TERM)
        uid = harness.uid(launch_spec)
        harness.prints(uid, "up")
        began = time.monotonic()
        harness.terminate(launch_spec, grace_seconds=1.0)
        pod = harness.ended(uid)
        assert time.monotonic() - began > 0.9
        assert (pod.phase, pod.exit_code, pod.signal) == (PodPhase.FAILED, 137, 9)

    @needs(Feature.PROGRAMS)
    def test_a_second_stop_can_shorten_the_grace(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(IGNORES_TERM)
        uid = harness.uid(launch_spec)
        harness.prints(uid, "up")
        harness.terminate(launch_spec, grace_seconds=600.0)
        harness.settle()
        harness.terminate(launch_spec, grace_seconds=0.0)
        assert harness.ended(uid).signal == 9

    @needs(Feature.PROGRAMS)
    def test_no_grace_kills_at_once(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(CLEANS_UP)
        uid = harness.uid(launch_spec)
        harness.prints(uid, "up")
        harness.terminate(launch_spec, grace_seconds=0.0)
        assert harness.ended(uid).signal == 9
        assert "bye" not in harness.lines(uid)

    @needs(Feature.PROGRAMS)
    def test_stubborn_children_end_with_the_pod(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(STUBBORN_TREE)
        uid = harness.uid(launch_spec)
        harness.prints(uid, "up")
        assert len(harness.fixture.processes(uid)) >= 3
        harness.terminate(launch_spec, grace_seconds=0.2)
        assert harness.ended(uid).phase is PodPhase.FAILED
        assert harness.fixture.processes(uid) == []

    @needs(Feature.PROGRAMS)
    def test_force_ends_a_pod_that_is_in_its_grace(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(STUBBORN_TREE)
        uid = harness.uid(launch_spec)
        harness.prints(uid, "up")
        harness.terminate(launch_spec, grace_seconds=600.0)
        harness.terminate(launch_spec, grace_seconds=600.0, force=True)
        harness.ended_or_gone(uid)
        harness.processes_ended(uid)
