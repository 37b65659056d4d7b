"""Two sources as one."""

import logging

import pytest
from tests.conftest import LoopRun

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.readings import PodUse, Readings, no_gpus
from stoker.telemetry.joined import Joined

POD = PodUse("p1", 100, 200)


class Given:
    def __init__(self, name: str, pods: tuple[PodUse, ...] = ()) -> None:
        self.name = name
        self.pods = pods
        self.trouble = ""
        self.closed = False

    async def readings(self) -> Readings:
        if self.trouble:
            raise StokerError(ErrorCode.BACKEND_DOWN, self.trouble)
        return no_gpus(7, (self.name,), self.pods)

    async def close(self) -> None:
        self.closed = True


def test_the_second_adds_what_the_first_does_not_know(loop_run: LoopRun) -> None:
    joined = Joined(Given("nvml"), Given("host", (POD,)))
    read = loop_run(joined.readings())
    assert (joined.name, read.nodes, read.pods) == ("nvml", ("nvml",), (POD,))


def test_when_the_first_fails_all_do(loop_run: LoopRun) -> None:
    first = Given("nvml")
    first.trouble = "NVML cannot be read."
    with pytest.raises(StokerError, match="NVML"):
        loop_run(Joined(first, Given("host")).readings())


def test_when_the_second_fails_it_is_left_out_and_named_once(
    loop_run: LoopRun, caplog: pytest.LogCaptureFixture
) -> None:
    beside = Given("host", (POD,))
    joined = Joined(Given("nvml"), beside)
    beside.trouble = "The disk hangs."
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert loop_run(joined.readings()).pods == ()
    assert [record.getMessage() for record in caplog.records] == ["The source host is left out: The disk hangs."]
    beside.trouble = ""
    assert loop_run(joined.readings()).pods == (POD,)


def test_both_are_closed(loop_run: LoopRun) -> None:
    first, beside = Given("nvml"), Given("host")
    loop_run(Joined(first, beside).close())
    assert (first.closed, beside.closed) == (True, True)
