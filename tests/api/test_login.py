"""Log-in by password: what is let in, what is not, and what is slowed down."""

import httpx
import pytest
from tests.api.conftest import OpenLab
from tests.api.lab import FAR, PASSWORD, STARTED, V1, Lab, problem

WRONG = "The user name or the password is wrong."


def _throttled(answer: httpx.Response, seconds: int) -> None:
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == str(seconds)
    message = f"Too many failed log-ins. Try again in {seconds} s."
    assert answer.json() == problem(answer, "too_many_requests", message)


def test_the_right_password_gives_a_token_a_cookie_and_a_csrf_token(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    answer = lab.log_in("li")
    assert answer.status_code == 200
    body = answer.json()
    assert body["user"] == lab.get(f"{V1}/users/li", as_="admin").json()
    assert body["user"]["createdAt"] == STARTED
    assert body["expiresAt"] == "2026-01-15T22:30:00.000Z"
    assert answer.headers["Cache-Control"] == "no-store"
    assert lab.get(f"{V1}/me", bearer=body["accessToken"]).json()["user"]["name"] == "li"
    assert sorted(body) == ["accessToken", "csrfToken", "expiresAt", "user"]


def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    for name, password in (("li", "not it"), ("nobody-here", PASSWORD), ("li", "")):
        answer = lab.log_in(name, password)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "Set-Cookie" not in answer.headers
        assert answer.json() == problem(answer, "not_signed_in", WRONG)


def test_who_has_no_password_cannot_log_in_with_an_empty_one(lab: Lab) -> None:
    lab.add_user("keys-only")
    assert lab.log_in("keys-only", "").status_code == 401
    assert lab.log_in("admin", "").status_code == 401


def test_a_disabled_user_gets_the_answer_of_a_wrong_password(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    lab.patch(f"{V1}/users/li", as_="admin", json={"disabled": True})
    answer = lab.log_in("li")
    assert (answer.status_code, answer.json()) == (401, problem(answer, "not_signed_in", WRONG))


def test_an_application_cannot_log_in_by_password(lab: Lab) -> None:
    issued = lab.add_application("ci")
    assert lab.log_in("ci", issued["clientSecret"]).status_code == 401


def test_five_failures_pause_a_name_until_the_oldest_is_old_enough(any_lab: Lab) -> None:
    any_lab.add_user("li", password=PASSWORD)
    for _ in range(5):
        assert any_lab.log_in("li", "wrong").status_code == 401
        any_lab.clock.advance(seconds=10)
    _throttled(any_lab.log_in("li"), 250)
    any_lab.clock.advance(seconds=249.5)
    _throttled(any_lab.log_in("li"), 1)
    any_lab.clock.advance(seconds=0.5)
    assert any_lab.log_in("li").status_code == 200


def test_a_name_nobody_has_is_paused_like_any_other(lab: Lab) -> None:
    assert [lab.log_in("ghost", "wrong").status_code for _ in range(6)] == [401, 401, 401, 401, 401, 429]


def test_a_pause_is_for_one_name_only(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    for _ in range(6):
        lab.log_in("someone", "wrong")
    assert lab.log_in("li").status_code == 200


def test_a_success_forgets_the_failures_before_it(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    for _ in range(2):
        assert [lab.log_in("li", "wrong").status_code for _ in range(4)] == [401] * 4
        assert lab.log_in("li").status_code == 200


def test_many_attempts_at_once_do_not_slip_through(any_lab: Lab) -> None:
    any_lab.add_user("li", password=PASSWORD)
    body = {"username": "li", "password": "wrong"}
    answers = any_lab.together(*(any_lab.ask("POST", f"{V1}/login", json=body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 15
    for answer in answers:
        if answer.status_code == 429:
            _throttled(answer, 300)


def test_an_address_that_tries_many_names_is_paused_and_others_are_not(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    for number in range(5):
        assert lab.log_in(f"guess-{number}", "wrong", peer=FAR).status_code == 401
    _throttled(lab.log_in("li", peer=FAR), 300)
    assert lab.log_in("li", peer="198.51.100.4").status_code == 200


def test_this_machine_is_not_paused_by_address(lab: Lab) -> None:
    lab.add_user("li", password=PASSWORD)
    for number in range(8):
        assert lab.log_in(f"guess-{number}", "wrong").status_code == 401
    assert lab.log_in("li").status_code == 200


def test_the_settings_say_how_many_attempts_and_how_long(open_lab: OpenLab) -> None:
    lab = open_lab(login_attempts=2, login_window_seconds=30)
    assert [lab.log_in("li", "wrong").status_code for _ in range(2)] == [401, 401]
    _throttled(lab.log_in("li", "wrong"), 30)


@pytest.mark.parametrize("host", ["[", "[::1", "a]b", ""])
def test_a_host_header_that_is_no_host_does_not_disturb_the_log_in(lab: Lab, host: str) -> None:
    lab.add_user("li", password=PASSWORD)
    assert lab.log_in("li", headers={"Host": host}).status_code == 200
