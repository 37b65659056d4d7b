"""Departments and workspaces: what they hold, who sees them, and who may change what."""

import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import STARTED, V1, Harness, problem

ABSENT = 'There is no workspace "{}", or you may not see it.'


def test_a_workspace_has_defaults_for_all_but_its_name(any_harness: Harness) -> None:
    made = any_harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision"})
    assert made.status_code == 201
    assert made.json() == {
        "id": 2,
        "name": "vision",
        "description": "",
        "department": "default",
        "cluster": "local",
        "namespace": "vision",
        "quota": {"gpu": None, "cpu": None, "memory": None},
        "queuePolicy": "fifo",
        "preemption": True,
        "idlePolicy": {"action": "off", "threshold": None, "windowSeconds": 1800, "graceSeconds": 900},
        "guaranteedSeconds": 0,
        "createdAt": STARTED,
        "updatedAt": STARTED,
    }
    assert any_harness.get(f"{V1}/workspaces/vision", as_="admin").json() == made.json()


def test_every_field_is_kept(any_harness: Harness) -> None:
    any_harness.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    cluster = any_harness.get(f"{V1}/clusters/local", as_="admin").json()
    body = {
        "name": "vision",
        "description": "sees \U0001f600",
        "department": "research",
        "cluster": cluster["id"],
        "namespace": "vision-ns",
        "quota": {"gpu": "1500m", "cpu": "64", "memory": "2Ti"},
        "queuePolicy": "balance",
        "preemption": False,
        "idlePolicy": {"action": "stop", "threshold": 2.5, "windowSeconds": 600, "graceSeconds": 60},
        "guaranteedSeconds": 1800,
    }
    made = any_harness.post(f"{V1}/workspaces", as_="admin", json=body).json()
    assert {name: made[name] for name in body} == {**body, "cluster": "local"}


def test_a_guarantee_is_granted_by_admins_and_has_a_bound(any_harness: Harness) -> None:
    any_harness.add_staff()
    path = f"{V1}/workspaces/vision"
    assert any_harness.patch(path, as_="manager", json={"guaranteedSeconds": 60}).status_code == 403
    assert any_harness.patch(path, as_="admin", json={"guaranteedSeconds": 60}).json()["guaranteedSeconds"] == 60
    assert any_harness.patch(path, as_="manager", json={"description": "x"}).json()["guaranteedSeconds"] == 60
    details = {record["detail"] for record in any_harness.audit(action="workspace.update", target="vision")}
    assert "guaranteed_seconds=60" in details
    for wrong in (-1, 30 * 86_400 + 1, "1h", None, 1.5):
        refused = any_harness.patch(path, as_="admin", json={"guaranteedSeconds": wrong})
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "guaranteedSeconds")


def test_a_manager_changes_what_is_given_of_the_idle_policy(any_harness: Harness) -> None:
    any_harness.add_staff()
    path, policy = f"{V1}/workspaces/vision", {"action": "warn", "threshold": 5.0, "windowSeconds": 60}
    changed = any_harness.patch(path, as_="manager", json={"idlePolicy": policy})
    assert changed.json()["idlePolicy"] == {**policy, "graceSeconds": 900}
    again = any_harness.patch(path, as_="manager", json={"idlePolicy": {"threshold": None}, "description": "x"})
    assert again.json()["idlePolicy"] == {**policy, "threshold": None, "graceSeconds": 900}
    details = {record["detail"] for record in any_harness.audit(action="workspace.update", target="vision")}
    assert "description=x, idle_threshold=None" in details
    assert any_harness.patch(path, as_="member", json={"idlePolicy": {"action": "off"}}).status_code == 403
    wrong = any_harness.patch(path, as_="manager", json={"idlePolicy": {"windowSeconds": 0}})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "idlePolicy.windowSeconds")


