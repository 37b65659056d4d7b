"""A limited credential never creates or changes anything that is less limited than itself.

Every writing endpoint is in one of two tables, written by hand: a new endpoint needs a row here.
"""

import itertools
import re
from typing import Any

import httpx
import pytest
from msgspec import Struct
from tests.api.harness import PASSWORD, V1, Harness, problem

from stoker.api.routes import ENDPOINTS

END = "2026-02-01T00:00:00.000Z"
HERE = ["127.0.0.0/8"]
LIMITS: dict[str, dict[str, Any]] = {
    "scope": {"scopes": ["manage"]},
    "network": {"cidrs": HERE},
    "expiry": {"expiresAt": END},
    "network and expiry": {"cidrs": HERE, "expiresAt": END},
}
_numbers = itertools.count(1)


class GrantingAction(Struct, frozen=True):
    """An action that gives a person or a program more access than a limited credential has."""

    method: str
    path: str
    body: Any = None

    @property
    def endpoint(self) -> str:
        return f"{self.method} {re.sub(r'{[^}]*}', '{}', self.path)}"


REFUSED = [
    GrantingAction("POST", f"{V1}/users", {"name": "{new}", "role": "admin"}),
    GrantingAction("POST", f"{V1}/users", {"name": "{new}", "password": PASSWORD}),
    GrantingAction("PATCH", f"{V1}/users/{{user}}", {"role": "admin"}),
    GrantingAction("PATCH", f"{V1}/users/{{disabled}}", {"disabled": False}),
    GrantingAction("PUT", f"{V1}/users/{{user}}/password", {"password": PASSWORD}),
    GrantingAction("PUT", f"{V1}/users/{{admin}}/password", {"password": PASSWORD}),
    GrantingAction("POST", f"{V1}/applications", {"name": "{new}", "admin": True}),
    GrantingAction("POST", f"{V1}/applications", {"name": "{new}", "workspaces": ["default"]}),
    GrantingAction("PATCH", f"{V1}/applications/{{disabledapp}}", {"disabled": False}),
    GrantingAction("POST", f"{V1}/applications/{{app}}/secret"),
    GrantingAction("PUT", f"{V1}/workspaces/default/members/{{user}}", {"role": "manager"}),
    GrantingAction("PUT", f"{V1}/workspaces/default/members/{{user}}", {"role": "member"}),
]
INHERITED = {f"POST {V1}/keys"}
"""What these make is limited like the credential that makes it; the tests below say how."""

NOTHING_GIVEN = {
    # They ask for a password or a secret, so no credential takes part in them.
    f"POST {V1}/login",
    "POST /api/v1/token",
    "POST /api/v2/token",
    "POST /v1/k8s/auth/oauth/apptoken",
    # They take away.
    f"POST {V1}/logout",
    f"DELETE {V1}/users/{{}}",
    f"DELETE {V1}/keys/{{}}",
    f"DELETE {V1}/applications/{{}}",
    f"DELETE {V1}/workspaces/{{}}/members/{{}}",
    # They change what is nobody's credential and gives nobody a role.
    f"POST {V1}/departments",
    f"PATCH {V1}/departments/{{}}",
    f"DELETE {V1}/departments/{{}}",
    f"POST {V1}/workspaces",
    f"PATCH {V1}/workspaces/{{}}",
    f"DELETE {V1}/workspaces/{{}}",
    f"POST {V1}/clusters",
    f"PATCH {V1}/clusters/{{}}",
    f"DELETE {V1}/clusters/{{}}",
    f"POST {V1}/clusters/{{}}/check",
    f"POST {V1}/webhooks",
    f"PATCH {V1}/webhooks/{{}}",
    f"DELETE {V1}/webhooks/{{}}",
    f"POST {V1}/webhooks/{{}}/secret",
    f"POST {V1}/webhooks/{{}}/test",
    f"POST {V1}/webhooks/{{}}/deliveries/{{}}/retry",
}
WORK = re.compile(r"\w+ (/api/custom/workloads|/api/v1/workloads|/api/v2/workloads|/api/stoker/v1/workloads/)")
"""What is done to workloads: a pod's own token is for its own training metrics and ends with it."""


@pytest.fixture
def staffed(harness: Harness) -> Harness:
    for name, limits in LIMITS.items():
        harness.keys[name] = harness.add_key("admin", **limits)["secret"]
    return harness


