"""A replica is probed for as long as it runs, whatever goes wrong with a probe."""

import asyncio
import logging
from types import SimpleNamespace
from unittest import mock

import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.engines.replicas import readiness
from stoker.engines.replicas.readiness import ReadinessProber
from stoker.engines.replicas.replica import ReadinessProbe


class ProbedReplica(SimpleNamespace):
    """As much of a pod as a prober needs."""

    def __init__(self) -> None:
        record = SimpleNamespace(uid="p", name="web-0", check=ReadinessProbe(port=20_000))
        super().__init__(
            record=record, running_since=1, is_finished=False, is_ready=False, unready_reason="", address=None
        )

    def set_ready(self, ready: bool) -> None:
        self.is_ready = ready


def test_a_probe_that_fails_unexpectedly_is_logged_and_repeated(
    loop_run: LoopRun, caplog: pytest.LogCaptureFixture
) -> None:
    clock, pod = ManualClock(1), ProbedReplica()
    told: list[bool] = []

    async def live() -> None:
        prober = ReadinessProber(clock, lambda changed: told.append(changed.is_ready), 2.0)
        with mock.patch.object(readiness, "probe", mock.AsyncMock(side_effect=[RuntimeError("what is this?"), ""])):
            prober.on_pod_change(pod)  # type: ignore[arg-type]
            async with asyncio.timeout(20):
                while not pod.is_ready:
                    await asyncio.sleep(0)
                    clock.advance(0.1)
        await prober.close()

    with caplog.at_level(logging.ERROR):
        loop_run(live())
    assert told == [True]
    assert "web-0" in caplog.text
    assert "what is this?" in caplog.text
