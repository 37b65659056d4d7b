"""`release` deletes ended pods, `purge` what a deleted workload has left."""

from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import RUNS, RUNS_ONCE, exits_with

from stoker.domain.workload.phase import PodPhase


class TestRemoval:
    def test_release_deletes_only_ended_pods(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, replicas=2)
        stays, goes = harness.uids(launch_spec)
        for uid in (stays, goes):
            harness.running(uid)
        harness.release(launch_spec)
        harness.terminate(launch_spec, only={goes})
        harness.ended(goes)
        harness.release(launch_spec)
        harness.release(launch_spec)
        harness.gone(goes)
        assert harness.pods_of(launch_spec) == {stays}
        assert harness.view.pods[stays].phase is PodPhase.RUNNING
        harness.reopen()
        assert (stays in harness.view.pods, goes in harness.view.pods) == (True, False)

    def test_release_leaves_other_workloads_alone(self, harness: ConformanceHarness) -> None:
        launch_spec, other = harness.start(exits_with(0)), harness.start(exits_with(1))
        for each in (launch_spec, other):
            harness.ended(harness.uid(each))
        harness.release(launch_spec)
        harness.gone(harness.uid(launch_spec))
        assert harness.view.pods[harness.uid(other)].exit_code == 1

    @needs(Feature.WORKING_DIRECTORY)
    def test_a_working_directory_is_kept_until_it_is_purged(self, harness: ConformanceHarness) -> None:
        launch_spec, other = harness.start(RUNS_ONCE), harness.start(RUNS_ONCE)
        for each in (launch_spec, other):
            harness.prints(harness.uid(each), "up")
        harness.terminate(launch_spec)
        harness.ended(harness.uid(launch_spec))
        harness.release(launch_spec)
        harness.gone(harness.uid(launch_spec))
        assert harness.fixture.read_work_file(launch_spec, "runs") == "run\n"
        harness.purge(launch_spec)
        harness.purge(launch_spec)
        assert not harness.fixture.has_working_directory(launch_spec)
        assert harness.fixture.read_work_file(other, "runs") == "run\n"
        assert harness.view.pods[harness.uid(other)].phase is PodPhase.RUNNING
