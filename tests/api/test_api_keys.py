"""API keys: shown once, and limited by expiry, scopes and networks."""

import asyncio
import time

import httpx
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import FAR, PASSWORD, STARTED, V1, Harness, problem

from stoker.domain.errors import ErrorCode, StokerError

AGAIN = "Sign in again, or use another API key."


def _refused(answer: httpx.Response, message: str) -> None:
    assert (answer.status_code, answer.json()) == (401, problem(answer, "not_signed_in", message, hint=AGAIN))


def _forbidden(answer: httpx.Response, rule: str) -> None:
    assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", f"Not allowed: {rule}."))


def test_a_new_key_is_shown_once_and_never_again(harness: Harness) -> None:
    answer = harness.post(f"{V1}/keys", as_="admin", json={"name": "nightly"})
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    secret, key = answer.json()["secret"], answer.json()["key"]
    assert secret.startswith("sk-stoker-")
    assert len(secret) >= 50
    assert key == {
        "id": key["id"],
        "name": "nightly",
        "user": "admin",
        "hint": secret[:14] + "…",
        "scopes": [],
        "cidrs": [],
        "createdAt": STARTED,
        "expiresAt": None,
        "lastUsedAt": None,
        "lastUsedFrom": "",
    }
    listed = harness.get(f"{V1}/keys?name=nightly", as_="admin")
    assert listed.json() == {"items": [key], "total": 1, "next": None}


def test_its_use_is_noted_at_most_once_a_minute(harness: Harness) -> None:
    harness.add_user("li")
    listed = f"{V1}/keys?user=li"
    harness.get(f"{V1}/me", as_="li", peer=FAR)
    key = harness.get(listed, as_="admin").json()["items"][0]
    assert (key["lastUsedAt"], key["lastUsedFrom"]) == (STARTED, FAR)
    harness.clock.advance(seconds=59)
    harness.get(f"{V1}/me", as_="li")
    assert harness.get(listed, as_="admin").json()["items"][0] == key
    harness.clock.advance(seconds=1)
    harness.get(f"{V1}/me", as_="li")
    key = harness.get(listed, as_="admin").json()["items"][0]
    assert (key["lastUsedAt"], key["lastUsedFrom"]) == ("2026-01-15T10:31:00.000Z", "127.0.0.1")


def test_a_key_that_cannot_be_noted_still_reads(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(change: object) -> None:
        raise StokerError(ErrorCode.UNAVAILABLE, "The disk is full.")

    harness.add_user("li")
    monkeypatch.setattr(harness.installation.store, "write", full)
    monkeypatch.setattr(harness.installation.store, "write_inline", full)
    assert harness.get(f"{V1}/me", as_="li").status_code == 200
    answer = harness.post(f"{V1}/keys", as_="li", json={"name": "new"})
    assert (answer.status_code, answer.json()) == (503, problem(answer, "unavailable", "The disk is full."))


def test_nobody_waits_for_a_use_that_cannot_be_noted_yet(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def locked(change: object) -> None:
        await asyncio.sleep(60)

    harness.add_user("li")
    monkeypatch.setattr(harness.installation.store, "write_inline", locked)
    began = time.monotonic()
    assert harness.get(f"{V1}/me", as_="li").status_code == 200
    assert time.monotonic() - began < 10


def test_an_unknown_key_is_refused(harness: Harness) -> None:
    for credential in ("sk-stoker-", "sk-stoker-123", harness.keys["admin"][:-1], harness.keys["admin"] + "1"):
        _refused(harness.get(f"{V1}/me", bearer=credential), "The API key is not known.")


def test_a_key_works_until_it_expires(harness: Harness) -> None:
    secret = harness.add_key("admin", expiresAt="2026-01-15T11:30:00+00:00")["secret"]
    harness.clock.advance(seconds=3599)
    assert harness.get(f"{V1}/me", bearer=secret).status_code == 200
    harness.clock.advance(seconds=1)
    _refused(harness.get(f"{V1}/me", bearer=secret), "The API key has expired.")


@pytest.mark.parametrize("at", ["2026-01-15T10:30:00Z", "2020-01-01T00:00:00Z", "2026-01-15T18:30:00+08:00"])
def test_an_expiry_that_has_passed_is_refused(harness: Harness, at: str) -> None:
    answer = harness.post(f"{V1}/keys", as_="admin", json={"name": "late", "expiresAt": at})
    message = "expiresAt: this time has passed. Use a time in the future, or leave it out."
    expected = problem(answer, "bad_request", message, field="expiresAt")
    assert (answer.status_code, answer.json()) == (400, expected)


@pytest.mark.parametrize("at", ["", "tomorrow", "1768473000", "2026-13-01T00:00:00Z", "10000-01-01T00:00:00Z"])
def test_an_expiry_that_is_no_time_is_refused(harness: Harness, at: str) -> None:
    answer = harness.post(f"{V1}/keys", as_="admin", json={"name": "odd", "expiresAt": at})
    message = f'expiresAt: "{at}" is not a time. Use RFC 3339, for example "2027-01-31T08:00:00.000Z".'
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="expiresAt"))


