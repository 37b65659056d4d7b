"""The audit log: who did what, from where, and with which result; refusals included."""

from typing import Any

import pytest
from tests.api.harness import FAR, PASSWORD, STARTED, V1, Harness

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def _one(harness: Harness, **filters: str) -> dict[str, Any]:
    (record,) = harness.audit(**filters)
    return record


def test_a_write_is_recorded_with_who_what_from_where_and_when(any_harness: Harness) -> None:
    harness = any_harness
    key_id = harness.get(f"{V1}/keys", as_="admin").json()["items"][0]["id"]
    harness.post(f"{V1}/users", as_="admin", peer=FAR, headers=TRACEPARENT, json={"name": "li", "role": "admin"})
    record = _one(harness, action="user.create")
    assert record == {
        "id": record["id"],
        "at": STARTED,
        "actor": "admin",
        "credential": f"key {key_id}",
        "address": FAR,
        "action": "user.create",
        "target": "li",
        "result": "ok",
        "detail": "role admin",
        "traceId": TRACE,
    }


def test_every_kind_of_write_is_recorded_once(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    harness.patch(f"{V1}/users/li", as_="admin", json={"email": "li@example.com"})
    harness.put(f"{V1}/users/li/password", as_="admin", json={"password": "another password"})
    harness.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    harness.patch(f"{V1}/departments/research", as_="admin", json={"description": "x"})
    harness.delete(f"{V1}/departments/research", as_="admin")
    harness.add_workspace("vision", viewer="li")
    harness.patch(f"{V1}/workspaces/vision", as_="admin", json={"quota": {"gpu": "8"}, "preemption": False})
    harness.delete(f"{V1}/workspaces/vision/members/li", as_="admin")
    harness.delete(f"{V1}/workspaces/vision", as_="admin")
    issued = harness.add_application("ci")
    path = f"{V1}/applications/{issued['clientId']}"
    harness.patch(path, as_="admin", json={"disabled": True})
    harness.post(f"{path}/secret", as_="admin")
    harness.delete(path, as_="admin")
    key = harness.add_key("li", name="nightly")["key"]["id"]
    harness.delete(f"{V1}/keys/{key}", as_="admin")
    harness.post(f"{V1}/logout", as_="li")
    harness.delete(f"{V1}/users/li", as_="admin")
    done = [(record["action"], record["target"], record["detail"]) for record in harness.audit()]
    (first_key,) = [target for _, target, detail in done if detail == "key of li for li"]
    assert {record["result"] for record in harness.audit()} == {"ok"}
    assert sorted(done) == sorted(
        [
            ("user.create", "li", "role user"),
            ("key.create", first_key, "key of li for li"),
            ("user.update", "li", "email=li@example.com"),
            ("user.password", "li", ""),
            ("department.create", "research", ""),
            ("department.update", "research", ""),
            ("department.delete", "research", ""),
            ("workspace.create", "vision", ""),
            ("member.set", "vision/li", "role viewer"),
            ("workspace.update", "vision", "gpu_milli=8000, preemption=False"),
            ("member.remove", "vision/li", ""),
            ("workspace.delete", "vision", ""),
            ("application.create", "ci", f"client id {issued['clientId']}"),
            ("application.update", "ci", "disabled=True"),
            ("application.update", "ci", "new secret"),
            ("application.delete", "ci", ""),
            ("key.create", key, "nightly for li"),
            ("key.delete", key, "nightly of li"),
            ("session.delete", "li", ""),
            ("user.delete", "li", ""),
        ]
    )


def test_no_record_holds_a_secret(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    harness.put(f"{V1}/users/li/password", as_="admin", json={"password": "another password"})
    harness.put(
        f"{V1}/users/li/password", as_="li", json={"password": "a third password", "currentPassword": "wrong one"}
    )
    secrets = [PASSWORD, "another password", "a third password", "wrong one", harness.keys["li"]]
    text = harness.get(f"{V1}/audit", as_="admin").text
    assert not [secret for secret in secrets if secret in text]


def test_reads_are_not_recorded(harness: Harness) -> None:
    for path in ("me", "users", "workspaces", "users/ghost"):
        harness.get(f"{V1}/{path}", as_="admin")
    assert harness.audit() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "action", "result", "detail"),
    [
        ("POST", "users", {"name": "x"}, "user.create", "not_allowed", "Not allowed: user.create is for admins."),
        (
            "PATCH",
            "workspaces/default",
            {"description": "x"},
            "workspace.update",
            "not_found",
            'There is no workspace "default", or you may not see it.',
        ),
        (
            "DELETE",
            "keys/absent",
            None,
            "key.delete",
            "not_found",
            'There is no API key "absent", or you may not see it.',
        ),
        (
            "POST",
            "keys",
            {"name": ""},
            "key.create",
            "bad_request",
            "name: it is empty. Use text of 1 to 200 characters.",
        ),
    ],
)
def test_a_refused_write_is_recorded_with_the_reason(
    any_harness: Harness, method: str, path: str, body: object, action: str, result: str, detail: str
) -> None:
    harness = any_harness
    harness.add_user("li")
    harness.clock.advance(seconds=7)
    answer = harness.request(method, f"{V1}/{path}", as_="li", peer=FAR, headers=TRACEPARENT, json=body)
    assert answer.is_error
    record = _one(harness, actor="li")
    assert record == {
        "id": record["id"],
        "at": "2026-01-15T10:30:07.000Z",
        "actor": "li",
        "credential": record["credential"],
        "address": FAR,
        "action": action,
        "target": f"{V1}/{path}",
        "result": result,
        "detail": detail,
        "traceId": TRACE,
    }
    assert record["credential"].startswith("key ")


