"""How pods end is reported: exit codes, signals, and memory that was not enough."""

import pytest
from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs
from tests.conformance.programs import LEAVES_DAEMON, OUT_OF_MEMORY, Program, exits_with

from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase

MEMORY_BYTES = 64 * 2**20


class TestEnds:
    @pytest.mark.parametrize("code", [0, 1, 42, 255])
    def test_an_exit_code_is_reported(self, harness: ConformanceHarness, code: int) -> None:
        pod = harness.ended(harness.uid(harness.start(exits_with(code))))
        assert (pod.exit_code, pod.signal, pod.ready) == (code, None, False)
        assert pod.phase is (PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED)
        assert (f"exit code {code}" in pod.message) is (code != 0)
        assert pod.started_at is not None
        assert pod.ended_at is not None
        assert (pod.created_at or pod.started_at) <= pod.started_at <= pod.ended_at

    @needs(Feature.PROGRAMS)
    def test_a_signal_is_reported(self, harness: ConformanceHarness) -> None:
        pod = harness.ended(harness.uid(harness.start(Program("kill -SEGV $$"))))
        assert (pod.phase, pod.exit_code, pod.signal) == (PodPhase.FAILED, 139, 11)
        assert "SIGSEGV" in pod.message

    @needs(Feature.MEMORY_LIMITS)
    def test_a_pod_that_needs_more_memory_than_it_has_says_so(self, harness: ConformanceHarness) -> None:
        pod = harness.ended(harness.uid(harness.start(OUT_OF_MEMORY, resources=Resources(memory_bytes=MEMORY_BYTES))))
        assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 137)
        assert "memory" in pod.message
        assert "64 MiB" in pod.message

    @needs(Feature.PROGRAMS)
    def test_what_a_program_leaves_behind_ends_with_it(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(LEAVES_DAEMON))
        assert harness.ended(uid).exit_code == 5
        assert harness.fixture.processes(uid) == []

    @needs(Feature.PROGRAMS)
    def test_a_program_that_does_not_exist_is_named_in_the_log(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(Program("no-such-program --help")))
        assert harness.ended(uid).exit_code == 127
        assert any("no-such-program" in line for line in harness.lines(uid))
