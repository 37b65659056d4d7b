"""What real pods take of this machine."""

import time
from pathlib import Path

from tests.integration.local.harness import Harness

from stoker.domain.clock import SystemClock
from stoker.domain.cluster.samples import PodUsage
from stoker.telemetry.collectors.host import build_host_collector

TIMEOUT_SECONDS = 20.0


def test_a_busy_pod_and_a_large_one_are_told_apart(harness: Harness) -> None:
    busy = harness.job("(while :; do :; done) & echo started; wait")
    large = harness.job("python3 -c \"x = b'x' * 200_000_000; print('started', flush=True); input()\" < <(sleep 600)")
    for uid in (busy, large):
        harness.says(uid, "started")
    source = build_host_collector("harness", SystemClock(), Path(harness.data_dir), harness.engine.shim_pids)
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while True:
        found: dict[str, PodUsage] = {use.pod_uid: use for use in harness.run(source.collect()).pods}
        assert set(found) == {busy, large}
        taken, other = found[busy].cpu_milli, found[large].cpu_milli
        if taken is not None and other is not None and taken > 100 and other < taken:
            break
        assert time.monotonic() < give_up, found
    assert found[large].memory_bytes > 200_000_000 > found[busy].memory_bytes


def test_a_pod_that_has_ended_takes_nothing(harness: Harness) -> None:
    uid = harness.job("true")
    harness.end(uid)
    assert uid not in harness.engine.shim_pids()
