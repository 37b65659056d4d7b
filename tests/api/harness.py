"""An installation inside the test's own process, called over ASGI, with a clock that only the test advances.

It has no engine: submitted workloads are accepted and stay pending.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack
from unittest import mock

import httpx
from starlette.types import Message, Receive, Scope, Send
from tests.clock import ManualClock

from stoker.api.http.app import AsgiApp
from stoker.controller.runtime.lease import LEASE_DURATION_MS
from stoker.domain.settings.schema import Settings
from stoker.server.composition import Installation, running_installation
from stoker.server.runtime.cluster_runtime import ClusterRuntime
from stoker.services.fleet.leadership import LEASE_LOOP
from stoker.services.identity.bootstrap import LOCAL_CLUSTER

T = TypeVar("T")
Ask = Coroutine[Any, Any, httpx.Response]

START = 1_768_473_000_000
"""2026-01-15T10:30:00.000Z."""
STARTED = "2026-01-15T10:30:00.000Z"
PASSWORD = "correct horse battery"
FAR = "203.0.113.9"
"""A peer that is not on this machine."""


class StoppedClock(ManualClock):
    """A clock that stands still until a test sets it."""

    def __init__(self, now: int = START) -> None:
        super().__init__(now)


class RequestOptions(TypedDict, total=False):
    """How a request is sent: the caller, its address, and the content."""

    as_: str
    bearer: str
    cookie: str
    csrf: str
    peer: str
    scheme: str
    headers: Mapping[str, str] | list[tuple[str, str]]
    json: Any
    content: bytes | str | AsyncIterator[bytes]


class Harness:
    """`harness.get(path, as_="viewer")` sends a request with that user's API key; without `as_` it is anonymous."""

    def __init__(self, data_dir: Path, database: str = "", **settings: Any) -> None:
        settings.setdefault("reserve_bytes", 0)
        self.settings = Settings(data_dir=str(data_dir), database=database, **settings)
        self.clock = StoppedClock()
        self.keys: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._stack = AsyncExitStack()
        self._runner = asyncio.Runner()
        with mock.patch.object(ClusterRuntime, "running", _without_engines):
            opening = self._stack.enter_async_context(running_installation(self.settings, self.clock))
            self.installation: Installation = self.run(opening)
        self.app: AsgiApp = self.installation.api
        self.loops = self.installation.loops
        self.drive()
        self.keys["admin"] = self.installation.admin_key_file.read_text().strip()

    def drive(self) -> None:
        """Hold the lease of the local cluster, as a server with an engine does."""
        self.loops.record_start(LEASE_LOOP, LOCAL_CLUSTER, self.clock.now())

    def stop_driving(self) -> None:
        """Let the lease of the local cluster expire."""
        self.loops.record_stop(LEASE_LOOP, LOCAL_CLUSTER)
        self.clock.advance(LEASE_DURATION_MS / 1000)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._runner:
            self.run(self._stack.aclose())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    async def ask(self, method: str, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        """Send one request; each has a client of its own, so no cookie is stored."""
        given = how.get("headers", [])
        headers = list(given.items() if isinstance(given, Mapping) else given)
        if "as_" in how:
            headers.append(("Authorization", f"Bearer {self.keys[how['as_']]}"))
        if "bearer" in how:
            headers.append(("Authorization", f"Bearer {how['bearer']}"))
        if "cookie" in how:
            headers.append(("Cookie", f"stoker_session={how['cookie']}"))
        if "csrf" in how:
            headers.append(("X-CSRF-Token", how["csrf"]))
        transport = httpx.ASGITransport(self._begin, client=(how.get("peer", "127.0.0.1"), 40000))
        base = f"{how.get('scheme', 'http')}://127.0.0.1:8080"
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
            return await client.request(method, path, headers=raw, json=how.get("json"), content=how.get("content"))

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, disconnected after the first chunk of an endless response."""
        endless = False

        async def forward(message: Message) -> None:
            nonlocal endless
            if message["type"] == "http.response.start":
                endless = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            if message["type"] == "http.response.body" and endless:
                await send({**message, "more_body": False})
                raise _EnoughError
            await send(message)

        with contextlib.suppress(_EnoughError):
            await self.app(scope, receive, forward)

    def request(self, method: str, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        return self.run(self.ask(method, path, **how))

    def get(self, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        return self.request("GET", path, **how)

    def post(self, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        return self.request("POST", path, **how)

    def put(self, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        return self.request("PUT", path, **how)

    def patch(self, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        return self.request("PATCH", path, **how)

    def delete(self, path: str, **how: Unpack[RequestOptions]) -> httpx.Response:
        return self.request("DELETE", path, **how)

    def together(self, *asks: Ask) -> list[httpx.Response]:
        """The responses to concurrent requests, in the order of the requests."""

        async def gather() -> list[httpx.Response]:
            return await asyncio.gather(*asks)

        return self.run(gather())

    async def never(self) -> None:
        """A receive call that never returns."""
        await asyncio.Event().wait()

    def name(self, stem: str) -> str:
        """An unused name."""
        return f"{stem}-{next(self._numbers)}"

    def add_user(self, name: str = "", *, role: str = "user", password: str = "") -> str:
        """A user with an API key, and with a password if one is given."""
        name = name or self.name("user")
        made = self.post(f"{V1}/users", as_="admin", json={"name": name, "role": role, "password": password})
        assert made.status_code == 201, made.text
        self.keys[name] = self.add_key(name)["secret"]
        return name

    def add_key(self, user: str, **fields: Any) -> dict[str, Any]:
        made = self.post(f"{V1}/keys", as_="admin", json={"name": f"key of {user}", "user": user, **fields})
        assert made.status_code == 201, made.text
        return made.json()

    def add_workspace(self, name: str = "", **members: str) -> str:
        """A workspace with these members: `viewer="li"` makes li a viewer."""
        name = name or self.name("workspace")
        made = self.post(f"{V1}/workspaces", as_="admin", json={"name": name})
        assert made.status_code == 201, made.text
        for role, user in members.items():
            added = self.put(f"{V1}/workspaces/{name}/members/{user}", as_="admin", json={"role": role})
            assert added.status_code == 200, added.text
        return name

    def add_application(self, name: str = "", **fields: Any) -> dict[str, Any]:
        name = name or self.name("application")
        body = {"name": name, "admin": not fields.get("workspaces"), **fields}
        made = self.post(f"{V1}/applications", as_="admin", json=body)
        assert made.status_code == 201, made.text
        return made.json()

    def add_workload(self, workspace: str, as_: str = "admin", **fields: Any) -> str:
        """A pending workload."""
        body = {
            "displayName": self.name("work"),
            "workspaceId": workspace,
            "groupVersionKind": {"kind": "Authoring", "version": "v1"},
            "image": "python:3.11",
            "resource": {"cpu": "1", "memory": "1Gi", "replica": 1},
            **fields,
        }
        made = self.post(MANAGEMENT_PATH, as_=as_, json=body)
        assert made.status_code == 200, made.text
        return made.json()["workloadId"]

    def add_staff(self) -> None:
        """One user of each role: in workspace vision, in workspace audio (outsider), and in none (nobody)."""
        for name in ("manager", "member", "viewer", "outsider", "nobody"):
            self.add_user(name)
        self.add_workspace("vision", manager="manager", member="member", viewer="viewer")
        self.add_workspace("audio", manager="outsider")

    def log_in(self, name: str, password: str = PASSWORD, **how: Unpack[RequestOptions]) -> httpx.Response:
        """Log in as a browser does."""
        how["json"] = {"username": name, "password": password}
        return self.post(f"{V1}/login", **how)

    def session_token(self, name: str, password: str = PASSWORD) -> str:
        """The bearer token of a log-in, as a program requests it."""
        answer = self.post(f"{V1}/login?token=true", json={"username": name, "password": password})
        assert answer.status_code == 200, answer.text
        return answer.json()["accessToken"]

    def token(self, client_id: str, secret: str) -> str:
        """An application's bearer token."""
        body = {"grantType": "client_credentials", "clientId": client_id, "clientSecret": secret}
        answer = self.post("/api/v1/token", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["accessToken"]

    def audit(self, **filters: str) -> list[dict[str, Any]]:
        """The audit log, newest first."""
        query = str(httpx.QueryParams({**filters, "limit": "1000"}))
        return self.get(f"{V1}/audit?{query}", as_="admin").json()["items"]


V1 = "/api/stoker/v1"
MANAGEMENT_PATH = "/api/custom/workloads"


class _EnoughError(Exception):
    """The client has received enough."""


@contextlib.asynccontextmanager
async def _without_engines(fleet: ClusterRuntime, data_dir: Path) -> AsyncIterator[None]:
    yield


def problem(answer: httpx.Response, code: str, message: str, *, hint: str = "", field: str = "") -> dict[str, Any]:
    """The native error body, with the trace id of the response itself."""
    return {
        "error": {
            "code": code,
            "message": message,
            "hint": hint,
            "field": field,
            "traceId": answer.headers["X-Trace-Id"],
        }
    }
