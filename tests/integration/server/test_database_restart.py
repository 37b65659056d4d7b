"""A PostgreSQL that is stopped and started anew ends no shell, no log and no events that somebody has open."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.integration.live_server import LiveClient, LiveServer, until
from tests.integration.local.test_gang import V1, run_inside, said_until
from tests.postgres import PostgresServer

WAITS = "waits for the database"


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """One that this test may stop."""
    server = PostgresServer(fsync=False)
    try:
        server.start()
        yield server
    finally:
        server.remove()


class Listener:
    """Reads a stream of server-sent events in a thread."""

    def __init__(self, client: LiveClient, address: str, path: str) -> None:
        self.data: list[str] = []
        self.problem = ""
        self._headers = client.headers
        self._url = address + path
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            with httpx.stream("GET", self._url, headers=self._headers, timeout=60) as answer:
                for line in answer.iter_lines():
                    if line.startswith("event: error"):
                        self.problem = "the server ended it"
                    if line.startswith("data: "):
                        self.data.append(line.removeprefix("data: "))
        except httpx.HTTPError as error:
            self.problem = repr(error)


def test_what_is_open_outlasts_a_restart_of_the_database(
    tmp_path: Path, postgres: PostgresServer, shared_folder: Path
) -> None:
    postgres.execute("CREATE DATABASE restarted")
    go = shared_folder / "go"
    script = f"echo before; while ! test -e {go}; do sleep 0.1; done; echo after; sleep 600"
    options = ("--log-level", "info")
    with (
        LiveServer(tmp_path / "data", postgres.url("restarted"), options=options).start() as server,
        contextlib.closing(server.client()) as client,
    ):
        name = client.create(script)
        pod = client.until(name, lambda found: found["phase"] == "Running")["pods"][0]["podId"]
        logs = Listener(client, server.address, f"/api/custom/workloads/{name}/pods/{pod}/logs?follow=true")
        events = Listener(client, server.address, f"{V1}/events?after=0")
        with run_inside(server, name, "cat", tty="false") as shell:
            shell.send(b"first\n")
            said_until(shell, b"first")
            until(lambda: logs.data, lambda data: data == ["before"])
            until(lambda: events.data, lambda data: len(data) >= 1)
            postgres.stop()
            waiting = until(lambda: server.complaints().count(WAITS), lambda count: count >= 3)
            assert waiting >= 3, server.complaints()
            shell.send(b"second\n")
            said_until(shell, b"second")
            postgres.start()
            go.touch()
            assert until(lambda: logs.data, lambda data: len(data) == 2) == ["before", "after"]
            other = until(lambda: _created(client), bool)
            told = until(lambda: _slugs(events), lambda slugs: other in slugs)
            assert (other in told, events.problem, logs.problem) == (True, "", "")
            seen = [json.loads(data)["seq"] for data in events.data]
            assert len(seen) == len(set(seen))
            shell.send(b"third\n")
            said_until(shell, b"third")
        client.send("DELETE", f"/api/custom/workloads/{name}")


def _created(client: LiveClient) -> str:
    """The id of another workload, once the server takes one again."""
    try:
        return client.create("true", name="other")
    except AssertionError:
        return ""


def _slugs(events: Listener) -> set[str]:
    return {json.loads(data)["workloadId"] for data in events.data}
