"""How commands end, and that nothing of them goes on after that."""

import asyncio
import time

from tests.integration.local.harness import Harness, processes

from stoker.domain.workload.phase import PodPhase

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


def test_the_end_is_known_at_once(harness: Harness) -> None:
    uid = harness.job("read -t 0.3 < <(sleep 600); date +%s%N; exit 0")
    harness.end(uid)
    told = time.time_ns()
    assert (told - int(harness.lines(uid)[-1])) / 1e9 < 60, "it waited for a child that was left over"


def test_children_that_left_the_session_die_with_the_command(harness: Harness) -> None:
    uid = harness.job(DAEMON + "\nexit 5")
    assert harness.end(uid).exit_code == 5
    assert list(processes(uid)) == []


def test_a_stop_reaches_every_process_and_waits_for_it(harness: Harness) -> None:
    saving = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    uid = harness.job(f'bash -c "{saving}" & wait')
    harness.says(uid, "up")
    harness.stop(uid)
    assert harness.end(uid).signal == 15
    assert harness.lines(uid)[-1] == "saved"


def test_a_stop_right_after_the_start_is_not_missed(harness: Harness) -> None:
    for _ in range(10):
        uid = harness.job("sleep 600")
        harness.run(asyncio.sleep(0))
        harness.stop(uid, grace_seconds=30)
        assert harness.end(uid, 5).signal == 15


def test_hundreds_of_children_that_do_not_listen_are_killed(harness: Harness) -> None:
    uid = harness.job("echo up; for n in $(seq 200); do (trap '' TERM; sleep 600) & done; wait")
    harness.says(uid, "up")
    harness.stop(uid, grace_seconds=0.1)
    assert harness.end(uid).phase is PodPhase.FAILED
    assert list(processes(uid)) == []
