"""Idempotency-Key: a create that is sent twice happens once, and no secret is kept for it."""

from typing import Any

import httpx
import psycopg
import pytest
from tests.api.harness import V1, Harness, problem

USED = "This Idempotency-Key was already used with another request. Send a new key with a new request."
CREATES: dict[str, dict[str, Any]] = {
    "users": {"name": "li", "role": "admin", "fullName": "Li Wei"},
    "departments": {"name": "research"},
    "workspaces": {"name": "vision", "quota": {"gpu": "8"}},
    "keys": {"name": "nightly", "scopes": ["read"]},
    "applications": {"name": "ci", "workspaces": ["default"]},
}


def _create(harness: Harness, what: str, key: str, body: dict[str, Any], as_: str = "admin") -> httpx.Response:
    return harness.post(f"{V1}/{what}", as_=as_, headers={"Idempotency-Key": key}, json=body)


def _total(harness: Harness, what: str) -> int:
    return harness.get(f"{V1}/{what}", as_="admin").json()["total"]


def _database_bytes(harness: Harness) -> bytes:
    """Everything the database holds, as bytes to search in."""
    if not harness.settings.database:
        folder = harness.installation.admin_key_file.parent
        return b"".join(file.read_bytes() for file in sorted(folder.glob("stoker.db*")))
    tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'"
    with psycopg.connect(harness.settings.database) as connection:
        names = [row[0] for row in connection.execute(tables)]
        rows = [connection.execute(f"SELECT t::text FROM {name} t".encode()).fetchall() for name in names]  # noqa: S608
    return repr(rows).encode()


@pytest.mark.parametrize("what", CREATES)
def test_the_same_key_and_body_give_the_same_answer_and_one_row(any_harness: Harness, what: str) -> None:
    before = _total(any_harness, what)
    first = _create(any_harness, what, "once", CREATES[what])
    any_harness.clock.advance(hours=1)
    again = _create(any_harness, what, "once", CREATES[what])
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert _total(any_harness, what) == before + 1


@pytest.mark.parametrize("what", CREATES)
def test_the_same_key_with_another_body_is_a_conflict(harness: Harness, what: str) -> None:
    assert _create(harness, what, "once", CREATES[what]).status_code == 201
    before = _total(harness, what)
    answer = _create(harness, what, "once", {**CREATES[what], "name": "other"})
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", USED, field="Idempotency-Key"))
    assert _total(harness, what) == before


def test_the_same_key_at_another_path_is_a_conflict(harness: Harness) -> None:
    assert _create(harness, "departments", "once", {"name": "vision"}).status_code == 201
    answer = _create(harness, "workspaces", "once", {"name": "vision"})
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", USED, field="Idempotency-Key"))


def test_without_a_key_the_second_create_is_told_that_it_exists(harness: Harness) -> None:
    harness.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    answer = harness.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    message = 'There is already a department "research". Choose another name.'
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", message, field="name"))


@pytest.mark.parametrize(("what", "secret"), [("keys", "secret"), ("applications", "clientSecret")])
def test_a_secret_is_shown_again_but_never_kept(any_harness: Harness, what: str, secret: str) -> None:
    first = _create(any_harness, what, "a key of my own", CREATES[what]).json()
    assert _create(any_harness, what, "a key of my own", CREATES[what]).json()[secret] == first[secret]
    kept = _database_bytes(any_harness)
    assert CREATES[what]["name"].encode() in kept
    assert first[secret].encode() not in kept
    assert first[secret].removeprefix("sk-stoker-")[:12].encode() not in kept
    assert b"a key of my own" not in kept
    assert any_harness.keys["admin"].encode() not in kept


def test_a_secret_that_was_shown_twice_works(harness: Harness) -> None:
    first = _create(harness, "keys", "once", {"name": "nightly"}).json()
    again = _create(harness, "keys", "once", {"name": "nightly"}).json()
    assert harness.get(f"{V1}/me", bearer=again["secret"]).json()["credential"] == f"key {first['key']['id']}"
    issued = _create(harness, "applications", "app", CREATES["applications"]).json()
    assert harness.token(issued["clientId"], issued["clientSecret"])


