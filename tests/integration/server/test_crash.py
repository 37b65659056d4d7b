"""A server that is killed during many writes loses none that it has answered.

Each client records the responses. After a kill, the server has exactly what was answered, plus or minus the request in
progress; sending that one again is safe.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

CLIENTS = 32
WRITES = 10_000
SEED = 20260115
V1 = "/api/stoker/v1"
START_SECONDS = 30
PROGRAM = """
import sys
from stoker.domain.settings.schema import LogLevel, Settings
from stoker.server.http_server import serve
settings = Settings(data_dir=sys.argv[1], database=sys.argv[2], port=0, log_level=LogLevel.WARNING)
serve(settings, lambda address, installation: print(address, flush=True))
"""
Answer = tuple[int, Any]
Thing = tuple[str, ...]


class Server:
    """A real server process on a data dir; it can be killed and started again."""

    def __init__(self, data_dir: Path, database: str) -> None:
        self.data_dir = data_dir
        self._database = database
        self._log = data_dir.with_name("server.log")
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.key = ""

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(self.data_dir), self._database],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        address = self._process.stdout.readline().strip()
        assert address, self._log.read_text()
        self.port = int(address.rpartition(":")[2])
        self.key = (self.data_dir / "admin.key").read_text().strip()

    def kill(self) -> None:
        """As `kill -9` does it: no farewell, no clean-up."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)

    def reap(self) -> int:
        """How it ended, once it has."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            return process.wait(START_SECONDS)

    def stop(self) -> int:
        if self._process is not None:
            self._process.terminate()
        return self.reap()

    def complaints(self) -> str:
        return self._log.read_text()


class RawConnection:
    """One kept-alive connection, as thin as can be, so that the server is what is busy."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None, once: str = "") -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._server.key}\r\n"
        head += f"Content-Length: {len(content)}\r\n" + (f"Idempotency-Key: {once}\r\n" if once else "") + "\r\n"
        writer.write(head.encode() + content)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length: ")[2].partition("\r")[0] or 0)
        text = await reader.readexactly(length)
        return int(answer.split(" ", 2)[1]), json.loads(text) if text else None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
        self._streams = None


class WriteRequest(Struct, frozen=True):
    """A request, and what is true once it is answered: each thing with its value, None where it is gone."""

    method: str
    path: str
    body: Any
    effect: dict[Thing, str | None]
    once: str = ""


class RandomWriter:
    """Writes at random, one request after the other, to things that are its own."""

    def __init__(self, number: int, server: Server) -> None:
        self.prefix = f"c{number}"
        self.known: dict[Thing, str] = {}
        self.unanswered: WriteRequest | None = None
        self.key_ids: dict[Thing, str] = {}
        self._random = random.Random(f"{SEED} {number}")
        self._count = 0
        self._connection = RawConnection(server)

    async def write(self, write: WriteRequest) -> None:
        self.unanswered = write
        status, answer = await self._connection.ask(write.method, write.path, write.body, write.once)
        assert status in (200, 201, 204), (write, status, answer)
        self.settle(write)
        if write.path == f"{V1}/keys":
            self.key_ids[next(iter(write.effect))] = answer["key"]["id"]

    def settle(self, write: WriteRequest) -> None:
        self.known = self.after(write)
        self.unanswered = None

    def after(self, write: WriteRequest) -> dict[Thing, str]:
        merged = {**self.known, **write.effect}
        return {thing: value for thing, value in merged.items() if value is not None}

    def disconnect(self) -> None:
        self._connection.close()

    def next_write(self) -> WriteRequest:
        """Any write that is possible now, most often one that makes something."""
        self._count += 1
        users, workspaces = self._names("user"), self._names("workspace")
        made = f"{self.prefix}-{self._count}"
        kind = self._random.choices(
            ["user", "rename", "workspace", "describe", "member", "key", "leave", "revoke", "no user", "no workspace"],
            [22, 12, 14, 6, 16, 12, 5, 5, 5, 3],
        )[0]
        if kind in {"rename", "member", "key", "no user"} and not users:
            kind = "user"
        if kind in {"describe", "member", "no workspace"} and not workspaces:
            kind = "workspace"
        return self._made(kind, made, users, workspaces)

    def _made(self, kind: str, made: str, users: list[str], workspaces: list[str]) -> WriteRequest:
        pick = self._random.choice
        match kind:
            case "rename":
                name = pick(users)
                return WriteRequest("PATCH", f"{V1}/users/{name}", {"fullName": made}, {("user", name): made})
            case "describe":
                name = pick(workspaces)
                return WriteRequest(
                    "PATCH", f"{V1}/workspaces/{name}", {"description": made}, {("workspace", name): made}
                )
            case "workspace":
                return WriteRequest("POST", f"{V1}/workspaces", {"name": made}, {("workspace", made): ""}, made)
            case "member":
                workspace, user, role = pick(workspaces), pick(users), pick(["viewer", "member", "manager"])
                path = f"{V1}/workspaces/{workspace}/members/{user}"
                return WriteRequest("PUT", path, {"role": role}, {("member", workspace, user): role})
            case "key":
                name = pick(users)
                return WriteRequest(
                    "POST", f"{V1}/keys", {"name": made, "user": name}, {("key", name, made): made}, made
                )
            case "leave" if members := self._things("member"):
                thing = pick(members)
                return WriteRequest("DELETE", f"{V1}/workspaces/{thing[1]}/members/{thing[2]}", None, {thing: None})
            case "revoke" if keys := self._things("key"):
                thing = pick(keys)
                return WriteRequest("DELETE", f"{V1}/keys/{self.key_ids[thing]}", None, {thing: None})
            case "no user":
                name = pick(users)
                return WriteRequest("DELETE", f"{V1}/users/{name}", None, self._gone("user", name))
            case "no workspace":
                name = pick(workspaces)
                return WriteRequest("DELETE", f"{V1}/workspaces/{name}", None, self._gone("workspace", name))
            case _:
                return WriteRequest("POST", f"{V1}/users", {"name": made}, {("user", made): ""}, made)

    def _gone(self, kind: str, name: str) -> dict[Thing, str | None]:
        """With a user go its keys and memberships, with a workspace its members."""
        inside = {"user": [("member", 2), ("key", 1)], "workspace": [("member", 1)]}[kind]
        gone = [thing for thing in self.known if any(thing[0] == k and thing[i] == name for k, i in inside)]
        return dict.fromkeys([(kind, name), *gone])

    def _things(self, kind: str) -> list[Thing]:
        return [thing for thing in self.known if thing[0] == kind]

    def _names(self, kind: str) -> list[str]:
        return [thing[1] for thing in self._things(kind)]


