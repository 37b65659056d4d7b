"""Defences against requests that a foreign page makes a browser send."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from starlette.types import Message
from tests.api.conftest import OpenHarness
from tests.api.harness import MANAGEMENT_PATH, V1, Harness

import stoker.api
from stoker.api.http.exports import encode_csv

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/healthz", 200),
        ("/metrics", 200),
        ("/openapi.json", 200),
        ("/docs/start.js", 200),
        ("/nothing", 404),
        (f"{V1}/me", 200),
        (f"{V1}/users/ghost", 404),
        (f"{V1}/events", 200),
        (f"{V1}/usage?format=csv", 200),
        (MANAGEMENT_PATH, 200),
        (f"{MANAGEMENT_PATH}?limit=x", 400),
        ("/api/workloads", 200),
        ("/api/v1/workloads", 200),
        ("/api/v1/gpu-aggregation/clusters", 200),
    ],
)
def test_every_answer_tells_a_browser_what_it_may_not_do(shared_harness: Harness, path: str, status: int) -> None:
    answer = shared_harness.get(path, as_="admin")
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert len(answer.headers.get_list("Content-Security-Policy")) == 1


def test_the_page_of_the_api_may_load_its_own_parts_and_nothing_else(shared_harness: Harness) -> None:
    answer = shared_harness.get("/docs")
    [policy] = answer.headers.get_list("Content-Security-Policy")
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert (answer.headers["X-Frame-Options"], answer.headers["X-Content-Type-Options"]) == ("DENY", "nosniff")


class Refusal(Struct, frozen=True):
    status: int
    headers: dict[str, str]


def _open_socket(
    harness: Harness, *, origin: str | None, scheme: str = "ws", peer: str = "127.0.0.1", **more: str
) -> Refusal:
    """The error instead of a terminal; 404 once the requesting page counts as our own."""
    sent: list[Message] = []
    names = {"host": "gpu.example:8080", "authorization": f"Bearer {harness.keys['admin']}", **more}
    if origin is not None:
        names["origin"] = origin
    scope: dict[str, Any] = {
        "type": "websocket",
        "scheme": scheme,
        "path": f"{V1}/workloads/ghost/exec",
        "raw_path": f"{V1}/workloads/ghost/exec".encode(),
        "query_string": b"command=true",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in names.items()],
        "client": (peer, 40000),
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    harness.run(harness.app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Refusal(sent[0]["status"], headers)


@pytest.mark.parametrize(
    ("scheme", "origin", "status"),
    [
        ("ws", None, 404),
        ("wss", None, 404),
        ("ws", "http://gpu.example:8080", 404),
        ("wss", "https://gpu.example:8080", 404),
        ("wss", "http://gpu.example:8080", 403),
        ("ws", "https://gpu.example:8080", 403),
        ("ws", "http://gpu.example", 403),
        ("ws", "http://elsewhere.example:8080", 403),
        ("ws", "gpu.example:8080", 403),
        ("ws", "null", 403),
        ("ws", "", 403),
    ],
)
def test_a_terminal_is_opened_by_pages_of_the_same_scheme_host_and_port_only(
    shared_harness: Harness, scheme: str, origin: str | None, status: int
) -> None:
    refusal = _open_socket(shared_harness, origin=origin, scheme=scheme)
    assert refusal.status == status
    assert {name: refusal.headers.get(name.lower()) for name in HEADERS} == HEADERS


def test_a_page_behind_a_proxy_that_speaks_https_is_one_of_ours_if_the_proxy_is_trusted(
    open_harness: OpenHarness,
) -> None:
    harness = open_harness(trusted_proxies=("10.0.0.0/8",))
    page = "https://gpu.example:8080"
    assert _open_socket(harness, origin=page, peer="10.0.0.1", x_forwarded_proto="https").status == 404
    assert _open_socket(harness, origin=page, peer="11.0.0.1", x_forwarded_proto="https").status == 403


def test_no_text_in_csv_is_computed() -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "plain", ""]
    [line] = encode_csv([["a", 1, -1.5, None]]).decode().splitlines()
    assert line == "a,1,-1.5,"
    for text in texts:
        written = encode_csv([[text]]).decode()
        assert written.lstrip('"').startswith("'") == (text not in {"plain", ""})


def test_every_answer_in_csv_is_written_by_the_one_that_defuses_it() -> None:
    source = Path(stoker.api.__file__).parent
    writers = [path.name for path in source.rglob("*.py") if "csv.writer" in path.read_text()]
    assert writers == ["exports.py"]
