"""NVML through the real pynvml on a fake NVIDIA library: this tests how Stoker reads it, not what a GPU reports."""

import _ctypes
import ctypes
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from tests.conftest import LoopRun

from stoker.domain.clock import SystemClock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.telemetry.collectors.blocking import BlockingCollector
from stoker.telemetry.collectors.nvml import NvmlDriver, build_nvml_collector

SOURCE = Path(__file__).with_name("nvml_stand_in.c")
NAME = "libnvidia-ml.so.1"
GIB = 1024**3


class FakeNvml:
    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def put(self, name: str, index: int, value: int, kind: type[ctypes._SimpleCData] = ctypes.c_uint) -> None:
        (kind * 16).in_dll(self.library, name)[index] = value

    def put_wide(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value, ctypes.c_ulonglong)

    def switch(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.library, name).value = value


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("nvml") / NAME
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{NAME}", "-o", library, SOURCE]
    subprocess.run(command, check=True)
    return library


@pytest.fixture
def stand_in(built: Path) -> Iterator[FakeNvml]:
    """Loaded by its name of record, so pynvml finds it; gone afterwards, so nobody else does."""
    library = ctypes.CDLL(str(built))
    yield FakeNvml(library)
    loaded = getattr(pynvml, "nvmlLib")  # noqa: B009 - pynvml declares it as None
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    for each in (library, loaded):
        if each is not None:
            _ctypes.dlclose(each._handle)


@pytest.fixture
def source(stand_in: FakeNvml, loop_run: LoopRun) -> Iterator[BlockingCollector]:
    opened = build_nvml_collector("n1", SystemClock())
    yield opened
    stand_in.switch("hang", 0)
    loop_run(opened.close())


def test_what_a_gpu_says_is_read_in_base_units(
    stand_in: FakeNvml, source: BlockingCollector, loop_run: LoopRun
) -> None:
    stand_in.put("utilization", 1, 93)
    stand_in.put("milliwatts", 1, 612_500)
    stand_in.put("degrees", 1, 71)
    stand_in.put_wide("used", 1, 60 * GIB)
    stand_in.put_wide("total", 1, 80 * GIB)
    read = loop_run(source.collect())
    assert (read.nodes, read.node.tolist(), read.device.tolist()) == (("n1",), [0, 0], [0, 1])
    assert read.utilization.tolist() == pytest.approx([0.0, 0.93])
    assert (read.power[1], read.temperature[1]) == (612.5, 71.0)
    assert (read.memory_used[1], read.memory_total[1]) == (60 * GIB, 80 * GIB)
    assert read.faults == ()


def test_what_a_gpu_cannot_say_is_not_known(stand_in: FakeNvml, source: BlockingCollector, loop_run: LoopRun) -> None:
    stand_in.library.hide_power()
    read = loop_run(source.collect())
    assert all(math.isnan(watts) for watts in read.power)
    assert read.utilization.tolist() == [0.0, 0.0]


def test_faults_are_told_in_words(stand_in: FakeNvml, source: BlockingCollector, loop_run: LoopRun) -> None:
    stand_in.switch("count", 6)
    loop_run(source.collect())
    stand_in.put_wide("uncorrected", 0, 3)
    stand_in.put("retired", 1, 1)
    stand_in.put("failed", 2, 1)
    stand_in.put("pending", 3, 1)
    stand_in.library.report_xid(4, 79)
    stand_in.library.report_xid(5, 31)
    faults = {fault.device: fault.message for fault in loop_run(source.collect()).faults}
    assert faults == {
        0: "Its memory had 3 uncorrected errors since its driver started.",
        1: "Pages of its memory wait to be retired. Reset it.",
        2: "Rows of its memory could not be replaced. Have it repaired.",
        3: "Rows of its memory wait to be replaced. Reset it.",
        4: "Its driver reported XID 79.",
    }, "XID 31 is the fault of a program"
    assert 4 in {fault.device for fault in loop_run(source.collect()).faults}, "an XID stays"


def test_uncorrected_errors_are_a_fault_from_the_threshold_on(stand_in: FakeNvml, loop_run: LoopRun) -> None:
    source = build_nvml_collector("n1", SystemClock(), ecc_threshold=3)
    stand_in.put_wide("uncorrected", 0, 2)
    stand_in.put_wide("uncorrected", 1, 3)
    assert [fault.device for fault in loop_run(source.collect()).faults] == [1]
    loop_run(source.close())


def test_a_gpu_that_is_lost_takes_no_other_with_it(
    stand_in: FakeNvml, source: BlockingCollector, loop_run: LoopRun
) -> None:
    stand_in.library.lose(0)
    stand_in.put("utilization", 1, 50)
    read = loop_run(source.collect())
    assert [fault.device for fault in read.faults] == [0]
    assert math.isnan(read.utilization[0])
    assert read.utilization[1] == 0.5


def test_an_event_of_a_gpu_whose_number_cannot_be_read_is_told_and_holds_up_no_other(
    stand_in: FakeNvml, source: BlockingCollector, loop_run: LoopRun
) -> None:
    loop_run(source.collect())
    stand_in.library.report_xid(0, 79)
    stand_in.library.report_xid(1, 48)
    stand_in.library.lose(0)
    faults = loop_run(source.collect()).faults
    assert [(fault.device, fault.message) for fault in faults] == [
        (0, "Its driver reported XID 79."),
        (0, "Its driver cannot reach it: GPU is lost."),
        (1, "Its driver reported XID 48."),
    ]


def test_nvml_is_started_once_and_again_after_an_error(
    stand_in: FakeNvml, source: BlockingCollector, loop_run: LoopRun
) -> None:
    for _ in range(3):
        loop_run(source.collect())
    assert stand_in.library.times_started() == 1
    stand_in.switch("broken", 1)
    with pytest.raises(StokerError) as refused:
        loop_run(source.collect())
    assert refused.value.code is ErrorCode.UNAVAILABLE
    assert "NVML" in refused.value.message
    stand_in.switch("broken", 0)
    assert len(loop_run(source.collect()).device) == 2
    assert stand_in.library.times_started() == 2


def test_a_driver_that_hangs_holds_up_nothing_and_is_asked_again_when_it_answers(
    stand_in: FakeNvml, loop_run: LoopRun
) -> None:
    driver = NvmlDriver("n1", SystemClock())
    source = BlockingCollector("nvml", driver.read, driver.close, timeout_seconds=0.05)
    loop_run(source.collect())
    stand_in.switch("hang", 1)
    for _ in range(3):
        with pytest.raises(StokerError, match="nvml has not answered"):
            loop_run(source.collect())
    under_way = source._pending
    assert under_way is not None
    stand_in.switch("hang", 0)

    async def answered() -> None:
        await under_way

    loop_run(answered())
    assert len(loop_run(source.collect()).device) == 2
    loop_run(source.close())