def test_a_revoked_key_stops_at_once(harness: Harness) -> None:
    made = harness.add_key("admin")
    assert harness.get(f"{V1}/me", bearer=made["secret"]).status_code == 200
    assert harness.delete(f"{V1}/keys/{made['key']['id']}", as_="admin").status_code == 204
    _refused(harness.get(f"{V1}/me", bearer=made["secret"]), "The API key is not known.")
    answer = harness.delete(f"{V1}/keys/{made['key']['id']}", as_="admin")
    message = f'There is no API key "{made["key"]["id"]}", or you may not see it.'
    assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))


class TestNetworks:
    def test_it_is_forbidden_from_elsewhere(self, harness: Harness) -> None:
        secret = harness.add_key("admin", cidrs=["10.0.0.0/8", "2001:db8::/32"])["secret"]
        for peer in ("10.1.2.3", "2001:db8::7", "::ffff:10.1.2.3"):
            assert harness.get(f"{V1}/me", bearer=secret, peer=peer).status_code == 200
        for peer in ("11.0.0.1", "127.0.0.1", "2001:db9::7", "unix"):
            answer = harness.get(f"{V1}/me", bearer=secret, peer=peer)
            _forbidden(answer, f"this API key may not be used from {peer}")

    def test_host_bits_are_dropped_and_a_single_address_is_a_network(self, harness: Harness) -> None:
        assert harness.add_key("admin", cidrs=["10.1.2.3/8", " 192.168.0.1 "])["key"]["cidrs"] == [
            "10.0.0.0/8",
            "192.168.0.1/32",
        ]

    @pytest.mark.parametrize("cidr", ["", "everywhere", "10.0.0.0/33", "10.0.0/8"])
    def test_what_is_no_network_is_refused(self, harness: Harness, cidr: str) -> None:
        answer = harness.post(f"{V1}/keys", as_="admin", json={"name": "odd", "cidrs": ["10.0.0.0/8", cidr]})
        message = f'cidrs: "{cidr}" is not a network. Use for example "10.0.0.0/8".'
        assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="cidrs"))

    def test_a_key_made_with_a_limited_key_is_limited_like_it(self, harness: Harness) -> None:
        harness.keys["limited"] = harness.add_key("admin", cidrs=["127.0.0.0/8"])["secret"]
        made = harness.post(f"{V1}/keys", as_="limited", json={"name": "child"}).json()
        assert made["key"]["cidrs"] == ["127.0.0.0/8"]
        assert harness.get(f"{V1}/me", bearer=made["secret"], peer=FAR).status_code == 403

    def test_a_key_made_with_a_limited_key_may_be_limited_further(self, harness: Harness) -> None:
        harness.keys["limited"] = harness.add_key("admin", cidrs=["10.0.0.0/8", "127.0.0.0/8"])["secret"]
        made = harness.post(f"{V1}/keys", as_="limited", json={"name": "child", "cidrs": ["10.1.0.0/16"]})
        assert (made.status_code, made.json()["key"]["cidrs"]) == (201, ["10.1.0.0/16"])

    @pytest.mark.parametrize("cidrs", [["0.0.0.0/0"], ["126.0.0.0/7"], ["127.0.0.1/32", "::/0"]])
    def test_a_limited_key_cannot_make_a_wider_one(self, harness: Harness, cidrs: list[str]) -> None:
        harness.keys["limited"] = harness.add_key("admin", cidrs=["127.0.0.0/8"])["secret"]
        answer = harness.post(f"{V1}/keys", as_="limited", json={"name": "child", "cidrs": cidrs})
        message = "Not allowed: this credential may be used from 127.0.0.0/8 only, and so may the keys it creates."
        assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", message, field="cidrs"))


