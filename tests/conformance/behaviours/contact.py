"""Lost contact is reported once; a full sync follows when it is back."""

from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs, refusal
from tests.conformance.programs import ENDS_SOON, RUNS

from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import Disconnected, FullSync
from stoker.engines.protocol import PERMANENT_ERRORS


@needs(Feature.BACKEND_CUT)
class TestContact:
    def test_lost_contact_is_reported_once_and_then_a_full_sync(self, harness: ConformanceHarness) -> None:
        stays, ends = harness.start(RUNS), harness.start(ENDS_SOON)
        harness.running(harness.uid(stays))
        before = len(harness.view.observations)
        harness.fixture.cut()
        harness.wait(lambda: isinstance(harness.view.observations[-1], Disconnected), "the report of lost contact")
        for _ in range(5):
            harness.settle()
        harness.fixture.restore()
        harness.wait(lambda: isinstance(harness.view.observations[-1], FullSync) or None, "a full sync")
        lost = [each for each in harness.view.observations[before:] if isinstance(each, Disconnected)]
        assert len(lost) == 1
        assert lost[0].message
        assert harness.running(harness.uid(stays)).phase is PodPhase.RUNNING
        assert harness.ended(harness.uid(ends)).exit_code == 4

    def test_calls_without_contact_fail_in_a_way_that_is_repeated(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS)
        harness.running(harness.uid(launch_spec))
        harness.fixture.cut()
        harness.wait(lambda: isinstance(harness.view.observations[-1], Disconnected), "the report of lost contact")
        other = harness.specs.build(RUNS)
        for call in (lambda: harness.apply(other), lambda: harness.terminate(launch_spec)):
            assert refusal(call) not in PERMANENT_ERRORS
        harness.fixture.restore()
        harness.wait(lambda: not isinstance(harness.view.observations[-1], Disconnected), "contact")
        harness.apply(other)
        harness.running(harness.uid(other))
        harness.terminate(launch_spec)
        harness.ended(harness.uid(launch_spec))

    def test_an_engine_that_is_opened_without_contact_reports_that(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS)
        harness.running(harness.uid(launch_spec))
        harness.close()
        harness.fixture.cut()
        harness.open_without_wait()
        harness.wait(lambda: harness.view.observations, "a report")
        assert isinstance(harness.view.observations[0], Disconnected)
        harness.fixture.restore()
        assert harness.running(harness.uid(launch_spec)).phase is PodPhase.RUNNING
        assert isinstance(harness.view.observations[1], FullSync)
