"""Applications: programs that trade a client id and a secret for a token, in every spelling that clients send."""

import base64
import json
from typing import Any
from urllib.parse import quote_plus

import httpx
import jwt
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import FAR, STARTED, V1, Harness, problem

TOKEN = "/api/v1/token"
WRONG = {"code": 401, "message": "The client id or the client secret is wrong."}
REVOKED = "The token has been revoked."
AGAIN = "Sign in again, or use another API key."


@pytest.fixture
def issued(harness: Harness) -> dict[str, Any]:
    return harness.add_application("ci")


def _refused(answer: httpx.Response, message: str) -> None:
    assert (answer.status_code, answer.json()) == (401, problem(answer, "not_signed_in", message, hint=AGAIN))


def test_a_new_application_shows_its_secret_once(harness: Harness) -> None:
    answer = harness.post(
        f"{V1}/applications", as_="admin", json={"name": "ci", "description": "the pipeline", "admin": True}
    )
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    view = {
        "clientId": body["clientId"],
        "name": "ci",
        "role": "admin",
        "description": "the pipeline",
        "disabled": False,
        "createdAt": STARTED,
        "lastUsedAt": None,
    }
    assert body == {"application": view, "clientId": body["clientId"], "clientSecret": body["clientSecret"]}
    assert harness.get(f"{V1}/applications", as_="admin").json() == {"items": [view], "total": 1, "next": None}


def test_with_workspaces_it_is_a_member_of_just_those(harness: Harness) -> None:
    harness.add_workspace("vision")
    made = harness.add_application("ci", workspaces=["vision"], workspaceRole="viewer")
    token = harness.token(made["clientId"], made["clientSecret"])
    me = harness.get(f"{V1}/me", bearer=token).json()
    assert me["user"] == {**me["user"], "name": "ci", "kind": "application", "role": "user"}
    assert me["workspaces"] == [{"workspace": "vision", "role": "viewer"}]
    assert me["credential"] == f"application {made['clientId']}"
    assert harness.get(f"{V1}/workspaces/default", bearer=token).status_code == 404
    assert harness.get(f"{V1}/users", bearer=token).status_code == 403


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "say of which workspaces it is a member, or say that it is an admin by admin: true."),
        ({"admin": True, "workspaces": ["default"]}, "an admin is a member of none. Leave workspaces or admin out."),
    ],
)
def test_nobody_becomes_an_admin_without_being_asked_for_as_one(
    harness: Harness, asked: dict[str, Any], why: str
) -> None:
    answer = harness.post(f"{V1}/applications", as_="admin", json={"name": "ci", **asked})
    message = f"workspaces: {why}"
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="workspaces"))
    assert harness.get(f"{V1}/users/ci", as_="admin").status_code == 404


def test_an_unknown_workspace_leaves_no_application_behind(harness: Harness) -> None:
    answer = harness.post(f"{V1}/applications", as_="admin", json={"name": "ci", "workspaces": ["default", "ghost"]})
    message = 'workspaces: there is no workspace "ghost".'
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="workspaces"))
    assert harness.get(f"{V1}/users/ci", as_="admin").status_code == 404


def test_users_and_applications_share_their_names(harness: Harness) -> None:
    harness.add_user("li")
    answer = harness.post(f"{V1}/applications", as_="admin", json={"name": "li", "admin": True})
    message = 'There is already a user or application "li". Choose another name.'
    assert (answer.status_code, answer.json()) == (409, problem(answer, "exists", message, field="name"))


