"""Logs are complete and ordered, and every reader continues from its own cursor."""

import asyncio
import itertools

from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs, refusal
from tests.conformance.programs import PRINTS_ALWAYS, Program, exits_with

from stoker.domain.errors import ErrorCode

MANY = 5_000


class TestLogs:
    @needs(Feature.PROGRAMS)
    def test_both_streams_are_complete_and_in_order(self, harness: ConformanceHarness) -> None:
        script = f"echo first >&2; sleep 0.3; seq {MANY}; sleep 0.3; echo last >&2"
        uid = harness.uid(harness.start(Program(script)))
        harness.ended(uid)
        log = harness.log(uid)
        assert [line.text for line in log] == ["first", *map(str, range(1, MANY + 1)), "last"]

    @needs(Feature.PROGRAMS)
    def test_an_end_without_a_newline_and_empty_lines_are_kept(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(Program(r"printf 'one\n\n  two\nno end'")))
        harness.ended(uid)
        assert harness.lines(uid) == ["one", "", "  two", "no end"]

    def test_times_and_cursors_grow(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(PRINTS_ALWAYS))
        log = harness.wait(lambda: lines if len(lines := harness.log(uid)) > 3 else None, "some lines")
        started = harness.running(uid).started_at
        assert started is not None
        assert all(first.position < second.position for first, second in itertools.pairwise(log))
        assert [line.at for line in log] == sorted(line.at for line in log)
        assert log[0].at >= started - 1000

    def test_reading_goes_on_from_the_position_of_any_line(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(PRINTS_ALWAYS)
        uid = harness.uid(launch_spec)
        harness.wait(lambda: len(harness.log(uid)) > 5, "some lines")
        harness.terminate(launch_spec)
        harness.ended(uid)
        whole = harness.log(uid)
        for number, line in enumerate(whole[:20]):
            assert harness.read_log(uid, line.position, 3) == whole[number + 1 : number + 4]
        assert harness.read_log(uid, 0, 2) == whole[:2]
        assert harness.read_log(uid, whole[-1].position) == []
        assert harness.log(uid, limit=1) == whole

    def test_a_reader_at_the_end_gets_what_comes(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(PRINTS_ALWAYS))
        read = list(harness.wait(lambda: harness.read_log(uid), "lines"))
        for _ in range(3):
            cursor = read[-1].position
            read += harness.wait(lambda cursor=cursor: harness.read_log(uid, cursor), "more lines")
        assert harness.log(uid)[: len(read)] == read

    def test_a_cursor_outlives_the_engine(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(PRINTS_ALWAYS))
        before = harness.wait(lambda: lines if len(lines := harness.log(uid)) > 3 else None, "some lines")
        harness.reopen()
        after = harness.wait(lambda: harness.read_log(uid, before[1].position), "lines")
        assert after[: len(before) - 2] == before[2 : 2 + len(after)]

    def test_activity_names_logs_that_exist_and_logs_that_grow(self, harness: ConformanceHarness) -> None:
        before = harness.uid(harness.start(PRINTS_ALWAYS))
        harness.wait(lambda: harness.read_log(before), "lines")
        named: list[str] = []

        async def follow() -> None:
            async for source in harness.engine.log_activity():
                named.append(source.pod_uid)  # noqa: PERF401 - it is read meanwhile

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(follow())

        task = harness.run(begin())
        harness.wait(lambda: before in named, "the name of the log that existed")
        new = harness.uid(harness.start(PRINTS_ALWAYS))
        harness.wait(lambda: new in named, "the name of the new log")
        named.clear()
        cursors = {uid: harness.log(uid)[-1].position for uid in (before, new)}
        harness.wait(lambda: {before, new} <= set(named), "the names of logs that have grown")
        for uid, cursor in cursors.items():
            harness.wait(lambda uid=uid, cursor=cursor: harness.read_log(uid, cursor), "new lines")

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        harness.run(end())

    def test_a_released_pod_has_no_log(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(exits_with(0))
        uid = harness.uid(launch_spec)
        harness.ended(uid)
        assert harness.lines(uid)
        harness.release(launch_spec)
        harness.gone(uid)
        assert refusal(lambda: harness.read_log(uid)) is ErrorCode.NOT_FOUND
