"""Commands in pods: limits per caller, metrics, and behaviour during an outage."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.types import Message
from tests.api.conftest import OpenHarness
from tests.api.harness import V1, Harness

from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.workloads.pod_access import PodAccess

DOWN = StokerError(ErrorCode.UNAVAILABLE, "The database does not answer.")
LOST = StokerError(ErrorCode.FORBIDDEN, "Not allowed any more.")


class FakeTerminal:
    """A command that echoes its input."""

    def __init__(self) -> None:
        self.closed = False
        self._printed: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._printed.get()

    async def read_stderr(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        self._printed.put_nowait(data)

    async def close_stdin(self) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int:
        return 0

    async def close(self) -> None:
        self.closed = True
        self._printed.put_nowait(b"")


class FakeSocket:
    """The WebSocket of a client, without a network."""

    def __init__(self, harness: Harness, as_: str = "admin") -> None:
        self._harness = harness
        self._as = as_
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self.typed: asyncio.Queue[Message] = asyncio.Queue()
        self.gone = False

    async def run(self) -> None:
        scope = {
            "type": "websocket",
            "scheme": "ws",
            "path": f"{V1}/workloads/work/exec",
            "raw_path": f"{V1}/workloads/work/exec".encode(),
            "query_string": b"command=cat",
            "headers": [(b"authorization", f"Bearer {self._harness.keys[self._as]}".encode())],
            "client": ("127.0.0.1", 40000),
        }
        self.typed.put_nowait({"type": "websocket.connect"})
        await self._harness.app(scope, self.typed.get, self._send)

    async def _send(self, message: Message) -> None:
        if self.gone:
            raise OSError("the client has gone")
        self.sent.put_nowait(message)

    async def answer(self) -> Message:
        async with asyncio.timeout(10):
            return await self.sent.get()

    async def echo(self, data: bytes) -> bytes:
        self.typed.put_nowait({"type": "websocket.receive", "bytes": data})
        return (await self.answer())["bytes"]


@contextlib.asynccontextmanager
async def session(harness: Harness, as_: str = "admin") -> AsyncIterator[FakeSocket]:
    """A session that is open inside the block; then the client disconnects."""
    made = FakeSocket(harness, as_)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.typed.put_nowait({"type": "websocket.disconnect", "code": 1000})
        async with asyncio.timeout(10):
            await running


@pytest.fixture
def terminals(monkeypatch: pytest.MonkeyPatch) -> list[FakeTerminal]:
    """Every command that was started."""
    begun: list[FakeTerminal] = []

    async def execute(inside: PodAccess, *_: Any, **__: Any) -> FakeTerminal:
        begun.append(FakeTerminal())
        return begun[-1]

    monkeypatch.setattr(PodAccess, "execute", execute)
    return begun


class PermissionRechecks:
    """The result of every further permission check, and the number of checks since it was set."""

    def __init__(self) -> None:
        self.error: StokerError | None = None
        self.count = 0

    def set_to(self, error: StokerError | None) -> None:
        self.error, self.count = error, 0


@pytest.fixture
def rechecks(monkeypatch: pytest.MonkeyPatch) -> PermissionRechecks:
    made = PermissionRechecks()

    async def may_execute(inside: PodAccess, *_: Any) -> None:
        made.count += 1
        if made.error is not None:
            raise made.error

    monkeypatch.setattr(PodAccess, "check_may_execute", may_execute)
    return made


def metric(harness: Harness, name: str) -> float:
    lines = harness.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


async def elapse(harness: Harness, seconds: int) -> None:
    """Advance the clock second by second, and let the woken tasks run."""
    for _ in range(seconds):
        harness.clock.advance(1)
        await asyncio.sleep(0.001)


async def elapse_until(harness: Harness, condition: Callable[[], bool]) -> None:
    """Advance the clock second by second until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():
            await elapse(harness, 1)


