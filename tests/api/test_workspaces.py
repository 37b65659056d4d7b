"""Departments and workspaces: what they hold, who sees them, and who may change what."""

import pytest
from tests.api.conftest import OpenLab
from tests.api.lab import STARTED, V1, Lab, problem

ABSENT = 'There is no workspace "{}", or you may not see it.'


def test_a_workspace_has_defaults_for_all_but_its_name(any_lab: Lab) -> None:
    made = any_lab.post(f"{V1}/workspaces", as_="admin", json={"name": "vision"})
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
    assert any_lab.get(f"{V1}/workspaces/vision", as_="admin").json() == made.json()


def test_every_field_is_kept(any_lab: Lab) -> None:
    any_lab.post(f"{V1}/departments", as_="admin", json={"name": "research"})
    cluster = any_lab.get(f"{V1}/clusters/local", as_="admin").json()
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
    made = any_lab.post(f"{V1}/workspaces", as_="admin", json=body).json()
    assert {name: made[name] for name in body} == {**body, "cluster": "local"}


def test_a_guarantee_is_granted_by_admins_and_has_a_bound(any_lab: Lab) -> None:
    any_lab.add_staff()
    path = f"{V1}/workspaces/vision"
    assert any_lab.patch(path, as_="manager", json={"guaranteedSeconds": 60}).status_code == 403
    assert any_lab.patch(path, as_="admin", json={"guaranteedSeconds": 60}).json()["guaranteedSeconds"] == 60
    assert any_lab.patch(path, as_="manager", json={"description": "x"}).json()["guaranteedSeconds"] == 60
    details = {record["detail"] for record in any_lab.audit(action="workspace.update", target="vision")}
    assert "guaranteed_seconds=60" in details
    for wrong in (-1, 30 * 86_400 + 1, "1h", None, 1.5):
        refused = any_lab.patch(path, as_="admin", json={"guaranteedSeconds": wrong})
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "guaranteedSeconds")


def test_a_manager_changes_what_is_given_of_the_idle_policy(any_lab: Lab) -> None:
    any_lab.add_staff()
    path, policy = f"{V1}/workspaces/vision", {"action": "warn", "threshold": 5.0, "windowSeconds": 60}
    changed = any_lab.patch(path, as_="manager", json={"idlePolicy": policy})
    assert changed.json()["idlePolicy"] == {**policy, "graceSeconds": 900}
    again = any_lab.patch(path, as_="manager", json={"idlePolicy": {"threshold": None}, "description": "x"})
    assert again.json()["idlePolicy"] == {**policy, "threshold": None, "graceSeconds": 900}
    details = {record["detail"] for record in any_lab.audit(action="workspace.update", target="vision")}
    assert "description=x, idle_threshold=None" in details
    assert any_lab.patch(path, as_="member", json={"idlePolicy": {"action": "off"}}).status_code == 403
    wrong = any_lab.patch(path, as_="manager", json={"idlePolicy": {"windowSeconds": 0}})
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
def test_what_is_not_there_or_no_name_is_refused(lab: Lab, field: str, body: dict[str, str], message: str) -> None:
    answer = lab.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", **body})
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field=field))


@pytest.mark.parametrize("field", ["gpu", "cpu", "memory"])
@pytest.mark.parametrize("quantity", ["many", "-1", "", "1e999", "NaN"])
def test_a_quota_that_is_no_quantity_is_refused(lab: Lab, field: str, quantity: str) -> None:
    for answer in (
        lab.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "quota": {field: quantity}}),
        lab.patch(f"{V1}/workspaces/default", as_="admin", json={"quota": {field: quantity}}),
    ):
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, f"quota.{field}")


def test_a_default_cluster_that_is_not_there_is_named(open_lab: OpenLab) -> None:
    lab = open_lab(default_cluster="ghost")
    answer = lab.post(f"{V1}/workspaces", as_="admin", json={"name": "vision"})
    message = 'cluster: there is no cluster "ghost".'
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="cluster"))


def test_a_namespace_belongs_to_one_workspace(any_lab: Lab) -> None:
    answer = any_lab.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "namespace": "default"})
    message = 'Namespace "default" of cluster "local" belongs to workspace "default".'
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", message, field="namespace"))


def test_many_made_at_once_all_get_numbers_of_their_own(any_lab: Lab) -> None:
    asks = [any_lab.ask("POST", f"{V1}/workspaces", as_="admin", json={"name": f"team-{n}"}) for n in range(20)]
    answers = any_lab.together(*asks)
    assert [answer.status_code for answer in answers] == [201] * 20
    assert len({answer.json()["id"] for answer in answers}) == 20


def test_an_edit_changes_what_is_given_and_null_takes_a_limit_away(any_lab: Lab) -> None:
    quota = {"gpu": "8", "cpu": "64", "memory": "1Ti"}
    any_lab.post(f"{V1}/workspaces", as_="admin", json={"name": "vision", "quota": quota})
    edited = any_lab.patch(
        f"{V1}/workspaces/vision", as_="admin", json={"description": "new", "quota": {"gpu": "16", "cpu": None}}
    )
    assert edited.status_code == 200
    assert edited.json()["quota"] == {"gpu": "16", "cpu": None, "memory": "1Ti"}
    assert (edited.json()["description"], edited.json()["queuePolicy"]) == ("new", "fifo")


