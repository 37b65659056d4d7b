"""Who a peer of the server's Unix socket is: by the user of the machine, and by nothing that it sends."""

import os

import httpx
from msgspec import Struct
from starlette.types import Receive, Scope, Send
from tests.api.conftest import OpenHarness
from tests.api.harness import V1, Harness

from stoker.domain.access.peers import ProcessOwner, SocketPeer

STRANGER = 4242


class FakeConnection(Struct, frozen=True):
    """A connection of the socket."""

    peer: SocketPeer | None
    whose: ProcessOwner = ProcessOwner.MACHINE

    async def owner(self) -> ProcessOwner:
        return self.whose


def ask(
    harness: Harness,
    uid: int,
    path: str = f"{V1}/me",
    whose: ProcessOwner = ProcessOwner.MACHINE,
    **headers: str,
) -> httpx.Response:
    accepted = FakeConnection(SocketPeer(uid=uid, gid=0, pid=1), whose)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await harness.app({**scope, "client": None, "state": {"connection": accepted}}, receive, send)

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers=headers)

    return harness.run(get())


def test_the_servers_own_user_and_root_are_admin(harness: Harness) -> None:
    for uid in {os.geteuid(), 0}:
        me = ask(harness, uid).json()
        assert (me["user"]["name"], me["user"]["role"]) == ("admin", "admin")
        assert me["credential"] == f"socket uid {uid}"


def test_another_user_of_the_machine_is_nobody_without_a_credential(harness: Harness) -> None:
    refused = ask(harness, STRANGER)
    assert refused.status_code == 401
    assert refused.json()["error"]["message"] == "The local user with uid 4242 needs a credential."
    named = ask(harness, STRANGER, Authorization=f"Bearer {harness.keys['admin']}")
    assert named.json()["credential"].startswith("key ")


def test_another_user_does_not_become_the_machine_by_the_monitoring_setting(harness: Harness) -> None:
    assert ask(harness, STRANGER, "/metrics").status_code == 401
    assert ask(harness, os.geteuid(), "/metrics").status_code == 200


def test_a_disabled_admin_is_not_let_in_by_the_socket(harness: Harness) -> None:
    harness.add_user("other", role="admin")
    assert harness.patch(f"{V1}/users/admin", as_="other", json={"disabled": True}).status_code == 200
    refused = ask(harness, os.geteuid())
    assert refused.status_code == 401
    assert "disabled or deleted" in refused.json()["error"]["message"]


def test_what_proxies_say_is_not_believed_on_the_socket(open_harness: OpenHarness) -> None:
    harness = open_harness(trusted_proxies=("127.0.0.0/8", "::1/128"))
    key = harness.add_key("admin", cidrs=["203.0.113.0/24"])["secret"]
    asked = ask(harness, STRANGER, Authorization=f"Bearer {key}", **{"X-Forwarded-For": "203.0.113.9"})
    assert asked.status_code == 403


def test_a_job_that_runs_as_the_servers_user_is_not_admin(harness: Harness) -> None:
    refused = ask(harness, os.geteuid(), whose=ProcessOwner.POD)
    assert refused.status_code == 401
    assert "it comes from a job" in refused.json()["error"]["message"]
    named = ask(harness, os.geteuid(), whose=ProcessOwner.POD, Authorization=f"Bearer {harness.keys['admin']}")
    assert named.status_code == 200


def test_who_cannot_be_found_is_refused_and_told_to_use_a_credential(harness: Harness) -> None:
    refused = ask(harness, os.geteuid(), whose=ProcessOwner.UNKNOWN)
    assert refused.status_code == 401
    assert "it may come from a job" in refused.json()["error"]["message"]
    assert "Authorization: Bearer" in refused.json()["error"]["hint"]