def test_log_ins_are_recorded_whether_they_succeed_or_not(any_harness: Harness) -> None:
    harness = any_harness
    harness.add_user("li", password=PASSWORD)
    harness.log_in("li", "wrong", peer=FAR, headers=TRACEPARENT)
    harness.clock.advance(seconds=1)
    harness.log_in("ghost", "wrong", peer=FAR)
    harness.clock.advance(seconds=1)
    harness.log_in("li")
    records = list(reversed(harness.audit(action="session.create")))
    seen = [(record["actor"], record["address"], record["result"]) for record in records]
    assert seen == [("li", FAR, "not_signed_in"), ("ghost", FAR, "not_signed_in"), ("li", "127.0.0.1", "ok")]
    assert records[0]["traceId"] == TRACE
    assert {record["credential"] for record in records} == {"password"}


def test_refused_calls_do_not_fill_it(any_harness: Harness) -> None:
    harness = any_harness
    harness.add_user("li")
    for _ in range(100):
        assert harness.post(f"{V1}/users", as_="li", json={"name": "x"}).status_code == 403
    records = harness.audit(actor="li")
    assert len(records) == 20
    harness.clock.advance(seconds=60)
    harness.post(f"{V1}/users", as_="li", json={"name": "x"})
    newest = harness.audit(actor="li")[0]
    assert (
        newest["detail"] == "Not allowed: user.create is for admins. (80 more like this were refused and not recorded)"
    )
    harness.add_user("wu")
    harness.post(f"{V1}/users", as_="wu", json={"name": "x"})
    assert len(harness.audit(actor="wu")) == 1


def test_log_ins_of_names_that_nobody_has_do_not_fill_it(harness: Harness) -> None:
    for number in range(40):
        assert harness.log_in(f"ghost-{number}", "wrong").status_code == 401
    assert len(harness.audit(action="session.create")) == 20
    harness.add_user("li", password=PASSWORD)
    harness.clock.advance(seconds=1)
    assert harness.log_in("li").status_code == 200
    assert harness.audit(action="session.create")[0]["result"] == "ok"


def test_what_was_done_is_recorded_however_much_was_refused(harness: Harness) -> None:
    for _ in range(30):
        harness.post(f"{V1}/departments", as_="admin", json={"name": ""})
    harness.clock.advance(seconds=1)
    assert harness.post(f"{V1}/departments", as_="admin", json={"name": "research"}).status_code == 201
    assert harness.audit(action="department.create")[0]["result"] == "ok"


def test_a_write_that_was_rolled_back_left_no_record_of_success(harness: Harness) -> None:
    harness.post(f"{V1}/applications", as_="admin", json={"name": "ci", "workspaces": ["ghost"]})
    record = _one(harness, action="application.create")
    assert record["result"] == "bad_request"


def test_the_name_of_a_deleted_user_stays(harness: Harness) -> None:
    harness.add_user("li", role="admin")
    harness.post(f"{V1}/departments", as_="li", json={"name": "research"})
    harness.delete(f"{V1}/users/li", as_="admin")
    assert _one(harness, action="department.create")["actor"] == "li"


class TestReading:
    @pytest.fixture
    def busy(self, any_harness: Harness) -> Harness:
        for number in range(5):
            any_harness.post(f"{V1}/departments", as_="admin", json={"name": f"department-{number}"})
            any_harness.clock.advance(seconds=60)
        return any_harness

    def test_newest_first_in_pages_that_never_overlap(self, busy: Harness) -> None:
        targets, before = [], ""
        for _ in range(3):
            page = busy.get(f"{V1}/audit?limit=2&before={before}", as_="admin").json()
            targets.append([record["target"] for record in page["items"]])
            before = page["next"]
        assert targets == [["department-4", "department-3"], ["department-2", "department-1"], ["department-0"]]
        assert before is None

    def test_the_times_are_inclusive_at_both_ends(self, busy: Harness) -> None:
        found = busy.audit(since="2026-01-15T10:31:00Z", until="2026-01-15T18:33:00+08:00")
        assert [record["target"] for record in found] == ["department-3", "department-2", "department-1"]

    def test_it_is_filtered_by_actor_action_target_and_result(self, busy: Harness) -> None:
        busy.post(f"{V1}/departments", as_="admin", json={"name": "department-1"})
        assert len(busy.audit(action="department.create")) == 6
        assert len(busy.audit(action="department.create", result="ok")) == 5
        assert len(busy.audit(result="exists")) == 1
        assert len(busy.audit(target="department-1")) == 1
        assert len(busy.audit(actor="admin")) == 6
        assert busy.audit(actor="li") == []

    @pytest.mark.parametrize(("query", "field"), [("since=soon", "since"), ("until=", "until"), ("limit=0", "limit")])
    def test_a_filter_that_makes_no_sense_is_refused(self, harness: Harness, query: str, field: str) -> None:
        answer = harness.get(f"{V1}/audit?{query}", as_="admin")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)

    def test_an_unknown_action_is_refused_with_those_there_are(self, harness: Harness) -> None:
        answer = harness.get(f"{V1}/audit?action=user.explode", as_="admin")
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith('action: "user.explode" is not allowed. Use look-around, ')
