"""Pods' use of processors and memory, from a /proc made for the test."""

import os
import time
from pathlib import Path

from stoker.telemetry.processes import Meter

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


def put(proc: Path, pid: int, parent: int, ticks: int = 0, ended: int = 0, pages: int = 0, began: int = 0) -> None:
    numbers = [0] * 50
    numbers[0], numbers[10], numbers[12], numbers[18], numbers[20] = parent, ticks, ended, began, pages
    (proc / str(pid)).mkdir(parents=True, exist_ok=True)
    (proc / f"{pid}/stat").write_text(f"{pid} (a ) (b) S {' '.join(map(str, numbers))}\n")


def test_everything_below_a_keeper_is_its_pods_and_the_keeper_itself_is_not(tmp_path: Path) -> None:
    put(tmp_path, 1, 0, ticks=99, pages=99)
    put(tmp_path, 10, 1, ticks=50, pages=1000)
    put(tmp_path, 11, 10, pages=3)
    put(tmp_path, 12, 11, pages=4)
    put(tmp_path, 20, 1, pages=1000)
    put(tmp_path, 21, 20, pages=7)
    (tmp_path / "self").mkdir()
    found = {use.pod_uid: use.memory_bytes for use in Meter(tmp_path).read({"a": 10, "b": 20, "gone": 30})}
    assert found == {"a": 7 * PAGE, "b": 7 * PAGE}


def test_processors_are_counted_from_one_look_to_the_next(tmp_path: Path) -> None:
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICK)
    put(tmp_path, 10, 1, began=now - 1000 * TICK)
    put(tmp_path, 11, 10, ticks=2000 * TICK)
    meter = Meter(tmp_path)
    (first,) = meter.read({"a": 10})
    assert 1900 <= first.cpu_milli <= 2001, "two processors since it began"
    (second,) = meter.read({"a": 10})
    assert second.cpu_milli == 0


def test_the_time_of_a_child_that_ended_is_not_lost(tmp_path: Path) -> None:
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICK)
    put(tmp_path, 10, 1, ended=300 * TICK, began=now - 1000 * TICK)
    put(tmp_path, 11, 10, ended=700 * TICK)
    (use,) = Meter(tmp_path).read({"a": 10})
    assert 990 <= use.cpu_milli <= 1001


def test_a_table_that_was_read_while_it_changed_does_no_harm(tmp_path: Path) -> None:
    put(tmp_path, 10, 1)
    put(tmp_path, 11, 12)
    put(tmp_path, 12, 11)
    put(tmp_path, 13, 999)
    (tmp_path / "14").mkdir()
    assert [use.pod_uid for use in Meter(tmp_path).read({"a": 10})] == ["a"]


def test_no_pods_cost_no_look(tmp_path: Path) -> None:
    assert Meter(tmp_path / "absent").read({}) == ()


def test_the_real_table_holds_this_process() -> None:
    (use,) = Meter().read({"tests": os.getppid()})
    assert use.memory_bytes > 0