class TestToken:
    @pytest.mark.parametrize("grant", ["client_credentials", "app_token"])
    @pytest.mark.parametrize(
        ("id_key", "secret_key"),
        [
            ("clientId", "clientSecret"),
            ("clientID", "clientSecret"),
            ("appId", "appSecret"),
            ("appID", "appSecret"),
            ("AppId", "AppSecret"),
            ("CLIENTID", "CLIENTSECRET"),
        ],
    )
    def test_every_spelling_is_understood(
        self, harness: Harness, issued: dict[str, Any], grant: str, id_key: str, secret_key: str
    ) -> None:
        body = {"grantType": grant, id_key: issued["clientId"], secret_key: issued["clientSecret"]}
        answer = harness.post(TOKEN, json=body)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        assert sorted(answer.json()) == ["accessToken", "expiresIn"]
        assert answer.json()["expiresIn"] == 86_400
        assert harness.get(f"{V1}/me", bearer=answer.json()["accessToken"]).json()["user"]["name"] == "ci"

    def test_a_body_that_is_json_inside_a_json_string_is_understood(
        self, harness: Harness, issued: dict[str, Any]
    ) -> None:
        inner = {"grantType": "app_token", "AppId": issued["clientId"], "AppSecret": issued["clientSecret"]}
        answer = harness.post(TOKEN, json=json.dumps(inner))
        assert answer.status_code == 200

    @pytest.mark.parametrize("text", ["not json", "[]", '"deeper"', ""])
    def test_a_json_string_that_holds_no_object_is_a_bad_request(self, harness: Harness, text: str) -> None:
        answer = harness.post(TOKEN, json=text)
        assert (answer.status_code, answer.json()["code"]) == (400, 400)

    @pytest.mark.parametrize("content", [b'"\xff"', b'"\\ud800"', b'"', b'"{}" x'])
    def test_a_json_string_that_is_broken_is_a_bad_request(self, harness: Harness, content: bytes) -> None:
        answer = harness.post(TOKEN, content=content)
        assert (answer.status_code, answer.json()["code"]) == (400, 400)

    def test_a_nul_inside_a_json_string_is_a_bad_request(self, any_harness: Harness) -> None:
        inner = {"grantType": "app_token", "AppId": "\0", "AppSecret": "x"}
        for body in (json.dumps(inner), json.dumps(json.dumps(inner))):
            answer = any_harness.post(TOKEN, content=body)
            assert answer.status_code == 400
            assert answer.json() == {"code": 400, "message": "The body must not contain the character NUL (\\u0000)."}

    def test_the_payload_is_read_by_clients_that_know_plain_base64_only(
        self, harness: Harness, issued: dict[str, Any]
    ) -> None:
        for _ in range(50):
            harness.clock.advance(seconds=61)
            payload = harness.token(issued["clientId"], issued["clientSecret"]).split(".")[1]
            assert not set(payload) & set("-_=")
            claims = json.loads(base64.b64decode(payload + "==", validate=False))
            now = harness.clock.now() // 1000
            assert (claims["iat"], claims["exp"]) == (now, now + 86_400)

    def test_it_expires_when_it_says(self, harness: Harness, issued: dict[str, Any]) -> None:
        token = harness.token(issued["clientId"], issued["clientSecret"])
        harness.clock.advance(seconds=86_399)
        assert harness.get(f"{V1}/me", bearer=token).status_code == 200
        harness.clock.advance(seconds=1)
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has expired.")

    def test_the_setting_says_how_long(self, open_harness: OpenHarness) -> None:
        harness = open_harness(token_seconds=3600)
        made = harness.add_application("ci")
        body = {"grantType": "app_token", "appId": made["clientId"], "appSecret": made["clientSecret"]}
        answer = harness.post(TOKEN, json=body).json()
        assert answer["expiresIn"] == 3600
        claims = jwt.decode(answer["accessToken"], options={"verify_signature": False})
        assert claims["exp"] - claims["iat"] == 3600

    def test_a_wrong_secret_and_an_unknown_id_get_the_same_answer(
        self, harness: Harness, issued: dict[str, Any]
    ) -> None:
        pairs = [
            (issued["clientId"], "wrong"),
            (issued["clientId"], issued["clientSecret"] + "1"),
            ("unknown", issued["clientSecret"]),
            ("ci", issued["clientSecret"]),
        ]
        for client_id, secret in pairs:
            body = {"grantType": "client_credentials", "clientId": client_id, "clientSecret": secret}
            answer = harness.post(TOKEN, json=body)
            assert (answer.status_code, answer.json()) == (401, WRONG)

    @pytest.mark.parametrize("grant", ["password", "refresh_token", "", None, 1, ["app_token"]])
    def test_another_grant_type_is_refused(self, harness: Harness, grant: object) -> None:
        answer = harness.post(TOKEN, json={"grantType": grant, "clientId": "x", "clientSecret": "x"})
        message = "grantType: it is not one that is served here. Use client_credentials or app_token."
        assert (answer.status_code, answer.json()) == (400, {"code": 400, "message": message})

    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            ({"clientSecret": "x"}, "clientId"),
            ({"clientId": "x"}, "clientSecret"),
            ({"clientId": None, "clientSecret": None}, "clientId"),
            ({"clientId": "", "clientSecret": "x"}, "clientId"),
            ({"clientId": 7, "clientSecret": "x"}, "clientId"),
        ],
    )
    def test_a_missing_part_is_named(self, harness: Harness, fields: dict[str, object], name: str) -> None:
        answer = harness.post(TOKEN, json={"grantType": "app_token", **fields})
        message = f"{name}: it is required. Use the text that `stoker app create` printed."
        assert (answer.status_code, answer.json()) == (400, {"code": 400, "message": message})

    def test_its_use_is_noted(self, harness: Harness, issued: dict[str, Any]) -> None:
        harness.clock.advance(seconds=5)
        harness.token(issued["clientId"], issued["clientSecret"])
        listed = harness.get(f"{V1}/applications", as_="admin").json()["items"][0]
        assert listed["lastUsedAt"] == "2026-01-15T10:30:05.000Z"

    def test_its_use_is_in_the_audit_log_and_a_wrong_secret_too(self, harness: Harness, issued: dict[str, Any]) -> None:
        harness.token(issued["clientId"], issued["clientSecret"])
        harness.clock.advance(seconds=1)
        body = {"grantType": "app_token", "appId": issued["clientId"], "appSecret": "wrong"}
        assert harness.post(TOKEN, json=body).status_code == 401
        assert harness.post(TOKEN, json={**body, "appId": "nobody"}).status_code == 401
        kept = harness.audit(action="token.issue")
        assert [(each["target"], each["result"]) for each in kept] == [("ci", "not_signed_in"), ("ci", "ok")]
        assert {each["credential"] for each in kept} == {f"application {issued['clientId']}"}


