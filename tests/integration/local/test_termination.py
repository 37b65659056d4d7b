"""How commands end, and that nothing of them goes on after that."""

import asyncio
import time

import pytest
from tests.engine.local.lab import Lab, processes

from stoker.domain.workload import PodPhase

DAEMON = """
python - <<'PY'
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 3)
        time.sleep(600)
    os._exit(0)
os.wait()
PY
"""


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_an_exit_code_is_reported(lab: Lab, code: int) -> None:
    pod = lab.end(lab.job(f"exit {code}"))
    assert (pod.exit_code, pod.signal) == (code, None)
    assert pod.phase is (PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED)
    assert pod.message == ("" if code == 0 else f"The command ended with exit code {code}.")
    assert pod.started_at is not None
    assert pod.ended_at is not None
    assert pod.started_at <= pod.ended_at
    assert not pod.ready


def test_a_signal_is_reported(lab: Lab) -> None:
    pod = lab.end(lab.job("kill -SEGV $$"))
    assert (pod.phase, pod.exit_code, pod.signal) == (PodPhase.FAILED, 139, 11)
    assert "SIGSEGV" in pod.message


def test_a_script_with_a_mistake_says_so(lab: Lab) -> None:
    uid = lab.job("no-such-program --help")
    assert lab.end(uid).exit_code == 127
    assert any("no-such-program" in line for line in lab.lines(uid))


def test_the_end_is_known_at_once(lab: Lab) -> None:
    uid = lab.job("read -t 0.3 < <(sleep 600); date +%s%N; exit 0")
    lab.end(uid)
    told = time.time_ns()
    assert (told - int(lab.lines(uid)[-1])) / 1e9 < 60, "it waited for a child that was left over"


def test_children_that_left_the_session_die_with_the_command(lab: Lab) -> None:
    uid = lab.job(DAEMON + "\nexit 5")
    assert lab.end(uid).exit_code == 5
    assert list(processes(uid)) == []


def test_children_that_left_the_session_die_on_a_stop(lab: Lab) -> None:
    uid = lab.job(DAEMON + "\necho away\nsleep 600")
    lab.says(uid, "away")
    assert len(list(processes(uid))) >= 2
    lab.stop(uid)
    assert lab.end(uid).signal == 15
    assert list(processes(uid)) == []


def test_a_stop_lets_the_command_clean_up(lab: Lab) -> None:
    uid = lab.job("trap 'echo bye; exit 7' TERM; echo up; sleep 600 & wait")
    lab.says(uid, "up")
    lab.stop(uid)
    assert lab.end(uid).exit_code == 7
    assert lab.lines(uid)[-1] == "bye"


def test_a_stop_reaches_every_process_and_waits_for_it(lab: Lab) -> None:
    saving = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    uid = lab.job(f'bash -c "{saving}" & wait')
    lab.says(uid, "up")
    lab.stop(uid)
    assert lab.end(uid).signal == 15
    assert lab.lines(uid)[-1] == "saved"


def test_what_does_not_listen_is_killed_after_the_grace(lab: Lab) -> None:
    uid = lab.job("trap '' TERM; echo up; while :; do sleep 0.1; done")
    lab.says(uid, "up")
    began = time.monotonic()
    lab.stop(uid, grace_seconds=0.5)
    assert lab.end(uid).signal == 9
    assert 0.4 < time.monotonic() - began < 2.0


def test_a_stop_right_after_the_start_is_not_missed(lab: Lab) -> None:
    for _ in range(10):
        uid = lab.job("sleep 600")
        lab.run(asyncio.sleep(0))
        lab.stop(uid, grace_seconds=30)
        assert lab.end(uid, 5).signal == 15


def test_a_second_stop_can_shorten_the_grace(lab: Lab) -> None:
    uid = lab.job("trap '' TERM; echo up; while :; do sleep 0.1; done")
    lab.says(uid, "up")
    lab.stop(uid, grace_seconds=60)
    lab.stop(uid, grace_seconds=0)
    assert lab.end(uid, 5).signal == 9


def test_hundreds_of_children_that_do_not_listen_are_killed(lab: Lab) -> None:
    uid = lab.job("echo up; for n in $(seq 200); do (trap '' TERM; sleep 600) & done; wait")
    lab.says(uid, "up")
    lab.stop(uid, grace_seconds=0.1)
    assert lab.end(uid).phase is PodPhase.FAILED
    assert list(processes(uid)) == []


def test_forgetting_an_ended_pod_removes_what_is_held_of_it(lab: Lab) -> None:
    uid = lab.job("echo done")
    pod = lab.end(uid)
    folder = lab.data_dir / "local" / "pods" / uid
    assert folder.exists()
    lab.run(lab.engine.forget(pod.workload_uid, pod.attempt))
    lab.run(lab.engine.forget(pod.workload_uid, pod.attempt))
    lab.until_gone(uid)
    assert not folder.exists()
