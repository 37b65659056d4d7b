"""Users: made, found, changed, and never without an admin."""

import pytest
from tests.api.harness import PASSWORD, STARTED, V1, Harness, problem


def test_a_user_is_there_as_soon_as_it_is_made(any_harness: Harness) -> None:
    body = {"name": "li.wei@example", "fullName": "Li Wei", "email": "li@example.com", "defaultWorkspace": "default"}
    made = any_harness.post(f"{V1}/users", as_="admin", json=body)
    assert made.status_code == 201
    assert made.json() == {
        "id": made.json()["id"],
        "name": "li.wei@example",
        "kind": "person",
        "role": "user",
        "fullName": "Li Wei",
        "email": "li@example.com",
        "disabled": False,
        "defaultWorkspace": "default",
        "createdAt": STARTED,
        "updatedAt": STARTED,
    }
    assert any_harness.get(f"{V1}/users/li.wei@example", as_="admin").json() == made.json()
    assert any_harness.get(f"{V1}/users/li.wei%40example", as_="admin").json() == made.json()


@pytest.mark.parametrize("name", ["Li", "li wei", "-li", "li-", "li_wei", "li/wei", "é", "li\n", "l" * 64, ""])
def test_a_name_that_is_none_is_refused(harness: Harness, name: str) -> None:
    answer = harness.post(f"{V1}/users", as_="admin", json={"name": name})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "name")


def test_a_name_is_taken_once(any_harness: Harness) -> None:
    any_harness.add_user("li")
    answer = any_harness.post(f"{V1}/users", as_="admin", json={"name": "li"})
    message = 'There is already a user "li". Choose another name.'
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", message, field="name"))


def test_of_many_who_want_the_same_name_at_once_one_gets_it(any_harness: Harness) -> None:
    asks = [
        any_harness.ask("POST", f"{V1}/users", as_="admin", json={"name": "li", "email": str(n)}) for n in range(20)
    ]
    answers = any_harness.together(*asks)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    (made,) = [answer.json() for answer in answers if answer.status_code == 201]
    assert any_harness.get(f"{V1}/users/li", as_="admin").json() == made


def test_an_edit_changes_what_is_given_and_nothing_else(any_harness: Harness) -> None:
    any_harness.add_user("li")
    before = any_harness.get(f"{V1}/users/li", as_="admin").json()
    any_harness.clock.advance(seconds=60)
    edited = any_harness.patch(f"{V1}/users/li", as_="admin", json={"fullName": "Li", "defaultWorkspace": "default"})
    expected = {**before, "fullName": "Li", "defaultWorkspace": "default", "updatedAt": "2026-01-15T10:31:00.000Z"}
    assert (edited.status_code, edited.json()) == (200, expected)
    edited = any_harness.patch(f"{V1}/users/li", as_="admin", json={"defaultWorkspace": ""})
    assert edited.json()["defaultWorkspace"] is None
    assert edited.json()["fullName"] == "Li"


def test_an_unknown_default_workspace_is_refused(harness: Harness) -> None:
    harness.add_user("li")
    message = 'defaultWorkspace: there is no workspace "ghost".'
    for answer in (
        harness.post(f"{V1}/users", as_="admin", json={"name": "wu", "defaultWorkspace": "ghost"}),
        harness.patch(f"{V1}/users/li", as_="admin", json={"defaultWorkspace": "ghost"}),
    ):
        expected = problem(answer, "bad_request", message, field="defaultWorkspace")
        assert (answer.status_code, answer.json()) == (400, expected)


def test_a_deleted_workspace_is_nobodys_default_any_more(any_harness: Harness) -> None:
    any_harness.add_workspace("vision")
    any_harness.post(f"{V1}/users", as_="admin", json={"name": "li", "defaultWorkspace": "vision"})
    any_harness.delete(f"{V1}/workspaces/vision", as_="admin")
    assert any_harness.get(f"{V1}/users/li", as_="admin").json()["defaultWorkspace"] is None