class TestEnded:
    def test_a_disabled_application_gets_no_token_and_loses_those_it_has(
        self, harness: Harness, issued: dict[str, Any]
    ) -> None:
        path, token = (
            f"{V1}/applications/{issued['clientId']}",
            harness.token(issued["clientId"], issued["clientSecret"]),
        )
        assert harness.patch(path, as_="admin", json={"disabled": True}).json()["disabled"] is True
        body = {"grantType": "app_token", "appId": issued["clientId"], "appSecret": issued["clientSecret"]}
        answer = harness.post(TOKEN, json=body)
        assert (answer.status_code, answer.json()) == (401, WRONG)
        _refused(harness.get(f"{V1}/me", bearer=token), REVOKED)
        assert harness.patch(path, as_="admin", json={"disabled": False}).json()["disabled"] is False
        assert harness.get(f"{V1}/me", bearer=token).status_code == 200

    def test_a_new_secret_ends_the_old_one_and_its_tokens(self, harness: Harness, issued: dict[str, Any]) -> None:
        old = harness.token(issued["clientId"], issued["clientSecret"])
        renewed = harness.post(f"{V1}/applications/{issued['clientId']}/secret", as_="admin")
        assert renewed.status_code == 201
        assert renewed.headers["Cache-Control"] == "no-store"
        assert renewed.json()["clientId"] == issued["clientId"]
        _refused(harness.get(f"{V1}/me", bearer=old), REVOKED)
        body = {"grantType": "app_token", "appId": issued["clientId"], "appSecret": issued["clientSecret"]}
        assert harness.post(TOKEN, json=body).status_code == 401
        new = harness.token(issued["clientId"], renewed.json()["clientSecret"])
        assert harness.get(f"{V1}/me", bearer=new).status_code == 200

    def test_a_deleted_application_is_gone_with_its_tokens_and_its_user(
        self, harness: Harness, issued: dict[str, Any]
    ) -> None:
        token = harness.token(issued["clientId"], issued["clientSecret"])
        path = f"{V1}/applications/{issued['clientId']}"
        assert harness.delete(path, as_="admin").status_code == 204
        _refused(harness.get(f"{V1}/me", bearer=token), REVOKED)
        assert harness.get(f"{V1}/users/ci", as_="admin").status_code == 404
        for answer in (
            harness.delete(path, as_="admin"),
            harness.patch(path, as_="admin", json={"disabled": True}),
            harness.post(f"{path}/secret", as_="admin"),
        ):
            message = f'There is no application "{issued["clientId"]}", or you may not see it.'
            assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))


