"""Idempotency-Key: a create that is sent twice happens once, and no secret is kept for it."""

from typing import Any

import httpx
import psycopg
import pytest
from tests.api.lab import V1, Lab, problem

USED = "This Idempotency-Key was already used with another request. Send a new key with a new request."
CREATES: dict[str, dict[str, Any]] = {
    "users": {"name": "li", "role": "admin", "fullName": "Li Wei"},
    "departments": {"name": "research"},
    "workspaces": {"name": "vision", "quota": {"gpu": "8"}},
    "keys": {"name": "nightly", "scopes": ["read"]},
    "applications": {"name": "ci", "workspaces": ["default"]},
}


def _create(lab: Lab, what: str, key: str, body: dict[str, Any], as_: str = "admin") -> httpx.Response:
    return lab.post(f"{V1}/{what}", as_=as_, headers={"Idempotency-Key": key}, json=body)


def _total(lab: Lab, what: str) -> int:
    return lab.get(f"{V1}/{what}", as_="admin").json()["total"]


def _database_bytes(lab: Lab) -> bytes:
    """Everything the database holds, as bytes to search in."""
    if not lab.settings.database:
        folder = lab.installation.admin_key_file.parent
        return b"".join(file.read_bytes() for file in sorted(folder.glob("stoker.db*")))
    tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'"
    with psycopg.connect(lab.settings.database) as connection:
        names = [row[0] for row in connection.execute(tables)]
        rows = [connection.execute(f"SELECT t::text FROM {name} t".encode()).fetchall() for name in names]  # noqa: S608
    return repr(rows).encode()


@pytest.mark.parametrize("what", CREATES)
def test_the_same_key_and_body_give_the_same_answer_and_one_row(any_lab: Lab, what: str) -> None:
    before = _total(any_lab, what)
    first = _create(any_lab, what, "once", CREATES[what])
    any_lab.clock.advance(hours=1)
    again = _create(any_lab, what, "once", CREATES[what])
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert _total(any_lab, what) == before + 1


@pytest.mark.parametrize("what", CREATES)
def test_the_same_key_with_another_body_is_a_conflict(lab: Lab, what: str) -> None:
    assert _create(lab, what, "once", CREATES[what]).status_code == 201
    before = _total(lab, what)
    answer = _create(lab, what, "once", {**CREATES[what], "name": "other"})
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", USED, field="Idempotency-Key"))
    assert _total(lab, what) == before


def test_the_same_key_at_another_path_is_a_conflict(lab: Lab) -> None:
    assert _create(lab, "departments", "once", {"name": "vision"}).status_code == 201
    answer = _create(lab, "workspaces", "once", {"name": "vision"})
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", USED, field="Idempotency-Key"))


def test_without_a_key_the_second_create_is_told_that_it_exists(lab: Lab) -> None:
    lab.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    answer = lab.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    message = 'There is already a department "research". Choose another name.'
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", message, field="name"))


@pytest.mark.parametrize(("what", "secret"), [("keys", "secret"), ("applications", "clientSecret")])
def test_a_secret_is_shown_again_but_never_kept(any_lab: Lab, what: str, secret: str) -> None:
    first = _create(any_lab, what, "a key of my own", CREATES[what]).json()
    assert _create(any_lab, what, "a key of my own", CREATES[what]).json()[secret] == first[secret]
    kept = _database_bytes(any_lab)
    assert CREATES[what]["name"].encode() in kept
    assert first[secret].encode() not in kept
    assert first[secret].removeprefix("sk-stoker-")[:12].encode() not in kept
    assert b"a key of my own" not in kept
    assert any_lab.keys["admin"].encode() not in kept


def test_a_secret_that_was_shown_twice_works(lab: Lab) -> None:
    first = _create(lab, "keys", "once", {"name": "nightly"}).json()
    again = _create(lab, "keys", "once", {"name": "nightly"}).json()
    assert lab.get(f"{V1}/me", bearer=again["secret"]).json()["credential"] == f"key {first['key']['id']}"
    issued = _create(lab, "applications", "app", CREATES["applications"]).json()
    assert lab.token(issued["clientId"], issued["clientSecret"])