class TestExpiry:
    END = "2026-02-01T00:00:00.000Z"

    def expiring(self, harness: Harness) -> None:
        harness.keys["expiring"] = harness.add_key("admin", expiresAt=self.END)["secret"]

    def test_a_key_made_with_one_that_ends_ends_with_it(self, harness: Harness) -> None:
        self.expiring(harness)
        made = harness.post(f"{V1}/keys", as_="expiring", json={"name": "child"})
        assert (made.status_code, made.json()["key"]["expiresAt"]) == (201, self.END)

    def test_it_may_end_earlier(self, harness: Harness) -> None:
        self.expiring(harness)
        for end in ("2026-01-20T00:00:00.000Z", self.END):
            made = harness.post(f"{V1}/keys", as_="expiring", json={"name": "child", "expiresAt": end})
            assert (made.status_code, made.json()["key"]["expiresAt"]) == (201, end)

    def test_it_cannot_live_longer(self, harness: Harness) -> None:
        self.expiring(harness)
        later = {"name": "child", "expiresAt": "2026-02-01T00:00:00.001Z"}
        answer = harness.post(f"{V1}/keys", as_="expiring", json=later)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["field"]) == (403, "not_allowed", "expiresAt")
        assert error["message"] == f"Not allowed: this API key expires at {self.END}, and so do the keys it creates."


class TestBehindAProxy:
    """The address that counts is the one a trusted proxy names."""

    def _address(self, harness: Harness, forwarded: list[str], peer: str = "10.0.0.5") -> str:
        secret = harness.add_key("admin", cidrs=["192.0.2.0/24"])["secret"]
        headers = [("X-Forwarded-For", value) for value in forwarded]
        answer = harness.get(f"{V1}/me", bearer=secret, headers=headers, peer=peer)
        return answer.json()["error"]["message"].rpartition(" ")[2].rstrip(".") if answer.is_error else "192.0.2.x"

    @pytest.mark.parametrize(
        ("forwarded", "address"),
        [
            (["192.0.2.1"], "192.0.2.x"),
            (["192.0.2.1, 198.51.100.7"], "198.51.100.7"),
            (["198.51.100.7, 192.0.2.1"], "192.0.2.x"),
            (["192.0.2.1, 10.0.0.9"], "192.0.2.x"),
            (["198.51.100.7, 192.0.2.1, 10.0.0.9"], "192.0.2.x"),
            (["192.0.2.1", "198.51.100.7"], "198.51.100.7"),
            (["192.0.2.1", "198.51.100.7, 10.0.0.9"], "198.51.100.7"),
            (["192.0.2.1, unknown"], "10.0.0.5"),
            ([""], "10.0.0.5"),
            ([], "10.0.0.5"),
        ],
    )
    def test_the_last_address_that_is_not_a_proxy_counts(
        self, open_harness: OpenHarness, forwarded: list[str], address: str
    ) -> None:
        assert self._address(open_harness(trusted_proxies=("10.0.0.0/8",)), forwarded) == address

    def test_nobody_else_is_believed(self, open_harness: OpenHarness) -> None:
        assert self._address(open_harness(trusted_proxies=("10.0.0.0/8",)), ["192.0.2.1"], peer=FAR) == FAR

    def test_without_trusted_proxies_nobody_is(self, harness: Harness) -> None:
        assert self._address(harness, ["192.0.2.1"]) == "10.0.0.5"