class TestTokensAsOAuthHasThem:
    PATH = "/api/v2/token"

    def _ask(self, harness: Harness, **fields: str) -> httpx.Response:
        return harness.post(self.PATH, content=str(httpx.QueryParams(fields)))

    def test_a_form_gets_a_token_that_works(self, harness: Harness, issued: dict[str, Any]) -> None:
        secret = issued["clientSecret"]
        answer = self._ask(harness, grant_type="client_credentials", client_id=issued["clientId"], client_secret=secret)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        body = answer.json()
        assert (body["token_type"], body["expires_in"]) == ("Bearer", 86_400)
        assert harness.get(f"{V1}/me", bearer=body["access_token"]).json()["user"]["name"] == "ci"

    @pytest.mark.parametrize(
        ("secret", "status", "error"),
        [(None, 200, None), ("wrong", 401, "invalid_client"), ("", 400, "invalid_request")],
    )
    def test_id_and_secret_may_be_in_the_header(
        self, harness: Harness, issued: dict[str, Any], secret: str | None, status: int, error: str | None
    ) -> None:
        sent = f"{quote_plus(issued['clientId'])}:{issued['clientSecret'] if secret is None else secret}"
        header = {"Authorization": f"Basic {base64.b64encode(sent.encode()).decode()}"}
        answer = harness.post(self.PATH, content="grant_type=client_credentials", headers=header)
        assert (answer.status_code, answer.json().get("error")) == (status, error)
        assert answer.headers.get("WWW-Authenticate") == ("Basic" if status == 401 else None)

    def test_a_header_that_is_not_base64_is_a_bad_request(self, harness: Harness) -> None:
        answer = harness.post(self.PATH, content="grant_type=client_credentials", headers={"Authorization": "Basic %%"})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({}, "invalid_request"),
            ({"grant_type": "client_credentials"}, "invalid_request"),
            ({"grant_type": "client_credentials", "client_id": "x"}, "invalid_request"),
            ({"grant_type": "client_credentials", "client_id": "x", "client_secret": "x"}, "invalid_client"),
            ({"grant_type": "password", "username": "x", "password": "x"}, "unsupported_grant_type"),
            ({"grant_type": "refresh_token", "refresh_token": "x"}, "unsupported_grant_type"),
        ],
    )
    def test_an_error_is_in_its_words(self, harness: Harness, fields: dict[str, str], error: str) -> None:
        answer = self._ask(harness, **fields)
        assert (answer.status_code, answer.json()["error"]) == (400, error)
        assert answer.json().keys() == {"error", "error_description"}

    def test_a_form_that_is_not_text_is_a_bad_request(self, harness: Harness) -> None:
        answer = harness.post(self.PATH, content=b"grant_type=%ff")
        assert (answer.status_code, answer.json()["message"]) == (400, "body: it is not UTF-8 text.")


def test_the_oldest_address_gives_a_token_too(harness: Harness, issued: dict[str, Any]) -> None:
    body = {"id": issued["clientId"], "name": "ci", "secret": issued["clientSecret"]}
    answer = harness.post("/v1/k8s/auth/oauth/apptoken", json=body)
    assert answer.status_code == 200
    assert answer.json()["access_token"] == answer.json()["id_token"]
    assert harness.get(f"{V1}/me", bearer=answer.json()["id_token"]).status_code == 200
    assert harness.post("/v1/k8s/auth/oauth/apptoken", json=body | {"secret": "x"}).json() == WRONG


class TestThrottle:
    def ask(self, harness: Harness, issued: dict[str, Any], secret: str, peer: str = FAR) -> httpx.Response:
        body = {"grantType": "client_credentials", "clientId": issued["clientId"], "clientSecret": secret}
        return harness.post("/api/v1/token", json=body, peer=peer)

    def test_wrong_secrets_pause_the_client_in_their_network_and_nowhere_else(self, any_harness: Harness) -> None:
        harness = any_harness
        issued, other = harness.add_application("ci"), harness.add_application("cd")
        for _ in range(5):
            assert self.ask(harness, issued, "wrong").status_code == 401
        answer = self.ask(harness, issued, issued["clientSecret"])
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "300")
        message = "Too many refused client secrets. Try again in 300 s."
        assert answer.json() == {"code": 429, "message": message}
        assert self.ask(harness, issued, issued["clientSecret"], peer="198.51.100.4").status_code == 200
        assert self.ask(harness, other, other["clientSecret"]).status_code == 200
        harness.clock.advance(seconds=300)
        assert self.ask(harness, issued, issued["clientSecret"]).status_code == 200

    def test_every_address_of_tokens_is_throttled(self, harness: Harness) -> None:
        issued = harness.add_application("ci")
        body = {"id": issued["clientId"], "name": "ci", "secret": "wrong"}
        form = f"grant_type=client_credentials&client_id={issued['clientId']}&client_secret=wrong"
        for _ in range(5):
            assert harness.post("/v1/k8s/auth/oauth/apptoken", json=body).status_code == 401
        assert harness.post("/v1/k8s/auth/oauth/apptoken", json=body).status_code == 429
        assert harness.post("/api/v2/token", content=form).status_code == 429

    def test_many_right_ones_at_once_are_all_served(self, any_harness: Harness) -> None:
        issued = any_harness.add_application("ci")
        body = {
            "grantType": "client_credentials",
            "clientId": issued["clientId"],
            "clientSecret": issued["clientSecret"],
        }
        answers = any_harness.together(*(any_harness.ask("POST", "/api/v1/token", json=body) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}

    def test_many_wrong_ones_at_once_do_not_slip_through(self, any_harness: Harness) -> None:
        issued = any_harness.add_application("ci")
        body = {"grantType": "client_credentials", "clientId": issued["clientId"], "clientSecret": "wrong"}
        answers = any_harness.together(*(any_harness.ask("POST", "/api/v1/token", json=body) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 15
