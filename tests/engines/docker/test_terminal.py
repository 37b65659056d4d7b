"""Commands run in the container of a pod, on a terminal or on pipes."""

import asyncio

import pytest
from tests.engines.docker.harness import DockerHarness

from stoker.domain.cluster.engine_access import Terminal
from stoker.domain.errors import ErrorCode, StokerError


async def read_all(terminal: Terminal) -> bytes:
    data = b""
    while piece := await terminal.read():
        data += piece
    return data


async def read_until(terminal: Terminal, text: bytes) -> bytes:
    data = b""
    async with asyncio.timeout(10):
        while text not in data:
            piece = await terminal.read()
            assert piece, data
            data += piece
    return data


@pytest.fixture
def uid(harness: DockerHarness) -> str:
    uid = harness.pod("sleep 600", env={"COLOUR": "green"})
    harness.running(uid)
    return uid


def test_a_terminal_has_the_size_that_it_was_given_and_can_be_resized(harness: DockerHarness, uid: str) -> None:
    async def main() -> tuple[bytes, int]:
        terminal = await harness.engine.execute(uid, ["sh"], tty=True, columns=100, rows=30)
        await terminal.write(b"stty size\n")
        output = await read_until(terminal, b"30 100")
        await terminal.resize(120, 40)
        await terminal.write(b"stty size\n")
        output += await read_until(terminal, b"40 120")
        await terminal.write(b"test -t 0 && echo $COLOUR; exit 5\n")
        output += await read_all(terminal)
        code = await terminal.exit_code()
        await terminal.close()
        return output, code

    output, code = harness.run(main())
    assert code == 5
    assert b"green" in output


def test_stdout_and_stderr_are_apart_and_stdin_ends(harness: DockerHarness, uid: str) -> None:
    async def main() -> tuple[bytes, bytes, int]:
        command = ["sh", "-c", "cat; echo problem >&2; exit 3"]
        terminal = await harness.engine.execute(uid, command, tty=False, columns=0, rows=0, stderr=True)
        await terminal.write(b"hello\n" * 1000)
        await terminal.close_stdin()
        output = await read_all(terminal)
        errors = await terminal.read_stderr()
        code = await terminal.exit_code()
        await terminal.close()
        return output, errors, code

    assert harness.run(main()) == (b"hello\n" * 1000, b"problem\n", 3)


def test_without_separate_stderr_both_are_one_stream(harness: DockerHarness, uid: str) -> None:
    async def main() -> bytes:
        terminal = await harness.engine.execute(
            uid, ["sh", "-c", "echo a; usleep 50000; echo b >&2"], tty=False, columns=0, rows=0
        )
        output = await read_all(terminal)
        await terminal.close()
        return output

    assert harness.run(main()) == b"a\nb\n"


def test_much_output_is_complete(harness: DockerHarness, uid: str) -> None:
    async def main() -> bytes:
        terminal = await harness.engine.execute(uid, ["seq", "200000"], tty=False, columns=0, rows=0)
        output = await read_all(terminal)
        await terminal.close()
        return output

    assert harness.run(main()).split() == [str(number).encode() for number in range(1, 200_001)]


def test_a_command_that_does_not_exist_has_the_exit_code_of_a_shell(harness: DockerHarness, uid: str) -> None:
    async def main() -> tuple[bytes, int]:
        terminal = await harness.engine.execute(uid, ["no-such-command"], tty=False, columns=0, rows=0)
        output = await read_all(terminal)
        code = await terminal.exit_code()
        await terminal.close()
        return output, code

    output, code = harness.run(main())
    assert code in {126, 127}
    assert b"no-such-command" in output


def test_closing_a_session_kills_its_command_and_nothing_else(harness: DockerHarness, uid: str) -> None:
    async def main() -> int:
        terminal = await harness.engine.execute(
            uid, ["sh", "-c", "sleep 777 & sleep 777"], tty=True, columns=80, rows=24
        )
        await asyncio.sleep(0.3)
        await terminal.close()
        code = await terminal.exit_code()
        for _ in range(50):
            listing = await harness.engine.execute(uid, ["ps"], tty=False, columns=0, rows=0)
            shown = await read_all(listing)
            await listing.close()
            if b"sleep 777" not in shown:
                break
            await asyncio.sleep(0.1)
        assert b"sleep 777" not in shown
        assert b"sleep 600" in shown
        return code

    assert harness.run(main()) == 137


def test_a_session_ends_with_its_pod(harness: DockerHarness) -> None:
    spec = harness.launch("sleep 600")
    harness.running(spec.pods[0].uid)

    async def main() -> int:
        command = ["sh", "-c", "echo up; sleep 600"]
        terminal = await harness.engine.execute(spec.pods[0].uid, command, tty=False, columns=0, rows=0)
        await read_until(terminal, b"up")
        await harness.engine.terminate(spec.ref, grace_seconds=0.0)
        async with asyncio.timeout(15):
            assert await read_all(terminal) == b""
            code = await terminal.exit_code()
        await terminal.close()
        return code

    assert harness.run(main()) == 137


def test_shells_are_those_of_the_image(harness: DockerHarness, uid: str) -> None:
    assert harness.run(harness.engine.list_shells(uid)) == ["sh"]


def test_nothing_runs_in_a_pod_that_has_ended(harness: DockerHarness) -> None:
    uid = harness.pod("true")
    harness.end(uid)
    with pytest.raises(StokerError, match="does not run") as caught:
        harness.run(harness.engine.execute(uid, ["sh"], tty=True, columns=80, rows=24))
    assert caught.value.code is ErrorCode.CONFLICT
    with pytest.raises(StokerError) as missing:
        harness.run(harness.engine.execute("nobody", ["sh"], tty=True, columns=80, rows=24))
    assert missing.value.code is ErrorCode.NOT_FOUND