def test_a_caller_has_only_so_many_at_once(open_harness: OpenHarness, terminals: list[FakeTerminal]) -> None:
    harness = open_harness(exec_limit=1)
    harness.add_user("other", role="admin")

    async def check() -> None:
        async with session(harness) as first:
            assert (await first.answer())["type"] == "websocket.accept"
            async with session(harness) as second:
                assert (await second.answer())["status"] == 429
                refused = json.loads((await second.answer())["body"])["error"]
                assert refused["message"] == "You have 1 command running in pods, which is the limit per user."
                assert "exec_limit" in refused["hint"]
            async with session(harness, "other") as elsewhere:
                assert (await elsewhere.answer())["type"] == "websocket.accept"
        async with session(harness) as third:
            assert (await third.answer())["type"] == "websocket.accept"

    harness.run(check())
    assert [each.closed for each in terminals] == [True] * 3


def test_a_caller_begins_only_so_many_a_minute(open_harness: OpenHarness, terminals: list[FakeTerminal]) -> None:
    harness = open_harness(exec_rate_limit=2)

    async def check() -> list[Message]:
        answers = []
        for _ in range(3):
            async with session(harness) as each:
                answers.append(await each.answer())
        return answers

    first, second, third = harness.run(check())
    assert first["type"] == second["type"] == "websocket.accept"
    assert third["status"] == 429
    assert any(name == b"retry-after" for name, _ in third["headers"])
    assert len(terminals) == 2


def test_sessions_are_counted(open_harness: OpenHarness, terminals: list[FakeTerminal]) -> None:
    harness = open_harness(exec_limit=1)

    async def check() -> None:
        async with session(harness) as first:
            await first.answer()
            async with session(harness) as second:
                await second.answer()
            text = (await harness.ask("GET", "/metrics")).text
            assert "stoker_exec_sessions 1.0" in text

    harness.run(check())
    assert metric(harness, "stoker_exec_sessions") == 0
    assert metric(harness, "stoker_exec_sessions_opened_total") == 1
    assert metric(harness, "stoker_exec_sessions_refused_total") == 1


def test_a_command_whose_client_goes_before_it_is_told_is_ended(
    harness: Harness, terminals: list[FakeTerminal]
) -> None:
    async def check() -> None:
        async with session(harness) as gone:
            gone.gone = True
            while not terminals:
                await asyncio.sleep(0)

    harness.run(check())
    assert [each.closed for each in terminals] == [True]
    assert metric(harness, "stoker_exec_sessions") == 0


def test_a_shell_goes_on_while_the_database_is_gone_for_a_while(
    harness: Harness, terminals: list[FakeTerminal], rechecks: PermissionRechecks
) -> None:
    async def check() -> None:
        async with session(harness) as shell:
            await shell.answer()
            rechecks.set_to(DOWN)
            await elapse(harness, 60)
            assert await shell.echo(b"still here") == b"still here"
            rechecks.set_to(None)
            await elapse_until(harness, lambda: rechecks.count > 0)
            rechecks.set_to(DOWN)  # another outage is waited for as long
            await elapse(harness, 100)
            assert await shell.echo(b"and still") == b"and still"

    harness.run(check())


def test_a_shell_ends_when_its_caller_loses_the_right_to_it(
    harness: Harness, terminals: list[FakeTerminal], rechecks: PermissionRechecks
) -> None:
    async def check() -> None:
        async with session(harness) as shell:
            await shell.answer()
            rechecks.set_to(LOST)
            await elapse_until(harness, lambda: terminals[0].closed)
            assert rechecks.count == 1

    harness.run(check())


def test_a_shell_ends_when_the_database_stays_away_for_too_long(
    open_harness: OpenHarness, terminals: list[FakeTerminal], rechecks: PermissionRechecks
) -> None:
    harness = open_harness(stream_patience_seconds=30)

    async def check() -> None:
        async with session(harness) as shell:
            await shell.answer()
            rechecks.set_to(DOWN)
            await elapse_until(harness, lambda: rechecks.count > 0)
            await elapse(harness, 20)
            assert not terminals[0].closed
            await elapse_until(harness, lambda: terminals[0].closed)

    harness.run(check())