class TestWhoSeesIt:
    @pytest.fixture(autouse=True)
    def staff(self, lab: Lab) -> None:
        lab.add_staff()

    def test_a_list_shows_what_one_belongs_to(self, lab: Lab) -> None:
        def names(caller: str) -> list[str]:
            return [each["name"] for each in lab.get(f"{V1}/workspaces", as_=caller).json()["items"]]

        assert names("admin") == ["audio", "default", "vision"]
        assert names("viewer") == ["vision"]
        assert names("outsider") == ["audio"]
        assert names("nobody") == []

    @pytest.mark.parametrize("caller", ["outsider", "nobody"])
    def test_one_that_is_hidden_looks_like_one_that_is_absent(self, lab: Lab, caller: str) -> None:
        lab.add_user("li")
        for name in ("vision", "absent"):
            for answer in (
                lab.get(f"{V1}/workspaces/{name}", as_=caller),
                lab.patch(f"{V1}/workspaces/{name}", as_=caller, json={"description": "x"}),
                lab.get(f"{V1}/workspaces/{name}/members", as_=caller),
                lab.put(f"{V1}/workspaces/{name}/members/li", as_=caller, json={"role": "viewer"}),
                lab.delete(f"{V1}/workspaces/{name}/members/viewer", as_=caller),
                lab.get(f"{V1}/may?action=user.list&workspace={name}", as_=caller),
            ):
                expected = problem(answer, "not_found", ABSENT.format(name))
                assert (answer.status_code, answer.json()) == (404, expected)

    def test_a_manager_manages_but_grants_nothing(self, lab: Lab) -> None:
        path = f"{V1}/workspaces/vision"
        assert lab.patch(path, as_="manager", json={"queuePolicy": "balance"}).status_code == 200
        for body in ({"quota": {"gpu": "8"}}, {"quota": {"cpu": None}}, {"department": "default"}):
            answer = lab.patch(path, as_="manager", json={"description": "sneaked in", **body})
            message = "Not allowed: workspace.grant is for admins."
            assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", message))
        assert lab.get(path, as_="manager").json()["description"] == ""

    def test_a_new_member_sees_it_at_once_and_a_removed_one_no_longer(self, lab: Lab) -> None:
        member = f"{V1}/workspaces/vision/members/nobody"
        added = lab.put(member, as_="manager", json={"role": "viewer"})
        assert (added.status_code, added.json()) == (200, {"user": "nobody", "role": "viewer", "since": STARTED})
        assert lab.get(f"{V1}/workspaces/vision", as_="nobody").status_code == 200
        changed = lab.put(member, as_="manager", json={"role": "manager"})
        assert changed.json() == {"user": "nobody", "role": "manager", "since": STARTED}
        assert lab.delete(member, as_="nobody").status_code == 204
        assert lab.get(f"{V1}/workspaces/vision", as_="nobody").status_code == 404
        answer = lab.delete(member, as_="manager")
        message = 'There is no member "nobody", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_a_member_that_is_no_user_is_not_found(self, lab: Lab) -> None:
        answer = lab.put(f"{V1}/workspaces/vision/members/ghost", as_="manager", json={"role": "viewer"})
        message = 'There is no user "ghost", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_members_are_listed_by_name_and_by_role(self, lab: Lab) -> None:
        listed = lab.get(f"{V1}/workspaces/vision/members?limit=2", as_="viewer").json()
        assert [(each["user"], each["role"]) for each in listed["items"]] == [
            ("manager", "manager"),
            ("member", "member"),
        ]
        assert (listed["total"], listed["next"]) == (3, 2)
        assert lab.get(f"{V1}/workspaces/vision/members?role=viewer", as_="viewer").json()["total"] == 1


class TestDepartments:
    def test_it_is_made_changed_and_removed(self, any_lab: Lab) -> None:
        made = any_lab.post(f"{V1}/departments", as_="admin", json={"name": "research", "description": "new"})
        view = {"id": 2, "name": "research", "description": "new", "createdAt": STARTED, "updatedAt": STARTED}
        assert (made.status_code, made.json()) == (201, view)
        any_lab.clock.advance(seconds=1)
        edited = any_lab.patch(f"{V1}/departments/research", as_="admin", json={"description": ""})
        assert edited.json() == {**view, "description": "", "updatedAt": "2026-01-15T10:30:01.000Z"}
        listed = any_lab.get(f"{V1}/departments?name=EARCH", as_="admin").json()
        assert listed == {"items": [edited.json()], "total": 1, "next": None}
        assert any_lab.delete(f"{V1}/departments/research", as_="admin").status_code == 204
        answer = any_lab.get(f"{V1}/departments/research", as_="admin")
        message = 'There is no department "research", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))

    def test_one_with_workspaces_stays(self, any_lab: Lab) -> None:
        answer = any_lab.delete(f"{V1}/departments/default", as_="admin")
        message = 'Department "default" still has workspaces (1). Move or delete them first.'
        assert (answer.status_code, answer.json()) == (409, problem(answer, "state_forbids", message))

    def test_one_that_is_removed_while_a_workspace_moves_in_never_leaves_it_without(self, any_lab: Lab) -> None:
        for number in range(5):
            name = f"department-{number}"
            any_lab.post(f"{V1}/departments", as_="admin", json={"name": name})
            body = {"name": f"team-{number}", "department": name}
            made, removed = any_lab.together(
                any_lab.ask("POST", f"{V1}/workspaces", as_="admin", json=body),
                any_lab.ask("DELETE", f"{V1}/departments/{name}", as_="admin"),
            )
            assert (made.status_code, removed.status_code) in {(201, 409), (400, 204)}