class TestList:
    @pytest.fixture
    def people(self, any_harness: Harness) -> Harness:
        for name, full_name in (("ann", "Ångström 100%"), ("bob", "under_score"), ("cat", "back\\slash!")):
            any_harness.post(f"{V1}/users", as_="admin", json={"name": name, "fullName": full_name})
        return any_harness

    def _names(self, harness: Harness, query: str) -> list[str]:
        return [user["name"] for user in harness.get(f"{V1}/users?{query}", as_="admin").json()["items"]]

    def test_it_is_in_the_order_of_names(self, people: Harness) -> None:
        assert self._names(people, "") == ["admin", "ann", "bob", "cat"]

    def test_a_part_of_the_name_finds_it_in_any_case_and_nothing_is_a_wildcard(self, people: Harness) -> None:
        found = {
            "BO": ["bob"],
            "%C3%85NGSTR%C3%96M": ["ann"],
            "%25": ["ann"],
            "_": ["bob"],
            "!": ["cat"],
            "%5C": ["cat"],
            "a_n": [],
            "nobody": [],
        }
        assert {text: self._names(people, f"name={text}") for text in found} == found

    def test_pages_follow_each_other_without_gap_or_overlap(self, people: Harness) -> None:
        seen, offset = [], 0
        while offset is not None:
            page = people.get(f"{V1}/users?limit=3&offset={offset}", as_="admin").json()
            assert page["total"] == 4
            seen += [user["name"] for user in page["items"]]
            offset = page["next"]
        assert seen == ["admin", "ann", "bob", "cat"]

    def test_a_page_behind_the_end_is_empty(self, people: Harness) -> None:
        page = people.get(f"{V1}/users?offset=100", as_="admin").json()
        assert page == {"items": [], "total": 4, "next": None}

    def test_it_is_filtered_by_role_kind_and_state(self, people: Harness) -> None:
        people.add_application("robot")
        people.patch(f"{V1}/users/bob", as_="admin", json={"disabled": True})
        assert self._names(people, "role=admin") == ["admin", "robot"]
        assert self._names(people, "kind=application") == ["robot"]
        assert self._names(people, "disabled=true") == ["bob"]
        assert self._names(people, "disabled=false&role=user") == ["ann", "cat"]

    @pytest.mark.parametrize("query", ["limit=0", "limit=1001", "offset=-1", "role=boss", "disabled=maybe"])
    def test_a_filter_that_makes_no_sense_is_refused(self, harness: Harness, query: str) -> None:
        answer = harness.get(f"{V1}/users?{query}", as_="admin")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, query.partition("=")[0])


class TestLastAdmin:
    MESSAGE = '"admin" is the last admin. Make another user an admin first.'

    @pytest.mark.parametrize(
        ("method", "body"), [("DELETE", None), ("PATCH", {"disabled": True}), ("PATCH", {"role": "user"})]
    )
    def test_it_cannot_be_deleted_disabled_or_demoted(self, any_harness: Harness, method: str, body: object) -> None:
        answer = any_harness.request(method, f"{V1}/users/admin", as_="admin", json=body)
        assert (answer.status_code, answer.json()) == (409, problem(answer, "conflict", self.MESSAGE))
        assert any_harness.get(f"{V1}/users", as_="admin").status_code == 200

    def test_it_can_be_edited_otherwise(self, harness: Harness) -> None:
        assert harness.patch(f"{V1}/users/admin", as_="admin", json={"fullName": "The Admin"}).status_code == 200

    def test_an_application_or_a_disabled_admin_does_not_count_as_another(self, harness: Harness) -> None:
        harness.add_application("robot")
        harness.add_user("off", role="admin")
        harness.patch(f"{V1}/users/off", as_="admin", json={"disabled": True})
        assert harness.delete(f"{V1}/users/admin", as_="admin").status_code == 409

    def test_with_another_admin_it_can_go(self, harness: Harness) -> None:
        harness.add_user("second", role="admin")
        assert harness.delete(f"{V1}/users/admin", as_="second").status_code == 204
        assert harness.get(f"{V1}/users", as_="second").json()["total"] == 1
        answer = harness.patch(f"{V1}/users/second", as_="second", json={"role": "user"})
        message = '"second" is the last admin. Make another user an admin first.'
        assert (answer.status_code, answer.json()) == (409, problem(answer, "conflict", message))

    def test_two_admins_who_remove_each_other_at_once_leave_one(self, any_harness: Harness) -> None:
        for round_number in range(3):
            other = any_harness.add_user(f"second-{round_number}", role="admin")
            first, second = any_harness.together(
                any_harness.ask("PATCH", f"{V1}/users/admin", as_=other, json={"role": "user"}),
                any_harness.ask("PATCH", f"{V1}/users/{other}", as_="admin", json={"role": "user"}),
            )
            assert 200 in (first.status_code, second.status_code)
            keeper = "admin" if first.status_code != 200 else other
            admins = any_harness.get(f"{V1}/users?role=admin", as_=keeper).json()
            assert [user["name"] for user in admins["items"]] == [keeper]
            any_harness.patch(f"{V1}/users/admin", as_=keeper, json={"role": "admin"})
            any_harness.patch(f"{V1}/users/{other}", as_="admin", json={"role": "user"})


def test_a_deleted_user_takes_its_keys_and_memberships_along(any_harness: Harness) -> None:
    any_harness.add_user("li", password=PASSWORD)
    any_harness.add_workspace("vision", member="li")
    assert any_harness.delete(f"{V1}/users/li", as_="admin").status_code == 204
    assert any_harness.get(f"{V1}/workspaces/vision/members", as_="admin").json()["total"] == 0
    assert any_harness.get(f"{V1}/keys", as_="admin").json()["total"] == 1
    answer = any_harness.delete(f"{V1}/users/li", as_="admin")
    message = 'There is no user "li", or you may not see it.'
    assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))
    any_harness.add_user("li")
    assert any_harness.get(f"{V1}/me", as_="li").json()["workspaces"] == []