def _made(harness: Harness, kind: str) -> str:
    match kind:
        case "new":
            return f"new-{next(_numbers)}"
        case "user":
            return harness.add_user()
        case "admin":
            return harness.add_user(role="admin")
        case "disabled":
            name = harness.add_user(password=PASSWORD)
            assert harness.patch(f"{V1}/users/{name}", as_="admin", json={"disabled": True}).status_code == 200
            return name
        case "app":
            return harness.add_application(workspaces=["default"])["clientId"]
        case "disabledapp":
            app = harness.add_application(workspaces=["default"])["clientId"]
            assert harness.patch(f"{V1}/applications/{app}", as_="admin", json={"disabled": True}).status_code == 200
            return app
    raise AssertionError(kind)


def _do(harness: Harness, act: GrantingAction, as_: str) -> httpx.Response:
    def filled(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: _made(harness, found[1]), text)

    body = act.body and {name: filled(value) if isinstance(value, str) else value for name, value in act.body.items()}
    return harness.request(act.method, filled(act.path), as_=as_, json=body)


def test_every_endpoint_that_writes_is_in_a_table() -> None:
    writes = {
        f"{endpoint.method} {re.sub(r'{[^}]*}', '{}', endpoint.path)}"
        for endpoint in ENDPOINTS
        if endpoint.method != "GET"
    }
    identities = {write for write in writes if not WORK.match(write)}
    acts = {re.sub("/default/", "/{}/", act.endpoint) for act in REFUSED}
    assert identities == acts | INHERITED | NOTHING_GIVEN


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("act", REFUSED, ids=lambda act: f"{act.method} {act.path} {sorted(act.body or {})}")
def test_a_limited_credential_gives_nobody_what_it_does_not_have(
    staffed: Harness, act: GrantingAction, limit: str
) -> None:
    answer = _do(staffed, act, limit)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed"), answer.text
    assert _do(staffed, act, "admin").status_code in {200, 201, 204}


def test_the_refusal_says_why_and_what_to_do(staffed: Harness) -> None:
    answer = staffed.put(f"{V1}/users/admin/password", as_="network", json={"password": PASSWORD})
    message = (
        "Not allowed: user.password grants access without limits, and this credential may be used from "
        "127.0.0.0/8 only."
    )
    hint = "Sign in with a password, or use an API key without networks and expiry."
    assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", message, hint=hint))


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limited_credential_may_take_away(staffed: Harness, limit: str) -> None:
    user, app = staffed.add_user(password=PASSWORD), staffed.add_application(workspaces=["default"])["clientId"]
    key = staffed.add_key(user)["key"]["id"]
    answers = [
        staffed.patch(f"{V1}/users/{user}", as_=limit, json={"disabled": True}),
        staffed.patch(f"{V1}/applications/{app}", as_=limit, json={"disabled": True}),
        staffed.delete(f"{V1}/keys/{key}", as_=limit),
        staffed.delete(f"{V1}/users/{user}", as_=limit),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 204, 204]


def test_a_user_who_cannot_sign_in_is_made_by_any_that_manages(staffed: Harness) -> None:
    for limit in LIMITS:
        assert staffed.post(f"{V1}/users", as_=limit, json={"name": staffed.name("new")}).status_code == 201


def test_the_manage_scope_gives_the_role_of_a_viewer_and_no_more(staffed: Harness) -> None:
    member = f"{V1}/workspaces/default/members/{staffed.add_user()}"
    assert staffed.put(member, as_="scope", json={"role": "viewer"}).status_code == 200
    answer = staffed.put(member, as_="scope", json={"role": "manager"})
    message = "Not allowed: granting the role manager also needs the scope workloads; this credential has manage."
    assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", message))
    staffed.keys["wide"] = staffed.add_key("admin", scopes=["manage", "workloads"])["secret"]
    assert staffed.put(member, as_="wide", json={"role": "manager"}).status_code == 200


def test_a_repeated_request_does_not_hand_a_wider_key_to_a_limited_credential(staffed: Harness) -> None:
    headers, body = {"Idempotency-Key": "again"}, {"name": "wide"}
    assert staffed.post(f"{V1}/keys", as_="admin", headers=headers, json=body).status_code == 201
    answer = staffed.post(f"{V1}/keys", as_="network", headers=headers, json=body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (403, "Idempotency-Key")
    assert "secret" not in answer.json()
    assert staffed.post(f"{V1}/keys", as_="admin", headers=headers, json=body).status_code == 201


def test_a_key_for_another_user_has_the_limits_of_the_one_that_makes_it(staffed: Harness) -> None:
    made = staffed.post(f"{V1}/keys", as_="network and expiry", json={"name": "x", "user": staffed.add_user()}).json()
    assert (made["key"]["cidrs"], made["key"]["expiresAt"]) == (HERE, END)