@pytest.mark.parametrize(
    ("field", "body", "message"),
    [
        ("department", {"department": "ghost"}, 'department: there is no department "ghost".'),
        ("cluster", {"cluster": "ghost"}, 'cluster: there is no cluster "ghost".'),
        (
            "namespace",
            {"namespace": "No Name"},
            'namespace: "No Name" is not a name. Use 1 to 63 lower-case letters, digits and "-", '
            'beginning with a letter and not ending in "-", for example "vision-team".',
        ),
    ],
)
def test_what_is_not_there_or_no_name_is_refused(
    harness: Harness, field: str, body: dict[str, str], message: str
) -> None:
    answer = harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", **body})
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field=field))


@pytest.mark.parametrize("field", ["gpu", "cpu", "memory"])
@pytest.mark.parametrize("quantity", ["many", "-1", "", "1e999", "NaN"])
def test_a_quota_that_is_no_quantity_is_refused(harness: Harness, field: str, quantity: str) -> None:
    for answer in (
        harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "quota": {field: quantity}}),
        harness.patch(f"{V1}/workspaces/default", as_="admin", json={"quota": {field: quantity}}),
    ):
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, f"quota.{field}")


def test_a_default_cluster_that_is_not_there_is_named(open_harness: OpenHarness) -> None:
    harness = open_harness(default_cluster="ghost")
    answer = harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision"})
    message = 'cluster: there is no cluster "ghost".'
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="cluster"))


def test_a_namespace_belongs_to_one_workspace(any_harness: Harness) -> None:
    answer = any_harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "namespace": "default"})
    message = 'Namespace "default" of cluster "local" belongs to workspace "default".'
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", message, field="namespace"))


def test_many_made_at_once_all_get_numbers_of_their_own(any_harness: Harness) -> None:
    asks = [any_harness.ask("POST", f"{V1}/workspaces", as_="admin", json={"name": f"team-{n}"}) for n in range(20)]
    answers = any_harness.together(*asks)
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.json()["id"] for answer in answers}) == 20


def test_an_edit_changes_what_is_given_and_null_takes_a_limit_away(any_harness: Harness) -> None:
    quota = {"gpu": "8", "cpu": "64", "memory": "1Ti"}
    any_harness.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "quota": quota})
    edited = any_harness.patch(
        f"{V1}/workspaces/vision", as_="admin", json={"description": "new", "quota": {"gpu": "16", "cpu": None}}
    )
    assert edited.status_code == 200
    assert edited.json()["quota"] == {"gpu": "16", "cpu": None, "memory": "1Ti"}
    assert (edited.json()["description"], edited.json()["queuePolicy"]) == ("new", "fifo")