def test_a_renewed_secret_is_renewed_once(harness: Harness) -> None:
    issued = harness.add_application("ci")
    path = f"applications/{issued['clientId']}/secret"
    first = harness.post(f"{V1}/{path}", as_="admin", headers={"Idempotency-Key": "renew"})
    again = harness.post(f"{V1}/{path}", as_="admin", headers={"Idempotency-Key": "renew"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert first.json()["clientSecret"] != issued["clientSecret"]
    assert harness.token(issued["clientId"], first.json()["clientSecret"])


@pytest.mark.parametrize("what", CREATES)
def test_fifty_creates_at_once_make_one_row(any_harness: Harness, what: str) -> None:
    before = _total(any_harness, what)
    headers = {"Idempotency-Key": "fifty"}
    asks = [
        any_harness.ask("POST", f"{V1}/{what}", as_="admin", headers=headers, json=CREATES[what]) for _ in range(50)
    ]
    answers = any_harness.together(*asks)
    assert [answer.status_code for answer in answers] == [201] * 50
    assert len({answer.text for answer in answers}) == 1
    assert _total(any_harness, what) == before + 1


def test_fifty_different_bodies_under_one_key_make_one_row(any_harness: Harness) -> None:
    headers = {"Idempotency-Key": "fifty"}
    asks = [
        any_harness.ask(
            "POST", f"{V1}/departments", as_="admin", headers=headers, json={"name": f"department-{number}"}
        )
        for number in range(50)
    ]
    answers = any_harness.together(*asks)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 49
    assert _total(any_harness, "departments") == 2


def test_the_key_of_another_user_is_another_key(harness: Harness) -> None:
    harness.add_user("other", role="admin")
    mine = _create(harness, "keys", "shared", {"name": "nightly"})
    theirs = _create(harness, "keys", "shared", {"name": "nightly"}, as_="other")
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert mine.json()["key"]["user"] == "admin"
    assert theirs.json()["key"]["user"] == "other"
    assert mine.json()["secret"] != theirs.json()["secret"]
    assert _create(harness, "departments", "shared", {"name": "research"}, as_="other").status_code == 409


def test_a_key_is_forgotten_after_a_day(any_harness: Harness) -> None:
    body = {"name": "research"}
    assert _create(any_harness, "departments", "once", body).status_code == 201
    any_harness.clock.advance(seconds=86_399)
    assert _create(any_harness, "departments", "once", body).status_code == 201
    any_harness.clock.advance(seconds=1)
    answer = _create(any_harness, "departments", "once", body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (409, "name")
    assert _create(any_harness, "departments", "once", {"name": "other"}).status_code == 201


def test_a_forgotten_key_makes_a_new_secret(any_harness: Harness) -> None:
    first = _create(any_harness, "keys", "daily", {"name": "nightly"}).json()
    assert any_harness.delete(f"{V1}/keys/{first['key']['id']}", as_="admin").status_code == 204
    any_harness.clock.advance(hours=24)
    second = _create(any_harness, "keys", "daily", {"name": "nightly"})
    assert second.status_code == 201
    assert second.json()["secret"] != first["secret"]
    assert any_harness.get(f"{V1}/me", bearer=first["secret"]).status_code == 401
    any_harness.clock.advance(hours=24)
    third = _create(any_harness, "keys", "daily", {"name": "nightly"})
    assert third.status_code == 201
    assert any_harness.get(f"{V1}/me", bearer=second.json()["secret"]).status_code == 200


def test_a_secret_renewed_again_a_day_later_is_another_one(harness: Harness) -> None:
    path = f"{V1}/applications/{harness.add_application('ci')['clientId']}/secret"
    first = harness.post(path, as_="admin", headers={"Idempotency-Key": "daily"}).json()["clientSecret"]
    harness.clock.advance(hours=24)
    assert harness.post(path, as_="admin", headers={"Idempotency-Key": "daily"}).json()["clientSecret"] != first


def test_the_answer_stays_the_same_after_what_it_made_has_changed(harness: Harness) -> None:
    first = _create(harness, "departments", "once", {"name": "research", "description": "before"})
    harness.patch(f"{V1}/departments/research", as_="admin", json={"description": "after"})
    assert _create(harness, "departments", "once", {"name": "research", "description": "before"}).json() == first.json()
    harness.delete(f"{V1}/departments/research", as_="admin")
    assert _create(harness, "departments", "once", {"name": "research", "description": "before"}).json() == first.json()


def test_the_answer_stays_the_same_when_the_time_in_it_has_passed(harness: Harness) -> None:
    body = {"name": "short", "expiresAt": "2026-01-15T11:00:00Z"}
    first = _create(harness, "keys", "once", body)
    harness.clock.advance(hours=1)
    again = _create(harness, "keys", "once", body)
    assert (again.status_code, again.json()) == (201, first.json())


def test_a_create_that_failed_may_be_sent_again(harness: Harness) -> None:
    body = {"name": "vision", "department": "research"}
    assert _create(harness, "workspaces", "once", body).status_code == 400
    harness.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    assert _create(harness, "workspaces", "once", body).status_code == 201


def test_a_weaker_credential_does_not_get_the_answer_again(harness: Harness) -> None:
    harness.keys["reader"] = harness.add_key("admin", scopes=["read"])["secret"]
    assert _create(harness, "keys", "once", {"name": "nightly"}).status_code == 201
    assert _create(harness, "keys", "once", {"name": "nightly"}, as_="reader").status_code == 403
    assert _create(harness, "applications", "app", {"name": "ci", "admin": True}).status_code == 201
    assert _create(harness, "applications", "app", {"name": "ci", "admin": True}, as_="reader").status_code == 403


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_is_empty_or_too_long_is_refused(harness: Harness, key: str) -> None:
    answer = _create(harness, "departments", key, {"name": "research"})
    message = "Idempotency-Key: use 1 to 255 characters."
    expected = problem(answer, "bad_request", message, field="Idempotency-Key")
    assert (answer.status_code, answer.json()) == (400, expected)


@pytest.mark.parametrize("key", ["k" * 255, "é", "a b"])
def test_any_other_key_is_taken(harness: Harness, key: str) -> None:
    assert _create(harness, "departments", key, {"name": "research"}).status_code == 201
    assert _create(harness, "departments", key, {"name": "research"}).status_code == 201
