"""The two clients over a fake transport."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from typing import assert_type

import httpx
import pytest
from tests.unit.cli.fake_server import FakeServer, page, problem, raising, user

from stoker.client import AsyncStoker, Stoker, StokerError, Unreachable
from stoker.client.resources.operations import PagedItems
from stoker.client.transport.httpx_transport import bypass_proxy
from stoker.client.transport.server_address import is_loopback, normalize_server
from stoker.domain.access.identity import Scope, UserRole
from stoker.wire.credentials import NewKeyView
from stoker.wire.identity import EditQuota, QuotaBody, UserView

SERVER = "http://stoker.test"


def client(server: FakeServer) -> Stoker:
    return Stoker(SERVER, "sk-test", transport=server.transport)


def test_both_clients_ask_for_the_same_thing() -> None:
    sync_server, async_server = FakeServer({"GET /users/li.wei": (200, user())}), FakeServer()
    async_server.answers = sync_server.answers

    async def ask() -> UserView:
        async with AsyncStoker(SERVER, "sk-test", transport=async_server.transport) as stoker:
            asked = stoker.users.get("li.wei")
            assert_type(asked, Awaitable[UserView])
            return await asked

    with client(sync_server) as stoker:
        found = stoker.users.get("li.wei")
        assert_type(found, UserView)
    assert found == asyncio.run(ask())
    assert sync_server.asked[0].url == async_server.asked[0].url
    assert sync_server.asked[0].headers == async_server.asked[0].headers
    assert found.created_at == datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


def pages() -> FakeServer:
    return FakeServer({"GET /users": [(200, page(user("a"), user("b"), following=2)), (200, page(user("c")))]})


def test_a_list_asks_for_a_page_when_its_first_item_is_needed() -> None:
    server = pages()
    with client(server) as stoker:
        found = stoker.users.list(role=UserRole.USER, disabled=False)
        assert_type(found, PagedItems[UserView])
        assert server.asked == []
        assert [next(found).name, next(found).name] == ["a", "b"]
        assert len(server.asked) == 1
        assert [each.name for each in found] == ["c"]
    assert server.asked[1].url.params == httpx.QueryParams(limit="500", role="user", disabled="false", offset="2")


def test_an_async_list_goes_through_all_pages_too() -> None:
    async def names() -> list[str]:
        async with AsyncStoker(SERVER, transport=pages().transport) as stoker:
            found = stoker.users.list()
            assert_type(found, AsyncIterator[UserView])
            return [each.name async for each in found]

    assert asyncio.run(names()) == ["a", "b", "c"]


def test_what_is_left_out_is_not_sent() -> None:
    server = FakeServer({"PATCH /users/a": (200, user("a")), "PATCH /workspaces/v": (404, problem("not_found", "M"))})
    with client(server) as stoker:
        stoker.users.edit("a", full_name="A")
        with pytest.raises(StokerError):
            stoker.workspaces.edit("v", quota=EditQuota(gpu=None, memory="1Ti"))
    assert server.bodies() == [{"fullName": "A"}, {"quota": {"gpu": None, "memory": "1Ti"}}]


def test_a_create_sends_one_idempotency_key_however_often_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    lost = httpx.ReadError("connection reset")
    server = FakeServer({"POST /users": [lost, (503, problem("unavailable", "M")), (201, user("a")), (201, user("b"))]})
    with client(server) as stoker:
        stoker.users.create("a")
        stoker.users.create("b")
    keys = [request.headers["idempotency-key"] for request in server.asked]
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_a_key_is_asked_for_in_the_words_of_the_api() -> None:
    key = {
        "id": "k",
        "name": "ci",
        "user": "a",
        "hint": "sk…",
        "scopes": ["read"],
        "cidrs": [],
        "createdAt": "2026-01-15T10:30:00.000Z",
        "expiresAt": None,
        "lastUsedAt": None,
        "lastUsedFrom": "",
    }
    server = FakeServer({"POST /keys": (201, {"key": key, "secret": "sk-secret"})})
    with client(server) as stoker:
        made = stoker.keys.create("ci", scopes=[Scope.READ], expires_at=datetime(2027, 1, 31, tzinfo=UTC))
    assert server.bodies() == [{"name": "ci", "scopes": ["read"], "expiresAt": "2027-01-31T00:00:00Z"}]
    assert made.secret == "sk-secret"
    assert "sk-secret" not in repr(made)
    assert isinstance(made, NewKeyView)


def test_a_time_without_a_zone_is_refused() -> None:
    with client(FakeServer()) as stoker, pytest.raises(StokerError, match="no time zone"):
        stoker.keys.create("ci", expires_at=datetime(2027, 1, 31))


def test_the_token_of_a_log_in_is_used_from_then_on() -> None:
    logged_in = {
        "user": user(),
        "accessToken": "token",
        "csrfToken": None,
        "expiresAt": "2026-01-15T22:30:00.000Z",
    }
    server = FakeServer({"POST /login": (200, logged_in), "GET /users/li.wei": (200, user())})
    with Stoker(SERVER, transport=server.transport) as stoker:
        stoker.login("li.wei", "correct horse")
        stoker.users.get("li.wei")
    assert "authorization" not in server.asked[0].headers
    assert server.asked[1].headers["authorization"] == "Bearer token"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a b", "ü", "a?b#c"])
def test_a_name_stays_one_part_of_the_path(name: str) -> None:
    server = FakeServer()
    with client(server) as stoker, pytest.raises(StokerError):
        stoker.members.remove("w", name)
    assert server.asked[0].url.raw_path.count(b"/") == 7


def test_an_empty_name_is_refused_before_it_means_the_whole_list() -> None:
    server = FakeServer()
    with client(server) as stoker, pytest.raises(StokerError, match="empty"):
        stoker.users.delete("")
    assert server.asked == []


def test_a_server_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    refused = httpx.MockTransport(raising(httpx.ConnectError("[Errno 111] Connection refused")))
    with Stoker(SERVER, transport=refused) as stoker, pytest.raises(Unreachable) as caught:
        stoker.me()
    assert caught.value.message == f"The server at {SERVER} cannot be reached: connection refused."


def test_a_certificate_that_is_not_trusted_says_how_to_trust_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    untrusted = httpx.MockTransport(raising(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")))
    with Stoker(SERVER, transport=untrusted) as stoker, pytest.raises(Unreachable) as caught:
        stoker.me()
    assert "SSL_CERT_FILE" in caught.value.hint


def test_a_proxy_of_the_environment_is_for_other_machines_only() -> None:
    assert set(bypass_proxy("http://127.0.0.1:8080")) == {"http://", "https://", "all://"}
    assert bypass_proxy("https://gpu.test") == {}


def test_an_unknown_parameter_is_a_mistake_of_the_program() -> None:
    with client(FakeServer()) as stoker, pytest.raises(TypeError):
        stoker.users.create("a", passwort="x")  # pyrefly: ignore[unexpected-keyword]


def test_a_token_that_cannot_be_a_header_is_refused_without_showing_it() -> None:
    with pytest.raises(StokerError) as caught:
        Stoker(SERVER, "two\nlines")
    assert "two" not in caught.value.message


def test_a_quota_of_none_is_no_limit() -> None:
    server = FakeServer()
    with client(server) as stoker, pytest.raises(StokerError):
        stoker.workspaces.create("v", quota=QuotaBody(gpu="8"))
    assert server.bodies() == [{"name": "v", "quota": {"gpu": "8", "cpu": None, "memory": None}}]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("HTTPS://Stoker.Example.COM:443", "https://stoker.example.com"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://example.com/stoker/", "https://example.com/stoker"),
    ],
)
def test_an_address_has_one_spelling(text: str, address: str) -> None:
    assert normalize_server(text) == address


@pytest.mark.parametrize("text", ["", "127.0.0.1:8080", "ftp://x", "http://", "http://x:y", "http://a b", "http://u@x"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(StokerError, match="not an address"):
        normalize_server(text)


def test_only_this_machine_is_loopback() -> None:
    assert [is_loopback(f"http://{host}") for host in ("127.0.0.1:1", "127.9.9.9", "[::1]", "localhost")] == [True] * 4
    assert [is_loopback(f"http://{host}") for host in ("10.0.0.1", "localhost.evil.org", "example.com")] == [False] * 3
