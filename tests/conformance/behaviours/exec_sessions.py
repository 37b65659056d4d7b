"""`execute` runs commands beside a pod's own, with and without a terminal."""

import asyncio
import uuid

from tests.conformance.engine_fixture import Feature
from tests.conformance.harness import ConformanceHarness, needs, refusal
from tests.conformance.programs import IDLE, RUNS, exits_with

from stoker.domain.cluster.engine_access import Terminal
from stoker.domain.errors import ErrorCode
from stoker.domain.workload.spec import Kind


def start_authoring(harness: ConformanceHarness) -> str:
    uid = harness.uid(harness.start(IDLE, kind=Kind.AUTHORING, env={"COLOUR": "blue"}))
    harness.ready(uid)
    return uid


async def read_all(terminal: Terminal) -> bytes:
    output = b""
    while part := await terminal.read():
        output += part
    return output


async def read_until(terminal: Terminal, text: bytes) -> bytes:
    output = b""
    while text not in output:
        part = await terminal.read()
        assert part, output
        output += part
    return output


class TestExec:
    def test_a_command_prints_and_ends(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            for command, output, code in ((["echo", "hi"], b"hi\n", 0), (["sh", "-c", "echo 'a b'"], b"a b\n", 0)):
                terminal = await harness.execute(uid, *command)
                assert await read_all(terminal) == output
                assert await terminal.exit_code() == code
                await terminal.close()

        harness.run(main())

    def test_a_command_that_does_not_exist_says_so(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            terminal = await harness.execute(uid, "no-such-program")
            assert b"no-such-program" in await read_all(terminal)
            assert await terminal.exit_code() in {126, 127}
            await terminal.close()

        harness.run(main())

    def test_a_shell_reads_commands_to_the_end_of_its_input(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            for tty in (False, True):
                terminal = await harness.execute(uid, "sh", tty=tty)
                await terminal.write(b"echo one two\n")
                await read_until(terminal, b"one two")
                await terminal.write(b"exit 4\n")
                await read_all(terminal)
                assert await terminal.exit_code() == 4
                await terminal.close()

        harness.run(main())

    @needs(Feature.PROGRAMS)
    def test_stderr_is_separate_if_that_is_asked_for(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            script = "echo out; echo wrong >&2; cat; exit 7"
            terminal = await harness.execute(uid, "sh", "-c", script, stderr=True)
            await terminal.write(b"typed")
            await terminal.close_stdin()
            assert await read_all(terminal) == b"out\ntyped"
            assert await terminal.read_stderr() == b"wrong\n"
            assert await terminal.read_stderr() == b""
            assert await terminal.exit_code() == 7
            await terminal.close()
            for tty, stderr in ((False, False), (True, True)):
                terminal = await harness.execute(uid, "sh", "-c", "echo wrong >&2", tty=tty, stderr=stderr)
                assert (await read_all(terminal)).strip() == b"wrong"
                assert await terminal.read_stderr() == b""
                await terminal.close()

        harness.run(main())

    @needs(Feature.PROGRAMS)
    def test_a_long_input_arrives_and_ends(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            terminal = await harness.execute(uid, "sh", "-c", "wc -c; tty; echo $COLOUR; exit 3")
            for _ in range(20):
                await terminal.write(b"x" * 100_000)
            await terminal.close_stdin()
            assert (await read_all(terminal)).split() == [b"2000000", b"not", b"a", b"tty", b"blue"]
            assert await terminal.exit_code() == 3
            await terminal.close()

        harness.run(main())

    @needs(Feature.PROGRAMS)
    def test_a_terminal_has_a_size_and_can_be_resized(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            terminal = await harness.execute(uid, "sh", tty=True)
            await terminal.write(b"tty; stty size\n")
            assert b"/dev/pts/" in await read_until(terminal, b"30 100")
            await terminal.resize(132, 50)
            await terminal.write(b"stty size; echo $TERM\n")
            await read_until(terminal, b"xterm-256color")
            await terminal.write(b"stty size\n")
            await read_until(terminal, b"50 132")
            await terminal.write(b"exit 23\n")
            await read_all(terminal)
            assert await terminal.exit_code() == 23
            await terminal.close()

        harness.run(main())

    @needs(Feature.PROGRAMS)
    def test_a_signal_ends_a_command_with_the_code_of_a_shell(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)

        async def main() -> None:
            terminal = await harness.execute(uid, "sh", "-c", "kill -KILL $$")
            assert await terminal.exit_code() == 137
            await terminal.close()

        harness.run(main())

    @needs(Feature.PROGRAMS)
    def test_closing_a_session_ends_its_command_and_not_the_pod(self, harness: ConformanceHarness) -> None:
        uid = start_authoring(harness)
        mark = uuid.uuid4().hex

        async def main() -> None:
            for tty in (True, False):
                terminal = await harness.execute(uid, "sh", "-c", f"echo up; sleep 600; echo {mark}", tty=tty)
                await read_until(terminal, b"up")
                waiting = asyncio.gather(terminal.read(), terminal.exit_code())
                await asyncio.sleep(0)
                await terminal.close()
                assert await waiting == [b"", 137]
                await terminal.close()

        harness.run(main())
        harness.wait(
            lambda: not [line for line in harness.fixture.processes(uid) if mark in line], "the end of the commands"
        )
        assert harness.view.pods[uid].ready

    @needs(Feature.PROGRAMS)
    def test_a_session_ends_with_its_pod(self, harness: ConformanceHarness) -> None:
        launch_spec = harness.start(RUNS)
        uid = harness.uid(launch_spec)
        harness.running(uid)

        async def main() -> None:
            terminal = await harness.execute(uid, "sh", tty=True)
            await terminal.write(b"echo $((40 + 2))\n")
            await read_until(terminal, b"42")
            await harness.engine.terminate(launch_spec.ref, grace_seconds=30.0)
            await read_all(terminal)
            assert await terminal.exit_code() == 137
            await terminal.close()

        harness.run(main())
        assert harness.ended(uid).signal == 15

    def test_nothing_can_be_started_in_a_pod_that_has_ended(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(exits_with(0)))
        harness.ended(uid)
        assert refusal(lambda: harness.run(harness.execute(uid, "true"))) is ErrorCode.CONFLICT

    def test_the_shells_of_a_pod_are_listed(self, harness: ConformanceHarness) -> None:
        uid = harness.uid(harness.start(RUNS))
        harness.running(uid)
        shells = harness.run(harness.engine.list_shells(uid))
        assert "sh" in shells
        assert set(shells) <= {"bash", "sh", "zsh", "fish"}

    def test_an_unknown_pod_is_not_found(self, harness: ConformanceHarness) -> None:
        absent = str(uuid.uuid4())
        assert refusal(lambda: harness.run(harness.engine.list_shells(absent))) is ErrorCode.NOT_FOUND
        assert refusal(lambda: harness.run(harness.execute(absent, "true"))) is ErrorCode.NOT_FOUND
        assert refusal(lambda: harness.read_log(absent)) is ErrorCode.NOT_FOUND
