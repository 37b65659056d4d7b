"""Another engine object reports the pods that exist as the one before has."""

from tests.conformance.engine_fixture import stable_fields
from tests.conformance.harness import ConformanceHarness
from tests.conformance.programs import RUNS, exits_with

from stoker.domain.cluster.capabilities import Owner
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.spec import Kind
from stoker.engines.model import LaunchSpec

TWO_GPUS = Resources(2 * MILLI, 500, 2**28)


def check_reported(harness: ConformanceHarness, launch_spec: LaunchSpec) -> None:
    """What is reported of running pods is what the launch spec says."""
    ref = launch_spec.ref
    for rank, uid in enumerate(harness.uids(launch_spec)):
        pod = harness.ready(uid)
        assert (pod.workload_uid, pod.attempt, pod.revision) == (ref.uid, ref.attempt, ref.revision)
        assert (pod.rank, pod.resources) == (rank, launch_spec.main.resources)
    for assignment in launch_spec.pods:
        pod = harness.view.pods[assignment.uid]
        assert (pod.name, pod.node) == (assignment.name, assignment.node)
        if harness.engine.capabilities.devices is Owner.STOKER:
            assert pod.devices is not None
            assert [device.index for device in pod.devices] == [device.index for device in assignment.devices]


class TestAdoption:
    def test_running_pods_are_reported_as_before(self, harness: ConformanceHarness) -> None:
        gang = harness.start(
            RUNS,
            replicas=2,
            attempt=3,
            resources=TWO_GPUS,
            devices=(harness.devices(0, 1), harness.devices(2, 3)),
        )
        served = harness.start(RUNS, kind=Kind.DEPLOYMENT, replicas=2)
        check_reported(harness, gang)
        check_reported(harness, served)
        uids = [*harness.uids(gang), *harness.uids(served)]
        before = {uid: stable_fields(harness.view.pods[uid]) for uid in uids}
        harness.reopen()
        for uid in uids:
            harness.ready(uid)
        assert {uid: stable_fields(harness.view.pods[uid]) for uid in uids} == before
        assert harness.pods_of(gang) == set(harness.uids(gang))

    def test_ended_pods_are_reported_as_before(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(exits_with(9))
        uid = harness.uid(launch_spec)
        before = stable_fields(harness.ended(uid))
        harness.reopen()
        assert stable_fields(harness.ended(uid)) == before

    def test_a_restart_takes_no_replica_out_of_service(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, kind=Kind.DEPLOYMENT, replicas=2)
        uids = harness.uids(launch_spec)
        for uid in uids:
            harness.ready(uid)
        harness.settle()
        harness.reopen()
        harness.settle()
        reports = [pod for pod in harness.view.reported_pods if pod.uid in uids]
        assert {pod.uid for pod in reports} == set(uids)
        assert all(pod.ready for pod in reports)

    def test_adopted_pods_of_an_attempt_can_be_stopped_one_by_one(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS, replicas=2)
        stays, goes = harness.uids(launch_spec)
        harness.running(goes)
        harness.reopen()
        harness.terminate(launch_spec, only={goes})
        assert harness.ended(goes).signal == 15
        assert not harness.view.pods[stays].phase.is_finished
