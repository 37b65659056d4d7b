"""Pods that are to stay up are started again, later each time."""

from tests.integration.local.harness import Harness, processes

from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind


def test_a_failed_command_is_started_again_after_one_second_then_two(any_harness: Harness) -> None:
    uid = any_harness.job("date +%s%N; exit 3", kind=Kind.DEPLOYMENT, restart=True)
    waiting = any_harness.until(uid, lambda pod: not pod.ready and bool(pod.message))
    assert (waiting.phase, waiting.exit_code) == (PodPhase.RUNNING, None)
    assert "exit code 3" in waiting.message
    any_harness.until(uid, lambda pod: pod.restarts == 2)
    any_harness.until(uid, lambda pod: not pod.ready and bool(pod.message))
    times = [int(line) / 1e9 for line in any_harness.lines(uid) if line.isdigit()]
    assert times[1] - times[0] >= 0.95
    assert times[2] - times[1] >= 1.95
    assert [line for line in any_harness.lines(uid) if "starts again in 2 s" in line]
    any_harness.stop(uid)
    end = any_harness.end(uid, 1.0)
    assert (end.phase, end.exit_code, end.restarts) == (PodPhase.FAILED, 3, 2)


def test_what_a_command_left_behind_is_gone_before_it_starts_again(harness: Harness) -> None:
    uid = harness.job("pgrep -fc 'sleep 98[7]'; setsid sleep 987 & exit 1", kind=Kind.STATEFUL_SET, restart=True)
    harness.until(uid, lambda pod: pod.restarts == 1)
    harness.until(uid, lambda pod: not pod.ready and bool(pod.message))
    counts = [line for line in harness.lines(uid) if line.isdigit()]
    assert counts[1] == counts[0]
    assert not [command for _, command in processes(uid) if "sleep 987" in command]


def test_restarts_go_on_after_the_engine_has_gone_and_are_counted(any_harness: Harness) -> None:
    uid = any_harness.job("exit 1", kind=Kind.DEPLOYMENT, restart=True)
    any_harness.until(uid, lambda pod: not pod.ready and bool(pod.message))
    any_harness.open()
    assert any_harness.until(uid, lambda pod: True).restarts == 0
    any_harness.until(uid, lambda pod: pod.restarts == 1)
