import time
from pathlib import Path

import pytest

from stoker.engines.local.logs import read_log
from stoker.engines.local.shim.log_writer import LogWriter
from stoker.engines.local.shim.pod_dir import PodDir


def output(tmp_path: Path, segment_bytes: int = 1000, segments: int = 3) -> LogWriter:
    return LogWriter(PodDir(str(tmp_path)), segment_bytes, segments)


def test_nothing_was_printed_yet(tmp_path: Path) -> None:
    assert read_log(tmp_path, 0, 10) == []
    assert read_log(tmp_path / "absent", 0, 10) == []


def test_lines_come_whole_however_they_were_written(tmp_path: Path) -> None:
    written = output(tmp_path)
    assert not written.feed(b"on")
    assert written.feed(b"e\ntwo\nth")
    assert [line.text for line in read_log(tmp_path, 0, 10)] == ["one", "two"]
    written.flush()
    assert [line.text for line in read_log(tmp_path, 0, 10)] == ["one", "two", "th"]


def test_a_line_that_is_drawn_over_for_long_is_written_as_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    written = output(tmp_path)
    for second in range(4):
        now += 0.6
        assert written.feed(b"\r%d%%|#" % second) is (second == 2)
    written.feed(b"    \n")
    assert [line.text for line in read_log(tmp_path, 0, 10)] == ["\r0%|#\r1%|#", "\r2%|#\r3%|#    "]


def test_a_carriage_return_alone_ends_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    written = output(tmp_path)
    for part in (b"from ", b"Windows\r", b"\n", b"a\rb\n"):
        now += 5.0
        written.feed(part)
    assert [line.text for line in read_log(tmp_path, 0, 10)] == ["from Windows\r", "a\rb"]


def test_a_reader_that_comes_back_goes_on_where_it_was(tmp_path: Path) -> None:
    written = output(tmp_path)
    position = 0
    for number in range(300):
        written.feed(b"%d\n" % number)
        [line] = read_log(tmp_path, position, 10)
        assert line.text == str(number)
        position = line.position
    assert read_log(tmp_path, position, 10) == []
    assert len(list(tmp_path.glob("log.*"))) == 3


def test_a_reader_that_comes_too_late_is_told_what_it_missed(tmp_path: Path) -> None:
    written = output(tmp_path)
    for number in range(500):
        written.feed(b"%d\n" % number)
    note, *rest = read_log(tmp_path, 0, 1000)
    oldest = min(int(path.name.removeprefix("log.")) for path in tmp_path.glob("log.*"))
    assert note.text == f"[stoker] {oldest} bytes of older output were dropped."
    assert note.position == oldest
    assert [int(line.text) for line in rest] == list(range(int(rest[0].text), 500))


def test_a_disk_that_takes_nothing_loses_lines_and_a_later_one_says_so(tmp_path: Path) -> None:
    written = output(tmp_path, segment_bytes=10_000)
    written.feed(b"before\n")
    written._fd, fd = 10**6, written._fd
    assert not written.feed(b"lost\n")
    assert not written.feed(b"lost too\n")
    written._fd = fd
    assert written.feed(b"after\n")
    lines = [line.text for line in read_log(tmp_path, 0, 10)]
    assert lines == ["before", "[stoker] 14 bytes of output were lost: the disk did not take them.", "after"]


def test_a_line_that_is_no_line_of_ours_does_not_stop_the_reading(tmp_path: Path) -> None:
    (tmp_path / "log.0000000000000000").write_bytes(b"torn\n123 whole\n124 half")
    assert [(line.at, line.text) for line in read_log(tmp_path, 0, 10)] == [(0, "torn"), (123, "whole")]
