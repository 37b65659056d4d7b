"""Sessions: the cookie with its CSRF token, the bearer token, and what ends them."""

import base64
import json

import httpx
import jwt
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import PASSWORD, V1, Harness, problem

ENDED = "The session has ended. Sign in again."
AGAIN = "Sign in again, or use another API key."


@pytest.fixture
def li(harness: Harness) -> httpx.Response:
    """A log-in of user li."""
    harness.add_user("li", password=PASSWORD)
    return harness.log_in("li")


def _refused(answer: httpx.Response, message: str) -> None:
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json() == problem(answer, "not_signed_in", message, hint=AGAIN)


def _cookie(answer: httpx.Response) -> str:
    return answer.headers["Set-Cookie"].split(";")[0].removeprefix("stoker_session=")


def _segment(fields: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


def test_without_a_credential_the_answer_says_how_to_sign_in(harness: Harness) -> None:
    answer = harness.get(f"{V1}/me")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    hint = "Send the header Authorization: Bearer <API key>, or sign in with: stoker login"
    assert answer.json() == problem(answer, "not_signed_in", "This needs a credential.", hint=hint)


@pytest.mark.parametrize("header", ["Basic bGk6c2VjcmV0", "Bearer", "Bearer  ", "", "sk-stoker-1"])
def test_an_authorization_header_of_another_form_is_refused(harness: Harness, header: str) -> None:
    answer = harness.get(f"{V1}/me", headers={"Authorization": header})
    message = "The Authorization header must be: Bearer <API key or token>."
    assert (answer.status_code, answer.json()) == (401, problem(answer, "not_signed_in", message))


@pytest.mark.parametrize("credential", ["nonsense", "a.b", "a.b.c.d", "sk-other-123"])
def test_a_bearer_that_is_neither_key_nor_token_is_refused(harness: Harness, credential: str) -> None:
    _refused(harness.get(f"{V1}/me", bearer=credential), "The bearer credential is neither an API key nor a token.")


def test_the_scheme_of_the_authorization_header_is_in_any_case(harness: Harness) -> None:
    key = harness.keys["admin"]
    assert harness.get(f"{V1}/me", headers={"Authorization": f"bEaReR {key}"}).status_code == 200


class TestCookie:
    def test_it_is_out_of_reach_of_scripts_and_of_other_sites(self, li: httpx.Response) -> None:
        _, *attributes = li.headers["Set-Cookie"].split("; ")
        assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"]

    def test_under_https_it_is_never_sent_in_clear(self, harness: Harness, li: httpx.Response) -> None:
        _, *attributes = harness.log_in("li", scheme="https").headers["Set-Cookie"].split("; ")
        assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200", "Secure"]

    @pytest.mark.parametrize(
        ("peer", "proto", "secure"),
        [
            ("10.0.0.1", "https", True),
            ("10.0.0.1", "HTTPS, http", True),
            ("10.0.0.1", "http", False),
            ("11.0.0.1", "https", False),
        ],
    )
    def test_https_up_to_a_trusted_proxy_counts(
        self, open_harness: OpenHarness, peer: str, proto: str, secure: bool
    ) -> None:
        harness = open_harness(trusted_proxies=("10.0.0.0/8",))
        harness.add_user("li", password=PASSWORD)
        answer = harness.log_in("li", peer=peer, headers={"X-Forwarded-Proto": proto})
        assert answer.headers["Set-Cookie"].endswith("; Secure") == secure

    def test_it_reads_without_a_csrf_token(self, harness: Harness, li: httpx.Response) -> None:
        answer = harness.get(f"{V1}/me", cookie=_cookie(li))
        assert answer.status_code == 200
        assert answer.json()["csrfToken"] == li.json()["csrfToken"]
        assert answer.headers["Cache-Control"] == "no-store"

    def test_it_is_found_among_other_cookies(self, harness: Harness, li: httpx.Response) -> None:
        header = f"theme=dark; stoker_session={_cookie(li)}; other=1"
        assert harness.get(f"{V1}/me", headers={"Cookie": header}).status_code == 200

    def test_a_write_with_the_csrf_token_works(self, harness: Harness, li: httpx.Response) -> None:
        made = harness.post(f"{V1}/keys", cookie=_cookie(li), csrf=li.json()["csrfToken"], json={"name": "mine"})
        assert made.status_code == 201
        assert made.json()["key"]["user"] == "li"

    @pytest.mark.parametrize("csrf", [None, "", "wrong", "é"])
    def test_a_write_without_the_right_csrf_token_is_forbidden(
        self, harness: Harness, li: httpx.Response, csrf: str | None
    ) -> None:
        headers = {} if csrf is None else {"X-CSRF-Token": csrf}
        answer = harness.post(f"{V1}/keys", cookie=_cookie(li), headers=headers, json={"name": "mine"})
        message = "Not allowed: the CSRF token is missing or wrong."
        hint = "Send the csrfToken of the log-in in the header X-CSRF-Token."
        assert (answer.status_code, answer.json()) == (403, problem(answer, "not_allowed", message, hint=hint))
        assert harness.get(f"{V1}/keys?name=mine", as_="li").json()["total"] == 0

    def test_the_csrf_token_of_another_session_is_wrong(self, harness: Harness, li: httpx.Response) -> None:
        other = harness.log_in("li").json()["csrfToken"]
        assert harness.post(f"{V1}/logout", cookie=_cookie(li), csrf=other).status_code == 403

    @pytest.mark.parametrize("cookie", ["wrong", "é", "1" * 4000])
    def test_an_unknown_cookie_is_refused(self, harness: Harness, cookie: str) -> None:
        _refused(
            harness.get(f"{V1}/me", headers=[("Cookie", f"stoker_session={cookie}")]),
            ENDED,
        )

    def test_an_empty_cookie_is_no_credential(self, harness: Harness) -> None:
        assert harness.get(f"{V1}/me", cookie="").json()["error"]["message"] == "This needs a credential."

    def test_a_bearer_credential_goes_before_the_cookie(self, harness: Harness, li: httpx.Response) -> None:
        me = harness.get(f"{V1}/me", cookie=_cookie(li), as_="admin").json()
        assert (me["user"]["name"], me["csrfToken"]) == ("admin", None)

    def test_it_ends_with_its_session(self, harness: Harness, li: httpx.Response) -> None:
        harness.clock.advance(hours=11.99)
        assert harness.get(f"{V1}/me", cookie=_cookie(li)).status_code == 200
        harness.clock.advance(hours=0.01)
        _refused(harness.get(f"{V1}/me", cookie=_cookie(li)), ENDED)

    def test_log_out_ends_it_and_takes_it_back(self, harness: Harness, li: httpx.Response) -> None:
        answer = harness.post(f"{V1}/logout", cookie=_cookie(li), csrf=li.json()["csrfToken"])
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["Set-Cookie"] == "stoker_session=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
        _refused(harness.get(f"{V1}/me", cookie=_cookie(li)), ENDED)


class TestToken:
    def test_it_reads_and_writes_without_a_csrf_token(self, harness: Harness, li: httpx.Response) -> None:
        made = harness.post(f"{V1}/keys", bearer=harness.session_token("li"), json={"name": "mine"})
        assert made.status_code == 201

    @pytest.mark.parametrize("part", [0, 1, 2])
    def test_a_changed_letter_is_refused(self, harness: Harness, li: httpx.Response, part: int) -> None:
        segments = harness.session_token("li").split(".")
        letter = segments[part][5]
        segments[part] = segments[part][:5] + ("A" if letter != "A" else "B") + segments[part][6:]
        _refused(harness.get(f"{V1}/me", bearer=".".join(segments)), "The token was not issued by this Stoker.")

    def test_another_users_name_in_the_payload_is_refused(self, harness: Harness, li: httpx.Response) -> None:
        head, payload, signature = harness.session_token("li").split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
        claims["sub"] = harness.get(f"{V1}/users/admin", as_="admin").json()["id"]
        answer = harness.get(f"{V1}/me", bearer=f"{head}.{_segment(claims)}.{signature}")
        _refused(answer, "The token was not issued by this Stoker.")

    @pytest.mark.parametrize("key", ["x" * 64, "another key that is long enough for it"])
    def test_one_that_another_key_signed_is_refused(self, harness: Harness, li: httpx.Response, key: str) -> None:
        claims = jwt.decode(harness.session_token("li"), options={"verify_signature": False})
        answer = harness.get(f"{V1}/me", bearer=jwt.encode(claims, key, "HS256"))
        _refused(answer, "The token was not issued by this Stoker.")

    @pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS512", "RS256"])
    def test_one_of_another_algorithm_is_refused(self, harness: Harness, li: httpx.Response, algorithm: str) -> None:
        _, payload, signature = harness.session_token("li").split(".")
        head = _segment({"alg": algorithm, "typ": "JWT"})
        for end in ("", signature):
            answer = harness.get(f"{V1}/me", bearer=f"{head}.{payload}.{end}")
            _refused(answer, "The token was not issued by this Stoker.")

    def test_it_ends_with_its_session(self, harness: Harness, li: httpx.Response) -> None:
        token = harness.session_token("li")
        harness.clock.advance(seconds=43_199)
        assert harness.get(f"{V1}/me", bearer=token).status_code == 200
        harness.clock.advance(seconds=1)
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has expired.")

    def test_log_out_ends_this_session_and_no_other(self, harness: Harness, li: httpx.Response) -> None:
        token, other = harness.session_token("li"), harness.session_token("li")
        assert harness.post(f"{V1}/logout", bearer=token).status_code == 204
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has been revoked.")
        assert harness.get(f"{V1}/me", bearer=other).status_code == 200

    def test_log_out_with_an_api_key_leaves_the_key_and_the_sessions(
        self, harness: Harness, li: httpx.Response
    ) -> None:
        token = harness.session_token("li")
        assert harness.post(f"{V1}/logout", as_="li").status_code == 204
        assert harness.get(f"{V1}/me", as_="li").status_code == 200
        assert harness.get(f"{V1}/me", bearer=token).status_code == 200
        assert harness.get(f"{V1}/me", cookie=_cookie(li)).status_code == 200


class TestEndedByOthers:
    def test_a_disabled_user_is_out_at_once_and_stays_out(self, harness: Harness, li: httpx.Response) -> None:
        token, cookie = harness.session_token("li"), _cookie(li)
        assert harness.patch(f"{V1}/users/li", as_="admin", json={"disabled": True}).status_code == 200
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has been revoked.")
        _refused(harness.get(f"{V1}/me", cookie=cookie), ENDED)
        _refused(harness.get(f"{V1}/me", as_="li"), "The user of this API key is disabled.")
        harness.patch(f"{V1}/users/li", as_="admin", json={"disabled": False})
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has been revoked.")
        assert harness.get(f"{V1}/me", as_="li").status_code == 200

    def test_a_deleted_user_is_out_at_once(self, harness: Harness, li: httpx.Response) -> None:
        token = harness.session_token("li")
        assert harness.delete(f"{V1}/users/li", as_="admin").status_code == 204
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has been revoked.")
        _refused(harness.get(f"{V1}/me", cookie=_cookie(li)), ENDED)
        _refused(harness.get(f"{V1}/me", as_="li"), "The API key is not known.")

    def test_a_new_role_holds_for_sessions_that_are_open(self, harness: Harness, li: httpx.Response) -> None:
        token = harness.session_token("li")
        assert harness.get(f"{V1}/users", bearer=token).status_code == 403
        harness.patch(f"{V1}/users/li", as_="admin", json={"role": "admin"})
        assert harness.get(f"{V1}/users", bearer=token).status_code == 200


class TestPasswordChange:
    PATH = f"{V1}/users/li/password"

    def test_it_ends_the_other_sessions_and_keeps_the_one_that_asks(self, harness: Harness, li: httpx.Response) -> None:
        token, other = harness.session_token("li"), harness.session_token("li")
        body = {"password": "a new password", "currentPassword": PASSWORD}
        assert harness.put(self.PATH, bearer=token, json=body).status_code == 204
        assert harness.get(f"{V1}/me", bearer=token).status_code == 200
        _refused(harness.get(f"{V1}/me", bearer=other), "The token has been revoked.")
        _refused(harness.get(f"{V1}/me", cookie=_cookie(li)), ENDED)
        assert harness.log_in("li").status_code == 401
        assert harness.log_in("li", "a new password").status_code == 200

    def test_an_admin_sets_it_without_knowing_it_and_ends_every_session(
        self, harness: Harness, li: httpx.Response
    ) -> None:
        token = harness.session_token("li")
        assert harness.put(self.PATH, as_="admin", json={"password": "a new password"}).status_code == 204
        _refused(harness.get(f"{V1}/me", bearer=token), "The token has been revoked.")
        _refused(harness.get(f"{V1}/me", cookie=_cookie(li)), ENDED)
        assert harness.log_in("li", "a new password").status_code == 200

    @pytest.mark.parametrize("current", [{}, {"currentPassword": "not it"}])
    def test_ones_own_asks_for_the_present_one(
        self, harness: Harness, li: httpx.Response, current: dict[str, str]
    ) -> None:
        answer = harness.put(
            self.PATH, bearer=harness.session_token("li"), json={"password": "a new password", **current}
        )
        message = "The current password is wrong."
        expected = problem(answer, "not_allowed", message, field="currentPassword")
        assert (answer.status_code, answer.json()) == (403, expected)
        assert harness.log_in("li").status_code == 200

    @pytest.mark.parametrize(("password", "length"), [("", 0), ("nine char", 9)])
    def test_a_short_one_is_refused(self, harness: Harness, li: httpx.Response, password: str, length: int) -> None:
        answer = harness.put(self.PATH, as_="admin", json={"password": password})
        message = f"password: it has {length} characters. Use 10 to 256."
        assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="password"))

    def test_an_application_has_none(self, harness: Harness) -> None:
        harness.add_application("ci")
        answer = harness.put(f"{V1}/users/ci/password", as_="admin", json={"password": "a new password"})
        message = '"ci" is an application: it has a secret, not a password.'
        assert (answer.status_code, answer.json()) == (409, problem(answer, "conflict", message))

    def test_someone_elses_cannot_be_seen(self, harness: Harness, li: httpx.Response) -> None:
        harness.add_user("other")
        answer = harness.put(self.PATH, as_="other", json={"password": "a new password", "currentPassword": PASSWORD})
        message = 'There is no user "li", or you may not see it.'
        assert (answer.status_code, answer.json()) == (404, problem(answer, "not_found", message))