class StoredState:
    """Everything a server holds, as its API tells it."""

    def __init__(self) -> None:
        self.things: dict[Thing, str] = {}
        self.key_ids: dict[Thing, str] = {}

    def of(self, client: RandomWriter) -> dict[Thing, str]:
        start = f"{client.prefix}-"
        return {thing: value for thing, value in self.things.items() if thing[1].startswith(start)}


async def read_everything(server: Server) -> StoredState:
    held = StoredState()
    connection = RawConnection(server)
    for user in await _pages(connection, f"{V1}/users"):
        held.things["user", user["name"]] = user["fullName"]
    for key in await _pages(connection, f"{V1}/keys"):
        held.things["key", key["user"], key["name"]] = key["name"]
        held.key_ids["key", key["user"], key["name"]] = key["id"]
    for workspace in await _pages(connection, f"{V1}/workspaces"):
        name = workspace["name"]
        held.things["workspace", name] = workspace["description"]
        for member in await _pages(connection, f"{V1}/workspaces/{name}/members"):
            held.things["member", name, member["user"]] = member["role"]
    connection.close()
    return held


async def _pages(connection: RawConnection, path: str) -> list[Any]:
    items: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        status, page = await connection.ask("GET", f"{path}?limit=1000&offset={offset}")
        assert status == 200, page
        items += page["items"]
        offset = page["next"]
    return items


async def write_until(server: Server, clients: list[RandomWriter], done: int, until: int) -> int:
    """Everyone writes until so many writes are answered; then the server is killed while the others wait."""
    answered = done

    async def work(client: RandomWriter) -> None:
        nonlocal answered
        while answered < until:
            try:
                await client.write(client.next_write())
            except (ConnectionError, asyncio.IncompleteReadError):
                assert answered >= until, f"the server broke off by itself: {server.complaints()}"
                return
            answered += 1
            if answered == until and until < WRITES:
                server.kill()

    await asyncio.gather(*(work(client) for client in clients))
    for client in clients:
        client.disconnect()
    return answered


async def check_and_resend(server: Server, clients: list[RandomWriter]) -> None:
    """What is held is what was answered; the request under way happened whole or not at all."""
    held = await read_everything(server)
    for client in clients:
        found, pending = held.of(client), client.unanswered
        if found != client.known:
            assert pending is not None, _difference(client.known, found)
            assert found == client.after(pending), _difference(client.after(pending), found)
        client.key_ids |= {thing: held.key_ids[thing] for thing in found if thing[0] == "key"}
    await asyncio.gather(*(_resend(server, client) for client in clients if client.unanswered))


async def _resend(server: Server, client: RandomWriter) -> None:
    """A client that got no answer asks again, and is told that it is done."""
    write = client.unanswered
    assert write is not None
    connection = RawConnection(server)
    status, answer = await connection.ask(write.method, write.path, write.body, write.once)
    connection.close()
    assert status in (200, 201, 204) or (write.method, status) == ("DELETE", 404), (write, status, answer)
    client.settle(write)
    if write.path == f"{V1}/keys":
        client.key_ids[next(iter(write.effect))] = answer["key"]["id"]


def _difference(expected: dict[Thing, str], found: dict[Thing, str]) -> str:
    lost = {thing: value for thing, value in expected.items() if found.get(thing) != value}
    extra = {thing: value for thing, value in found.items() if thing not in expected}
    return f"lost or changed: {lost}; should not be there: {extra}"


def check_file(server: Server) -> None:
    with contextlib.closing(sqlite3.connect(server.data_dir / "stoker.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[Server]:
    made = Server(tmp_path / "data", database_url)
    yield made
    with contextlib.suppress(ProcessLookupError):
        made.stop()


@pytest.mark.slow
def test_no_write_that_was_answered_is_lost_when_the_server_is_killed(server: Server, database_url: str) -> None:
    moments = random.Random(SEED)
    kills = [moments.randrange(low, low + 2000) for low in (1000, 4000, 7000)]

    async def run() -> None:
        clients = [RandomWriter(number, server) for number in range(CLIENTS)]
        answered = 0
        server.start()
        for until in (*kills, WRITES):
            answered = await write_until(server, clients, answered, until)
            if until < WRITES:
                assert server.reap() == -signal.SIGKILL
                server.start()
            await check_and_resend(server, clients)
            if not database_url:
                check_file(server)
        assert answered >= WRITES

    asyncio.run(run())
    assert server.stop() == 0
    assert "ERROR" not in server.complaints()
    assert "Traceback" not in server.complaints()
