"""The output of pods is complete, in order, of both streams, with its own times, whoever reads it and when."""

import asyncio
import itertools
import time

from tests.engines.docker.harness import DockerHarness

from stoker.engines.model import LogRef

MANY = 30_000


def test_output_is_complete_and_in_order_with_times_that_never_go_back(harness: DockerHarness) -> None:
    before = time.time_ns() // 1_000_000
    uid = harness.pod(f"seq {MANY}; echo on stderr >&2")
    harness.end(uid)
    log = harness.log(uid)
    texts = [line.text for line in log]
    texts.remove("on stderr")  # Docker reads the two streams at its own pace
    assert texts == [*map(str, range(1, MANY + 1))]
    times = [line.at for line in log]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time_ns() // 1_000_000
    assert all(first.position < second.position for first, second in itertools.pairwise(log))


def test_both_streams_are_in_the_order_of_their_times(harness: DockerHarness) -> None:
    script = "for i in $(seq 20); do echo out $i; usleep 20000; echo err $i >&2; usleep 20000; done"
    uid = harness.pod(script)
    harness.end(uid)
    assert harness.lines(uid) == [f"{stream} {i}" for i in range(1, 21) for stream in ("out", "err")]


def test_reading_can_go_on_from_any_cursor_also_with_another_engine(harness: DockerHarness) -> None:
    uid = harness.pod("seq 200; echo err >&2; seq 100")
    harness.end(uid)
    whole = harness.log(uid)
    assert len(whole) == 301
    for line in whole[::23]:
        harness.open()
        assert harness.log(uid, line.position) == whole[whole.index(line) + 1 :]
    assert harness.run(harness.engine.read_logs(LogRef(uid), 0, 3)) == whole[:3]
    assert harness.log(uid, 0, 7) == whole


def test_a_running_pod_is_read_while_it_prints(harness: DockerHarness) -> None:
    spec = harness.launch("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); usleep 3000; done; sleep 600")
    uid = spec.pods[0].uid
    harness.running(uid)
    lines: list[str] = []
    cursor = 0
    give_up = time.monotonic() + 20
    while len(lines) < 300:
        assert time.monotonic() < give_up
        for line in harness.run(harness.engine.read_logs(LogRef(uid), cursor, 50)):
            lines.append(line.text)
            cursor = line.position
        harness.run(asyncio.sleep(0.01))
    assert lines == [str(number) for number in range(300)]
    assert harness.lines(uid) == lines, "another reader gets the same"


def test_activity_is_reported_when_a_log_grows(harness: DockerHarness) -> None:
    spec = harness.launch("echo one; sleep 1.5; echo two; sleep 600")
    uid = spec.pods[0].uid
    harness.running(uid)

    async def main() -> list[str]:
        lines: list[str] = []
        cursor = 0
        async with asyncio.timeout(20):
            async for source in harness.engine.log_activity():
                assert source.pod_uid == uid
                while found := await harness.engine.read_logs(source, cursor, 100):
                    lines += [line.text for line in found]
                    cursor = found[-1].position
                if len(lines) == 2:
                    break
        return lines

    assert harness.run(main()) == ["one", "two"]


def test_a_long_line_is_split_and_nothing_of_it_is_lost(harness: DockerHarness) -> None:
    letters = "yes ä | head -n 100000 | tr -d '\\n'"
    uid = harness.pod(f"{letters}; echo; head -c 300000 /dev/zero | tr '\\0' b; echo; echo short")
    harness.end(uid)
    lines = harness.lines(uid)
    assert all(len(line.encode()) <= 65_536 for line in lines)
    assert "".join(line for line in lines if line.startswith("ä")) == "ä" * 100_000
    assert "".join(line for line in lines if line.startswith("b")) == "b" * 300_000
    assert lines[-1] == "short"


def test_bytes_that_are_no_text_and_a_last_line_without_an_end_are_kept(harness: DockerHarness) -> None:
    uid = harness.pod(r"printf 'a\377c\n\n  two\r\nno end'")
    harness.end(uid)
    assert harness.lines(uid) == ["a\ufffdc", "", "  two\r", "no end"]


def test_every_run_of_a_pod_that_restarts_is_in_the_log(harness: DockerHarness) -> None:
    spec = harness.launch("printf run; sleep 0.1; exit 1", restart=True)
    uid = spec.pods[0].uid
    harness.until(uid, lambda pod: pod.restarts >= 3)
    harness.stop(spec, 0.0)
    ended = harness.end(uid)
    runs = harness.lines(uid)
    assert set(runs) == {"run"}
    assert len(runs) in {ended.restarts, ended.restarts + 1}
