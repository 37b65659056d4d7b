"""Commands beside a pod's own, with and without a terminal."""

import asyncio

import pytest
from tests.integration.local.harness import Harness

from stoker.domain.cluster.engine_access import Terminal
from stoker.domain.workload.spec import Kind
from stoker.engines.local.shim_client import open_control_socket
from stoker.engines.model import WorkloadRef


async def opened(harness: Harness, uid: str, *command: str, tty: bool = False, stderr: bool = False) -> Terminal:
    return await harness.engine.execute(uid, list(command), tty=tty, columns=100, rows=30, stderr=stderr)


async def until(terminal: Terminal, text: bytes) -> bytes:
    said = b""
    async with asyncio.timeout(10):
        while text not in said:
            part = await terminal.read()
            assert part, said
            said += part
    return said


async def rest(terminal: Terminal) -> bytes:
    said = b""
    async with asyncio.timeout(10):
        while part := await terminal.read():
            said += part
    return said


@pytest.fixture
def desk(harness: Harness) -> str:
    """An Authoring pod, idle until somebody comes."""
    uid = harness.job("", kind=Kind.AUTHORING, env={"COLOUR": "blue"})
    harness.until(uid, lambda pod: pod.ready)
    return uid


def test_a_shell_has_a_real_terminal_that_can_be_resized(harness: Harness, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(harness, desk, "bash", "--norc", tty=True)
        await terminal.write(b"tty; stty size; echo $COLOUR-$TERM; pwd\n")
        said = await until(terminal, b"/local/work/")
        assert b"/dev/pts/" in said
        assert b"30 100" in said
        assert b"blue-xterm-256color" in said
        await terminal.resize(100_000, -1)  # as much as there can be
        await terminal.resize(132, 50)
        await terminal.write(b"stty size\n")
        await until(terminal, b"50 132")
        await terminal.write(b"sleep 600\n")
        await asyncio.sleep(0.1)
        await terminal.write(b"\x03")
        await terminal.write(b"exit 23\n")
        await rest(terminal)
        assert await terminal.exit_code() == 23
        await terminal.close()

    harness.run(main())


def test_a_command_that_does_not_exist_says_so(harness: Harness, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(harness, desk, "no-such-program")
        assert b"no-such-program" in await rest(terminal)
        assert await terminal.exit_code() == 127
        await terminal.close()

    harness.run(main())


def test_a_command_sees_what_the_pod_sees(walled: Harness) -> None:
    uid = walled.job("sleep 601", kind=Kind.AUTHORING)

    async def main() -> None:
        look = f"cat {walled.data_dir}/admin.key; ps ax -o args; touch here; umount {walled.data_dir}"
        terminal = await opened(walled, uid, "sh", "-c", look)
        said = await rest(terminal)
        assert b"sleep 601" in said
        assert b"-m pytest" not in said
        assert b"sk-stoker" not in said
        await terminal.close()

    walled.run(main())


def test_closing_a_terminal_ends_what_waits_for_it(harness: Harness, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(harness, desk, "sleep", "778", tty=True)
        waiting = asyncio.gather(terminal.read(), terminal.exit_code())
        await asyncio.sleep(0.05)
        await terminal.close()
        async with asyncio.timeout(5):
            assert await waiting == [b"", 137]
        await terminal.close()
        await terminal.write(b"into the void")
        assert await terminal.read() == b""

    harness.run(main())


def test_a_shell_does_not_hold_up_a_stop_and_dies_with_the_pod(harness: Harness, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(harness, desk, "bash", "--norc", tty=True)
        await terminal.write(b"echo $((40 + 2))\n")
        await until(terminal, b"42")
        pod = harness.seen[desk]
        await harness.engine.terminate(WorkloadRef(uid=pod.workload_uid, attempt=pod.attempt), grace_seconds=30.0)
        await rest(terminal)
        assert await terminal.exit_code() == 137
        await terminal.close()

    harness.run(main())
    harness.end(desk, 3.0)


@pytest.mark.parametrize(("asked", "given"), [(199_999, b"10000 10000"), (0, b"1 1"), (-5, b"1 1")])
def test_a_terminal_of_an_absurd_size_gets_the_nearest_possible(any_harness: Harness, asked: int, given: bytes) -> None:
    uid = any_harness.job("sleep 600")

    async def main() -> None:
        terminal = await any_harness.engine.execute(uid, ["stty", "size"], tty=True, columns=asked, rows=asked)
        assert (await rest(terminal)).strip() == given
        await terminal.close()

    any_harness.run(main())


def test_nothing_that_a_request_says_ends_the_shim(any_harness: Harness) -> None:
    uid = any_harness.job("sleep 600")
    folder = any_harness.data_dir / "local" / "pods" / uid

    async def said(*words: str) -> bytes:
        channel = open_control_socket(folder)
        assert channel is not None
        with channel:
            channel.settimeout(10)
            channel.send("\0".join(words).encode())
            return channel.recv(4096)

    async def main() -> None:
        for words in (
            ("exec", "1", "9" * 30, "-1", "true"),
            ("exec", "1", "wide", "24", "true"),
            ("exec", "0", "80", "24", "true"),
            ("stop", "soon"),
        ):
            assert (await said(*words)).split(b"\0")[0] in {b"ok", b"error"}
        assert await once(any_harness, uid) == b"up\n"

    any_harness.run(main())


def test_a_second_command_on_a_connection_is_refused(any_harness: Harness) -> None:
    uid = any_harness.job("sleep 600")
    channel = open_control_socket(any_harness.data_dir / "local" / "pods" / uid)
    assert channel is not None
    with channel:
        channel.settimeout(10)
        for answer in (b"ok", b"error"):
            channel.send(b"exec\x001\x0080\x0024\x00sleep\x00779")
            assert channel.recv(4096).split(b"\0")[0] == answer
    assert b"up" in any_harness.run(once(any_harness, uid))


def test_a_grace_longer_than_poll_can_wait_does_not_end_the_shim(any_harness: Harness) -> None:
    uid = any_harness.job("trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done")
    any_harness.says(uid, "ready")
    channel = open_control_socket(any_harness.data_dir / "local" / "pods" / uid)
    assert channel is not None
    with channel:
        channel.send(b"stop\0inf")
        any_harness.says(uid, "heard")
        assert not any_harness.seen[uid].phase.is_finished
        channel.send(b"stop\x000")
    assert any_harness.end(uid).exit_code == 137


async def once(harness: Harness, uid: str) -> bytes:
    terminal = await opened(harness, uid, "echo", "up")
    try:
        return await rest(terminal)
    finally:
        await terminal.close()
