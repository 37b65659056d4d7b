"""Pods' use of processors and memory, from a /proc made for the test."""

import os
from pathlib import Path

from stoker.telemetry.collectors.proc import ProcessTreeMeter

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


def put(proc: Path, pid: int, parent: int, ticks: int = 0, ended: int = 0, pages: int = 0, began: int = 0) -> None:
    numbers = [0] * 50
    numbers[0], numbers[10], numbers[12], numbers[18], numbers[20] = parent, ticks, ended, began, pages
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / f"{pid}/stat").write_text(f"{pid} (a ) (b) S {' '.join(map(str, numbers))}\n")


def test_everything_below_a_shim_is_its_pods_and_the_shim_itself_is_not(tmp_path: Path) -> None:
    put(tmp_path, 1, 0, ticks=99, pages=99)
    put(tmp_path, 10, 1, ticks=50, pages=1000)
    put(tmp_path, 11, 10, pages=3)
    put(tmp_path, 12, 11, pages=4)
    put(tmp_path, 20, 1, pages=1000)
    put(tmp_path, 21, 20, pages=7)
    (tmp_path / "self").mkdir()
    found = {use.pod_uid: use.memory_bytes for use in ProcessTreeMeter(tmp_path).read({"a": 10, "b": 20, "gone": 30})}
    assert found == {"a": 7 * PAGE, "b": 7 * PAGE}


class ManualUptime:
    """The seconds since the machine started, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 5000.0

    def __call__(self) -> float:
        return self.seconds


def test_processors_are_counted_since_the_pod_began_and_then_from_one_look_to_the_next(tmp_path: Path) -> None:
    uptime = ManualUptime()
    meter = ProcessTreeMeter(tmp_path, uptime)
    put(tmp_path, 10, 1, began=5005 * TICK)
    put(tmp_path, 11, 10, ticks=10 * TICK)
    uptime.seconds += 10
    assert [use.cpu_milli for use in meter.read({"a": 10})] == [2000], "two processors for five seconds"
    uptime.seconds += 10
    assert [use.cpu_milli for use in meter.read({"a": 10})] == [0]
    put(tmp_path, 11, 10, ticks=15 * TICK)
    uptime.seconds += 10
    assert [use.cpu_milli for use in meter.read({"a": 10})] == [500]


def test_a_pod_that_is_older_than_the_meter_has_no_processors_until_the_second_look(tmp_path: Path) -> None:
    uptime = ManualUptime()
    put(tmp_path, 10, 1, began=1000 * TICK)
    put(tmp_path, 11, 10, ticks=2000 * TICK, pages=3)
    meter = ProcessTreeMeter(tmp_path, uptime)
    assert [(use.cpu_milli, use.memory_bytes) for use in meter.read({"a": 10})] == [(None, 3 * PAGE)]
    uptime.seconds += 10
    put(tmp_path, 11, 10, ticks=2001 * TICK, pages=3)
    assert [use.cpu_milli for use in meter.read({"a": 10})] == [100], "the last ten seconds, not its life"


def test_the_time_of_a_child_that_ended_is_not_lost(tmp_path: Path) -> None:
    uptime = ManualUptime()
    meter = ProcessTreeMeter(tmp_path, uptime)
    put(tmp_path, 10, 1, ended=3 * TICK, began=5000 * TICK)
    put(tmp_path, 11, 10, ended=7 * TICK)
    uptime.seconds += 10
    assert [use.cpu_milli for use in meter.read({"a": 10})] == [1000]


def test_a_table_that_was_read_while_it_changed_does_no_harm(tmp_path: Path) -> None:
    put(tmp_path, 10, 1)
    put(tmp_path, 11, 12)
    put(tmp_path, 12, 11)
    put(tmp_path, 13, 999)
    (tmp_path / "14").mkdir()
    assert [use.pod_uid for use in ProcessTreeMeter(tmp_path).read({"a": 10})] == ["a"]


def test_no_pods_cost_no_look(tmp_path: Path) -> None:
    assert ProcessTreeMeter(tmp_path / "absent").read({}) == ()


def test_the_real_table_holds_this_process() -> None:
    (use,) = ProcessTreeMeter().read({"tests": os.getppid()})
    assert use.memory_bytes > 0
