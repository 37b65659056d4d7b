"""What others run is reported, and never touched."""

from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import RUNS

from stoker.engines.model import EnginePhase, ObservedWorkload, WorkloadRef


def find_workload(harness: ConformanceHarness, name: str) -> ObservedWorkload:
    """Wait until the workload of this name is reported."""
    found = harness.wait(
        lambda: [each for each in harness.view.workloads.values() if each.name == name], "the workload"
    )
    return found[0]


@needs(Feature.FOREIGN)
class TestForeign:
    def test_a_foreign_object_is_reported_with_what_it_holds(self, harness: ConformanceHarness) -> None:
        name = harness.fixture.start_foreign()
        workload = find_workload(harness, name)
        assert (workload.workload_uid, workload.phase) == ("", EnginePhase.RUNNING)
        pods = [pod for pod in harness.view.pods.values() if pod.owner_ref == workload.engine_ref]
        assert [(pod.workload_uid, pod.node) for pod in pods] == [("", harness.fixture.node_name)]
        assert pods[0].devices
        uids = (workload.uid, pods[0].uid)
        harness.reopen()
        [again] = [each for each in harness.view.workloads.values() if each.name == name]
        assert (again.uid, [pod.uid for pod in harness.view.pods.values()]) == (uids[0], [uids[1]])

    def test_a_foreign_object_is_not_touched_unless_its_stop_is_requested_by_its_own_name(
        self, harness: ConformanceHarness
    ) -> None:
        name = harness.fixture.start_foreign()
        workload = find_workload(harness, name)
        pods = [pod.uid for pod in harness.view.pods.values() if pod.owner_ref == workload.engine_ref]

        async def try_to_remove() -> None:
            for uid in (workload.uid, workload.engine_ref, "", *pods):
                ref = WorkloadRef(uid=uid, slug=name)
                await harness.engine.terminate(ref, grace_seconds=0.0)
                await harness.engine.terminate(ref, grace_seconds=0.0, force=True, only=set(pods))
                named = WorkloadRef(uid=uid, slug=name, engine_ref=workload.engine_ref)
                await harness.engine.release(named)
                await harness.engine.purge(named)

        harness.run(try_to_remove())
        harness.settle()
        assert harness.fixture.is_foreign_running(name)
        assert workload.engine_ref in harness.view.workloads

    def test_pods_of_another_installation_are_foreign(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.specs.build(RUNS, devices=(harness.devices(0),))
        other = harness.run(harness.fixture.open_other_installation())
        harness.run(other.apply(launch_spec))
        try:
            harness.wait(lambda: harness.view.workloads, "the foreign workload")
            assert [pod.workload_uid for pod in harness.view.pods.values()] == [""]
            assert harness.pods_of(launch_spec) == frozenset()
            harness.terminate(launch_spec, grace_seconds=0.0, force=True)
            harness.release(launch_spec)
            harness.purge(launch_spec)
            harness.settle()
            assert harness.run(other.pods_of(launch_spec.ref)) == set(harness.uids(launch_spec))
        finally:
            harness.run(other.terminate(launch_spec.ref, grace_seconds=0.0, force=True))
            harness.wait(lambda: not harness.view.workloads or self._is_over(harness), "the end")
            harness.run(other.release(launch_spec.ref))
            harness.run(other.purge(launch_spec.ref))
            harness.run(other.close())

    def _is_over(self, harness: ConformanceHarness) -> bool:
        return all(pod.phase.is_finished for pod in harness.view.pods.values())

    def test_the_pods_of_the_engine_itself_are_no_foreign_workloads(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, devices=(harness.devices(0),))
        harness.running(harness.uid(launch_spec))
        harness.settle()
        assert not [each for each in harness.view.workloads.values() if not each.workload_uid]
        assert [pod.workload_uid for pod in harness.view.pods.values()] == [launch_spec.ref.uid]