def test_a_renewed_secret_is_renewed_once(lab: Lab) -> None:
    issued = lab.add_application("ci")
    path = f"applications/{issued['clientId']}/secret"
    first = lab.post(f"{V1}/{path}", as_="admin", headers={"Idempotency-Key": "renew"})
    again = lab.post(f"{V1}/{path}", as_="admin", headers={"Idempotency-Key": "renew"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert first.json()["clientSecret"] != issued["clientSecret"]
    assert lab.token(issued["clientId"], first.json()["clientSecret"])


@pytest.mark.parametrize("what", CREATES)
def test_fifty_creates_at_once_make_one_row(any_lab: Lab, what: str) -> None:
    before = _total(any_lab, what)
    headers = {"Idempotency-Key": "fifty"}
    asks = [any_lab.ask("POST", f"{V1}/{what}", as_="admin", headers=headers, json=CREATES[what]) for _ in range(50)]
    answers = any_lab.together(*asks)
    assert [answer.status_code for answer in answers] == [201] * 50
    assert len({answer.text for answer in answers}) == 1
    assert _total(any_lab, what) == before + 1


def test_fifty_different_bodies_under_one_key_make_one_row(any_lab: Lab) -> None:
    headers = {"Idempotency-Key": "fifty"}
    asks = [
        any_lab.ask("POST", f"{V1}/departments", as_="admin", headers=headers, json={"name": f"department-{number}"})
        for number in range(50)
    ]
    answers = any_lab.together(*asks)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 49
    assert _total(any_lab, "departments") == 2


def test_the_key_of_another_user_is_another_key(lab: Lab) -> None:
    lab.add_user("other", role="admin")
    mine = _create(lab, "keys", "shared", {"name": "nightly"})
    theirs = _create(lab, "keys", "shared", {"name": "nightly"}, as_="other")
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert mine.json()["key"]["user"] == "admin"
    assert theirs.json()["key"]["user"] == "other"
    assert mine.json()["secret"] != theirs.json()["secret"]
    assert _create(lab, "departments", "shared", {"name": "research"}, as_="other").status_code == 409


def test_a_key_is_forgotten_after_a_day(any_lab: Lab) -> None:
    body = {"name": "research"}
    assert _create(any_lab, "departments", "once", body).status_code == 201
    any_lab.clock.advance(seconds=86_399)
    assert _create(any_lab, "departments", "once", body).status_code == 201
    any_lab.clock.advance(seconds=1)
    answer = _create(any_lab, "departments", "once", body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (409, "name")
    assert _create(any_lab, "departments", "once", {"name": "other"}).status_code == 201


def test_a_forgotten_key_makes_a_new_secret(any_lab: Lab) -> None:
    first = _create(any_lab, "keys", "daily", {"name": "nightly"}).json()
    assert any_lab.delete(f"{V1}/keys/{first['key']['id']}", as_="admin").status_code == 204
    any_lab.clock.advance(hours=24)
    second = _create(any_lab, "keys", "daily", {"name": "nightly"})
    assert second.status_code == 201
    assert second.json()["secret"] != first["secret"]
    assert any_lab.get(f"{V1}/me", bearer=first["secret"]).status_code == 401
    any_lab.clock.advance(hours=24)
    third = _create(any_lab, "keys", "daily", {"name": "nightly"})
    assert third.status_code == 201
    assert any_lab.get(f"{V1}/me", bearer=second.json()["secret"]).status_code == 200


def test_a_secret_renewed_again_a_day_later_is_another_one(lab: Lab) -> None:
    path = f"{V1}/applications/{lab.add_application('ci')['clientId']}/secret"
    first = lab.post(path, as_="admin", headers={"Idempotency-Key": "daily"}).json()["clientSecret"]
    lab.clock.advance(hours=24)
    assert lab.post(path, as_="admin", headers={"Idempotency-Key": "daily"}).json()["clientSecret"] != first


def test_the_answer_stays_the_same_after_what_it_made_has_changed(lab: Lab) -> None:
    first = _create(lab, "departments", "once", {"name": "research", "description": "before"})
    lab.patch(f"{V1}/departments/research", as_="admin", json={"description": "after"})
    assert _create(lab, "departments", "once", {"name": "research", "description": "before"}).json() == first.json()
    lab.delete(f"{V1}/departments/research", as_="admin")
    assert _create(lab, "departments", "once", {"name": "research", "description": "before"}).json() == first.json()


def test_the_answer_stays_the_same_when_the_time_in_it_has_passed(lab: Lab) -> None:
    body = {"name": "short", "expiresAt": "2026-01-15T11:00:00Z"}
    first = _create(lab, "keys", "once", body)
    lab.clock.advance(hours=1)
    again = _create(lab, "keys", "once", body)
    assert (again.status_code, again.json()) == (201, first.json())


def test_a_create_that_failed_may_be_sent_again(lab: Lab) -> None:
    body = {"name": "vision", "department": "research"}
    assert _create(lab, "workspaces", "once", body).status_code == 400
    lab.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    assert _create(lab, "workspaces", "once", body).status_code == 201


def test_a_weaker_credential_does_not_get_the_answer_again(lab: Lab) -> None:
    lab.keys["reader"] = lab.add_key("admin", scopes=["read"])["secret"]
    assert _create(lab, "keys", "once", {"name": "nightly"}).status_code == 201
    assert _create(lab, "keys", "once", {"name": "nightly"}, as_="reader").status_code == 403
    assert _create(lab, "applications", "app", {"name": "ci"}).status_code == 201
    assert _create(lab, "applications", "app", {"name": "ci"}, as_="reader").status_code == 403


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_is_empty_or_too_long_is_refused(lab: Lab, key: str) -> None:
    answer = _create(lab, "departments", key, {"name": "research"})
    message = "Idempotency-Key: use 1 to 255 characters."
    expected = problem(answer, "bad_request", message, field="Idempotency-Key")
    assert (answer.status_code, answer.json()) == (400, expected)


@pytest.mark.parametrize("key", ["k" * 255, "é", "a b"])
def test_any_other_key_is_taken(lab: Lab, key: str) -> None:
    assert _create(lab, "departments", key, {"name": "research"}).status_code == 201
    assert _create(lab, "departments", key, {"name": "research"}).status_code == 201
