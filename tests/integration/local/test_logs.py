"""The output of pods is stored completely, in order, with timestamps, and within limits."""

import asyncio
import itertools
import time
from pathlib import Path

from tests.integration.local.harness import Harness, small_disk

from stoker.engines.local import ContainmentMode
from stoker.engines.model import LogRef

MANY = 50_000


def test_output_is_complete_and_in_order_with_times_that_never_go_back(any_harness: Harness) -> None:
    before = time.time_ns() // 1_000_000
    uid = any_harness.job(f"echo first >&2; seq {MANY}; echo last >&2")
    any_harness.end(uid)
    log = any_harness.log(uid)
    assert [line.text for line in log] == ["first", *map(str, range(1, MANY + 1)), "last"]
    times = [line.at for line in log]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time_ns() // 1_000_000
    assert all(first.position < second.position for first, second in itertools.pairwise(log))


def test_old_output_is_dropped_with_a_note_and_positions_stay_true(any_harness: Harness) -> None:
    any_harness.open(log_segment_bytes=400_000, log_segments=3)
    uid = any_harness.job("seq 10; sleep 0.3; seq 11 200000")
    any_harness.says(uid, "10")
    early = any_harness.log(uid)[-1].position
    any_harness.end(uid)
    files = list((any_harness.data_dir / "local" / "pods" / uid).glob("log.*"))
    assert len(files) == 3
    assert sum(file.stat().st_size for file in files) <= 1_200_000
    note, *rest = any_harness.log(uid)
    assert "older output were dropped" in note.text
    assert note.at == rest[0].at
    numbers = [int(line.text) for line in rest]
    assert numbers == list(range(numbers[0], 200_001))
    late = any_harness.run(any_harness.engine.read_logs(LogRef(uid), early, 1000))
    assert "older output were dropped" in late[0].text
    assert late[1:] == rest[: len(late) - 1]


def test_a_long_line_is_split_and_nothing_of_it_is_lost(any_harness: Harness) -> None:
    uid = any_harness.job("python -c \"print('ä' * 100_000); print('b' * 300_000); print('short')\"")
    any_harness.end(uid)
    lines = any_harness.lines(uid)
    assert all(len(line.encode()) <= 65_536 for line in lines)
    assert "".join(line for line in lines if line.startswith("ä")) == "ä" * 100_000
    assert "".join(line for line in lines if line.startswith("b")) == "b" * 300_000
    assert lines[-1] == "short"


def test_bytes_that_are_no_text_and_a_last_line_without_an_end_are_kept(any_harness: Harness) -> None:
    uid = any_harness.job(r"printf 'a\0b\377c\n\n  two\r\nno end'")
    any_harness.end(uid)
    assert any_harness.lines(uid) == ["a\0b\ufffdc", "", "  two\r", "no end"]


def test_output_of_children_that_are_killed_is_there(any_harness: Harness) -> None:
    uid = any_harness.job("(echo child; sleep 600) & sleep 0.1; echo parent")
    any_harness.end(uid)
    assert any_harness.lines(uid) == ["child", "parent"]


def test_a_full_disk_ends_neither_the_job_nor_the_knowledge_of_its_end(tmp_path: Path) -> None:
    with small_disk(tmp_path) as fill:
        harness = Harness(tmp_path / "data", ContainmentMode.AUTO)
        uid = harness.job("echo before; sleep 0.5; seq 100000; exit 6")
        harness.says(uid, "before")
        ballast = fill()
        assert harness.end(uid).exit_code == 6
        ballast.unlink()
        harness.finish()


def test_new_output_is_announced_soon_and_not_for_every_line(any_harness: Harness) -> None:
    uid = any_harness.job("for n in $(seq 30); do date +%s%N; sleep 0.02; done; sleep 600")
    delays: list[float] = []

    async def follow() -> None:
        position = 0
        async for grown in any_harness.engine.log_activity():
            assert grown.pod_uid == uid
            for line in await any_harness.engine.read_logs(LogRef(uid), position, 1000):
                position = line.position
                delays.append(time.time() - int(line.text) / 1e9)
            told.append(position)
            if len(delays) == 30:
                return

    told: list[int] = []

    async def main() -> None:
        async with asyncio.timeout(10):
            await follow()

    any_harness.run(main())
    assert max(delays[5:]) < 2.0
    assert len(told) < 15
