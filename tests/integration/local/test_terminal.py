"""Commands beside a pod's own, with and without a terminal."""

import asyncio
import time

import pytest
from tests.engine.local.lab import Lab, processes

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.reach import Terminal
from stoker.domain.workload import Kind
from stoker.engines.local.link import dial


async def opened(lab: Lab, uid: str, *command: str, tty: bool = False) -> Terminal:
    return await lab.engine.execute(uid, list(command), tty=tty, columns=100, rows=30)


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
def desk(lab: Lab) -> str:
    """An Authoring pod, idle until somebody comes."""
    uid = lab.job("", kind=Kind.AUTHORING, env={"COLOUR": "blue"})
    lab.until(uid, lambda pod: pod.ready)
    return uid


def test_a_shell_has_a_real_terminal_that_can_be_resized(lab: Lab, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(lab, desk, "bash", "--norc", tty=True)
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

    lab.run(main())


def test_a_command_without_a_terminal_reads_to_the_end_of_its_input(lab: Lab, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(lab, desk, "sh", "-c", "wc -c; echo oops >&2; tty; exit 3")
        block = b"x" * 100_000
        for _ in range(20):
            await terminal.write(block)
        await terminal.end_input()
        assert (await rest(terminal)).split() == [b"2000000", b"oops", b"not", b"a", b"tty"]
        assert await terminal.exit_code() == 3
        await terminal.close()

    lab.run(main())


def test_a_command_that_does_not_exist_says_so(lab: Lab, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(lab, desk, "no-such-program")
        assert b"no-such-program" in await rest(terminal)
        assert await terminal.exit_code() == 127
        await terminal.close()

    lab.run(main())


def test_a_command_dies_by_signal_with_the_code_a_shell_would_give(lab: Lab, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(lab, desk, "sh", "-c", "kill -KILL $$")
        assert await terminal.exit_code() == 137
        await terminal.close()

    lab.run(main())


def test_a_command_sees_what_the_pod_sees(walled: Lab) -> None:
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


def test_closing_a_terminal_ends_its_command_but_not_the_pod(lab: Lab, desk: str) -> None:
    async def main() -> None:
        for tty in (True, False):
            terminal = await opened(lab, desk, "sleep", "777", tty=tty)
            await terminal.close()

    lab.run(main())
    give_up = time.monotonic() + 5
    while [command for _, command in processes(desk) if "sleep 777" in command]:
        assert time.monotonic() < give_up
        time.sleep(0.01)
    assert lab.seen[desk].ready


def test_closing_a_terminal_ends_what_waits_for_it(lab: Lab, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(lab, desk, "sleep", "778", tty=True)
        waiting = asyncio.gather(terminal.read(), terminal.exit_code())
        await asyncio.sleep(0.05)
        await terminal.close()
        async with asyncio.timeout(5):
            assert await waiting == [b"", 137]
        await terminal.close()
        await terminal.write(b"into the void")
        assert await terminal.read() == b""

    lab.run(main())


def test_a_shell_does_not_hold_up_a_stop_and_dies_with_the_pod(lab: Lab, desk: str) -> None:
    async def main() -> None:
        terminal = await opened(lab, desk, "bash", "--norc", tty=True)
        await terminal.write(b"echo $((40 + 2))\n")
        await until(terminal, b"42")
        pod = lab.seen[desk]
        await lab.engine.remove(pod.workload_uid, pod.attempt, 30.0)
        await rest(terminal)
        assert await terminal.exit_code() == 137
        await terminal.close()

    lab.run(main())
    lab.end(desk, 3.0)


def test_nothing_can_be_started_in_a_pod_that_has_ended(lab: Lab) -> None:
    uid = lab.job("exit 0")
    lab.end(uid)
    with pytest.raises(StokerError) as refused:
        lab.run(opened(lab, uid, "true"))
    assert refused.value.code is ErrorCode.STATE_FORBIDS


def test_the_shells_that_exist_are_listed(any_lab: Lab) -> None:
    uid = any_lab.job("sleep 600")
    shells = any_lab.run(any_lab.engine.shells(uid))
    assert "sh" in shells
    assert set(shells) <= {"bash", "sh", "zsh", "fish"}
    with pytest.raises(StokerError, match="no pod"):
        any_lab.run(any_lab.engine.shells("absent"))


@pytest.mark.parametrize(("asked", "given"), [(199_999, b"10000 10000"), (0, b"1 1"), (-5, b"1 1")])
def test_a_terminal_of_an_absurd_size_gets_the_nearest_possible(any_lab: Lab, asked: int, given: bytes) -> None:
    uid = any_lab.job("sleep 600")

    async def main() -> None:
        terminal = await any_lab.engine.execute(uid, ["stty", "size"], tty=True, columns=asked, rows=asked)
        assert (await rest(terminal)).strip() == given
        await terminal.close()

    any_lab.run(main())


def test_nothing_that_a_request_says_ends_the_keeper(any_lab: Lab) -> None:
    uid = any_lab.job("sleep 600")
    folder = any_lab.data_dir / "local" / "pods" / uid

    async def said(*words: str) -> bytes:
        channel = dial(folder)
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
        assert await once(any_lab, uid) == b"up\n"

    any_lab.run(main())


def test_a_second_command_on_a_connection_is_refused(any_lab: Lab) -> None:
    uid = any_lab.job("sleep 600")
    channel = dial(any_lab.data_dir / "local" / "pods" / uid)
    assert channel is not None
    with channel:
        channel.settimeout(10)
        for answer in (b"ok", b"error"):
            channel.send(b"exec\x001\x0080\x0024\x00sleep\x00779")
            assert channel.recv(4096).split(b"\0")[0] == answer
    assert b"up" in any_lab.run(once(any_lab, uid))


def test_a_grace_longer_than_poll_can_wait_does_not_end_the_keeper(any_lab: Lab) -> None:
    uid = any_lab.job("trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done")
    any_lab.says(uid, "ready")
    channel = dial(any_lab.data_dir / "local" / "pods" / uid)
    assert channel is not None
    with channel:
        channel.send(b"stop\0inf")
        any_lab.says(uid, "heard")
        assert not any_lab.seen[uid].phase.ended
        channel.send(b"stop\x000")
    assert any_lab.end(uid).exit_code == 137


async def once(lab: Lab, uid: str) -> bytes:
    terminal = await opened(lab, uid, "echo", "up")
    try:
        return await rest(terminal)
    finally:
        await terminal.close()