class TestScopes:
    def test_a_read_key_reads_and_does_not_write(self, harness: Harness) -> None:
        harness.keys["reader"] = harness.add_key("admin", scopes=["read"])["secret"]
        for path in ("me", "users", "workspaces", "keys", "applications", "audit", "settings", "clusters"):
            assert harness.get(f"{V1}/{path}", as_="reader").status_code == 200
        rule = "user.create needs the scope manage; this credential has read"
        _forbidden(harness.post(f"{V1}/users", as_="reader", json={"name": "li"}), rule)
        rule = "workspace.update needs the scope manage; this credential has read"
        _forbidden(harness.patch(f"{V1}/workspaces/default", as_="reader", json={"description": "x"}), rule)
        rule = "workspace.delete needs the scope manage; this credential has read"
        _forbidden(harness.delete(f"{V1}/workspaces/default", as_="reader"), rule)

    def test_a_workloads_key_does_not_manage(self, harness: Harness) -> None:
        harness.keys["worker"] = harness.add_key("admin", scopes=["workloads"])["secret"]
        assert harness.get(f"{V1}/workspaces/default", as_="worker").status_code == 200
        rule = "user.list needs the scope manage or read; this credential has workloads"
        _forbidden(harness.get(f"{V1}/users", as_="worker"), rule)
        rule = "member.set needs the scope manage; this credential has workloads"
        body = {"role": "viewer"}
        _forbidden(harness.put(f"{V1}/workspaces/default/members/admin", as_="worker", json=body), rule)

    def test_a_workloads_key_is_told_that_it_may_not_read_its_own_user(self, harness: Harness) -> None:
        harness.add_user("li")
        harness.keys["worker"] = harness.add_key("li", scopes=["workloads"])["secret"]
        rule = "user.read needs the scope manage or read; this credential has workloads"
        _forbidden(harness.get(f"{V1}/users/li", as_="worker"), rule)
        answer = harness.get(f"{V1}/users/admin", as_="worker")
        message = 'There is no user "admin", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_a_manage_key_manages(self, harness: Harness) -> None:
        harness.keys["boss"] = harness.add_key("admin", scopes=["manage"])["secret"]
        assert harness.post(f"{V1}/users", as_="boss", json={"name": "li"}).status_code == 201
        assert harness.get(f"{V1}/audit", as_="boss").status_code == 200

    def test_scopes_add_up_and_are_kept_once(self, harness: Harness) -> None:
        made = harness.add_key("admin", scopes=["workloads", "manage", "workloads"])
        assert made["key"]["scopes"] == ["manage", "workloads"]
        assert harness.post(f"{V1}/users", bearer=made["secret"], json={"name": "li"}).status_code == 201

    @pytest.mark.parametrize("scope", ["read", "workloads", "manage"])
    def test_a_scoped_key_makes_no_keys_and_sets_no_passwords(self, harness: Harness, scope: str) -> None:
        harness.add_user("li", password=PASSWORD)
        harness.keys["scoped"] = harness.add_key("li", scopes=[scope])["secret"]
        rule = f"key.create needs a credential without scopes; this one has {scope}"
        _forbidden(harness.post(f"{V1}/keys", as_="scoped", json={"name": "wider"}), rule)
        answer = harness.put(f"{V1}/users/li/password", as_="scoped", json={"password": "a new password"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")

    def test_a_key_never_gives_more_than_its_user_has(self, harness: Harness) -> None:
        harness.add_user("li")
        harness.keys["wide"] = harness.add_key("li", scopes=["read", "workloads", "manage"])["secret"]
        _forbidden(harness.post(f"{V1}/users", as_="wide", json={"name": "other"}), "user.create is for admins")

    def test_an_unknown_scope_is_refused(self, harness: Harness) -> None:
        answer = harness.post(f"{V1}/keys", as_="admin", json={"name": "odd", "scopes": ["read", "all"]})
        message = 'scopes[1]: "all" is not allowed. Use read, workloads or manage.'
        assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="scopes[1]"))


class TestWhose:
    def test_one_sees_ones_own_and_an_admin_sees_all(self, harness: Harness) -> None:
        harness.add_user("li")
        harness.add_user("wu")
        own = harness.get(f"{V1}/keys", as_="li").json()
        assert [key["user"] for key in own["items"]] == ["li"]
        assert harness.get(f"{V1}/keys?user=li", as_="li").json() == own
        assert harness.get(f"{V1}/keys?user=li", as_="admin").json()["total"] == 1
        everyone = harness.get(f"{V1}/keys", as_="admin").json()
        assert [key["user"] for key in everyone["items"]] == ["admin", "li", "wu"]

    @pytest.mark.parametrize("name", ["wu", "ghost", "admin"])
    def test_another_user_cannot_be_told_from_an_absent_one(self, harness: Harness, name: str) -> None:
        harness.add_user("li")
        harness.add_user("wu")
        message = f'There is no user "{name}", or you may not see it.'
        listed = harness.get(f"{V1}/keys?user={name}", as_="li")
        assert (listed.status_code, listed.json()) == (404, problem(listed, "not_found", message))
        made = harness.post(f"{V1}/keys", as_="li", json={"name": "theirs", "user": name})
        assert (made.status_code, made.json()) == (404, problem(made, "not_found", message))
        read = harness.get(f"{V1}/users/{name}", as_="li")
        assert (read.status_code, read.json()) == (404, problem(read, "not_found", message))

    def test_another_users_key_cannot_be_told_from_an_absent_one(self, harness: Harness) -> None:
        harness.add_user("li")
        harness.add_user("wu")
        key_id = harness.get(f"{V1}/keys", as_="wu").json()["items"][0]["id"]
        for each in (key_id, "absent"):
            answer = harness.delete(f"{V1}/keys/{each}", as_="li")
            message = f'There is no API key "{each}", or you may not see it.'
            assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))
        assert harness.get(f"{V1}/me", as_="wu").status_code == 200

    def test_an_admin_makes_a_key_for_another_user(self, harness: Harness) -> None:
        harness.add_user("li")
        made = harness.add_key("li", name="from the admin")
        assert harness.get(f"{V1}/me", bearer=made["secret"]).json()["user"]["name"] == "li"
        answer = harness.post(f"{V1}/keys", as_="admin", json={"name": "x", "user": "ghost"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