class TestWhoSeesIt:
    @pytest.fixture(autouse=True)
    def staff(self, harness: Harness) -> None:
        harness.add_staff()

    def test_a_list_shows_what_one_belongs_to(self, harness: Harness) -> None:
        def names(caller: str) -> list[str]:
            return [each["name"] for each in harness.get(f"{V1}/workspaces", as_=caller).json()["items"]]

        assert names("admin") == ["audio", "default", "vision"]
        assert names("viewer") == ["vision"]
        assert names("outsider") == ["audio"]
        assert names("nobody") == []

    @pytest.mark.parametrize("caller", ["outsider", "nobody"])
    def test_one_that_is_hidden_looks_like_one_that_is_absent(self, harness: Harness, caller: str) -> None:
        harness.add_user("li")
        for name in ("vision", "absent"):
            for answer in (
                harness.get(f"{V1}/workspaces/{name}", as_=caller),
                harness.patch(f"{V1}/workspaces/{name}", as_=caller, json={"description": "x"}),
                harness.get(f"{V1}/workspaces/{name}/members", as_=caller),
                harness.put(f"{V1}/workspaces/{name}/members/li", as_=caller, json={"role": "viewer"}),
                harness.delete(f"{V1}/workspaces/{name}/members/viewer", as_=caller),
                harness.get(f"{V1}/may?action=user.list&workspace={name}", as_=caller),
            ):
                expected = problem(answer, "not_found", ABSENT.format(name))
                assert (answer.status_code, answer.json()) == (404, expected)

    def test_a_manager_manages_but_grants_nothing(self, harness: Harness) -> None:
        path = f"{V1}/workspaces/vision"
        assert harness.patch(path, as_="manager", json={"queuePolicy": "balance"}).status_code == 200
        for body in ({"quota": {"gpu": "8"}}, {"quota": {"cpu": None}}, {"department": "default"}):
            answer = harness.patch(path, as_="manager", json={"description": "sneaked in", **body})
            message = "Not allowed: workspace.grant is for admins."
            assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", message))
        assert harness.get(path, as_="manager").json()["description"] == ""

    def test_a_new_member_sees_it_at_once_and_a_removed_one_no_longer(self, harness: Harness) -> None:
        member = f"{V1}/workspaces/vision/members/nobody"
        added = harness.put(member, as_="manager", json={"role": "viewer"})
        assert (added.status_code, added.json()) == (200, {"user": "nobody", "role": "viewer", "since": STARTED})
        assert harness.get(f"{V1}/workspaces/vision", as_="nobody").status_code == 200
        changed = harness.put(member, as_="manager", json={"role": "manager"})
        assert changed.json() == {"user": "nobody", "role": "manager", "since": STARTED}
        assert harness.delete(member, as_="nobody").status_code == 204
        assert harness.get(f"{V1}/workspaces/vision", as_="nobody").status_code == 404
        answer = harness.delete(member, as_="manager")
        message = 'There is no member "nobody", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_a_member_that_is_no_user_is_not_found(self, harness: Harness) -> None:
        answer = harness.put(f"{V1}/workspaces/vision/members/ghost", as_="manager", json={"role": "viewer"})
        message = 'There is no user "ghost", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_members_are_listed_by_name_and_by_role(self, harness: Harness) -> None:
        listed = harness.get(f"{V1}/workspaces/vision/members?limit=2", as_="viewer").json()
        assert [(each["user"], each["role"]) for each in listed["items"]] == [
            ("manager", "manager"),
            ("member", "member"),
        ]
        assert (listed["total"], listed["next"]) == (3, 2)
        assert harness.get(f"{V1}/workspaces/vision/members?role=viewer", as_="viewer").json()["total"] == 1


class TestDepartments:
    def test_it_is_made_changed_and_removed(self, any_harness: Harness) -> None:
        made = any_harness.post(f"{V1}/departments", as_="admin", json={"name": "research", "description": "new"})
        view = {"id": 2, "name": "research", "description": "new", "createdAt": STARTED, "updatedAt": STARTED}
        assert (made.status_code, made.json()) == (201, view)
        any_harness.clock.advance(seconds=1)
        edited = any_harness.patch(f"{V1}/departments/research", as_="admin", json={"description": ""})
        assert edited.json() == {**view, "description": "", "updatedAt": "2026-01-15T10:30:01.000Z"}
        listed = any_harness.get(f"{V1}/departments?name=EARCH", as_="admin").json()
        assert listed == {"items": [edited.json()], "total": 1, "next": None}
        assert any_harness.delete(f"{V1}/departments/research", as_="admin").status_code == 204
        answer = any_harness.get(f"{V1}/departments/research", as_="admin")
        message = 'There is no department "research", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_one_with_workspaces_stays(self, any_harness: Harness) -> None:
        answer = any_harness.delete(f"{V1}/departments/default", as_="admin")
        message = 'Department "default" still has workspaces (1). Move or delete them first.'
        assert (answer.status_code, answer.json()) == (409, problem(answer, "conflict", message))

    def test_one_that_is_removed_while_a_workspace_moves_in_never_leaves_it_without(self, any_harness: Harness) -> None:
        for number in range(5):
            name = f"department-{number}"
            any_harness.post(f"{V1}/departments", as_="admin", json={"name": name})
            body = {"name": f"team-{number}", "department": name}
            made, removed = any_harness.together(
                any_harness.ask("POST", f"{V1}/workspaces", as_="admin", json=body),
                any_harness.ask("DELETE", f"{V1}/departments/{name}", as_="admin"),
            )
            assert (made.status_code, removed.status_code) in {(201, 409), (400, 204)}
