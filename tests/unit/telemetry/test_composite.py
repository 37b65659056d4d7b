"""Two sources as one."""

import logging

import pytest
from tests.conftest import LoopRun

from stoker.domain.cluster.samples import GpuSamples, PodUsage, empty_samples
from stoker.domain.errors import ErrorCode, StokerError
from stoker.telemetry.collectors.composite import CompositeCollector

POD = PodUsage("p1", 100, 200)


class FixedCollector:
    def __init__(self, name: str, pods: tuple[PodUsage, ...] = ()) -> None:
        self.name = name
        self.pods = pods
        self.trouble = ""
        self.closed = False

    async def collect(self) -> GpuSamples:
        if self.trouble:
            raise StokerError(ErrorCode.UNAVAILABLE, self.trouble)
        return empty_samples(7, (self.name,), self.pods)

    async def close(self) -> None:
        self.closed = True


def test_the_second_adds_what_the_first_does_not_know(loop_run: LoopRun) -> None:
    joined = CompositeCollector(FixedCollector("nvml"), FixedCollector("host", (POD,)))
    read = loop_run(joined.collect())
    assert (joined.name, read.nodes, read.pods) == ("nvml", ("nvml",), (POD,))


def test_when_the_first_fails_all_do(loop_run: LoopRun) -> None:
    first = FixedCollector("nvml")
    first.trouble = "NVML cannot be read."
    with pytest.raises(StokerError, match="NVML"):
        loop_run(CompositeCollector(first, FixedCollector("host")).collect())


def test_when_the_second_fails_it_is_left_out_and_named_once(
    loop_run: LoopRun, caplog: pytest.LogCaptureFixture
) -> None:
    beside = FixedCollector("host", (POD,))
    joined = CompositeCollector(FixedCollector("nvml"), beside)
    beside.trouble = "The disk hangs."
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert loop_run(joined.collect()).pods == ()
    assert [record.getMessage() for record in caplog.records] == ["The source host is left out: The disk hangs."]
    beside.trouble = ""
    assert loop_run(joined.collect()).pods == (POD,)


def test_both_are_closed(loop_run: LoopRun) -> None:
    first, beside = FixedCollector("nvml"), FixedCollector("host")
    loop_run(CompositeCollector(first, beside).close())
    assert (first.closed, beside.closed) == (True, True)
