"""What real pods take of this machine."""

import time
from pathlib import Path

from tests.engine.local.lab import Lab

from stoker.domain.clock import SystemClock
from stoker.domain.readings import PodUse
from stoker.telemetry.host import host

PATIENCE_SECONDS = 20.0


def test_a_busy_pod_and_a_large_one_are_told_apart(lab: Lab) -> None:
    busy = lab.job("(while :; do :; done) & echo started; wait")
    large = lab.job("python3 -c \"x = b'x' * 200_000_000; print('started', flush=True); input()\" < <(sleep 600)")
    for uid in (busy, large):
        lab.says(uid, "started")
    source = host("lab", SystemClock(), Path(lab.data_dir), lab.engine.pod_roots)
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        found: dict[str, PodUse] = {use.pod_uid: use for use in lab.run(source.readings()).pods}
        assert set(found) == {busy, large}
        if found[busy].cpu_milli > 100 and found[large].cpu_milli < found[busy].cpu_milli:
            break
        assert time.monotonic() < give_up, found
    assert found[large].memory_bytes > 200_000_000 > found[busy].memory_bytes


def test_a_pod_that_has_ended_takes_nothing(lab: Lab) -> None:
    uid = lab.job("true")
    lab.end(uid)
    assert uid not in lab.engine.pod_roots()
