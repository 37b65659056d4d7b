"""Log-in by password: what is let in, what is not, and what is slowed down."""

import asyncio
from unittest import mock

import httpx
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import FAR, PASSWORD, STARTED, V1, Ask, Harness, problem

WRONG = "The user name or the password is wrong."


def _throttled(answer: httpx.Response, seconds: int) -> None:
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == str(seconds)
    message = f"Too many failed log-ins. Try again in {seconds} s."
    assert answer.json() == problem(answer, "too_many_requests", message)


def test_the_right_password_gives_a_browser_a_cookie_and_a_csrf_token_and_no_more(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    answer = harness.log_in("li")
    assert answer.status_code == 200
    body = answer.json()
    assert body["user"] == harness.get(f"{V1}/users/li", as_="admin").json()
    assert body["user"]["createdAt"] == STARTED
    assert body["expiresAt"] == "2026-01-15T22:30:00.000Z"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Set-Cookie"].startswith("stoker_session=")
    assert sorted(body) == ["accessToken", "csrfToken", "expiresAt", "user"]
    assert (body["accessToken"], len(body["csrfToken"]) > 30) == (None, True)


def test_a_program_that_asks_for_a_token_gets_that_and_no_cookie(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    answer = harness.post(f"{V1}/login?token=true", json={"username": "li", "password": PASSWORD})
    body = answer.json()
    assert harness.get(f"{V1}/me", bearer=body["accessToken"]).json()["user"]["name"] == "li"
    assert body["csrfToken"] is None
    assert "Set-Cookie" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "media_type", [None, "", "text/plain", "text/plain; a=application/json", "application/x-www-form-urlencoded"]
)
def test_another_site_cannot_log_a_browser_in(harness: Harness, media_type: str | None) -> None:
    harness.add_user("li", password=PASSWORD)
    content = f'{{"username":"li","password":"{PASSWORD}"}}'.encode()
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = harness.post(f"{V1}/login", content=content, headers=headers)
    message = "Content-Type: it is required. Use application/json."
    assert (answer.status_code, answer.json()) == (400, problem(answer, "bad_request", message, field="Content-Type"))
    assert "Set-Cookie" not in answer.headers
    for media_type in ("application/json", "Application/JSON; charset=utf-8"):
        answer = harness.post(f"{V1}/login", content=content, headers={"Content-Type": media_type})
        assert answer.status_code == 200


def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    for name, password in (("li", "not it"), ("nobody-here", PASSWORD), ("li", "")):
        answer = harness.log_in(name, password)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert "Set-Cookie" not in answer.headers
        assert answer.json() == problem(answer, "not_signed_in", WRONG)


def test_who_has_no_password_cannot_log_in_with_an_empty_one(harness: Harness) -> None:
    harness.add_user("keys-only")
    assert harness.log_in("keys-only", "").status_code == 401
    assert harness.log_in("admin", "").status_code == 401


def test_a_disabled_user_gets_the_answer_of_a_wrong_password(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    harness.patch(f"{V1}/users/li", as_="admin", json={"disabled": True})
    answer = harness.log_in("li")
    assert (answer.status_code, answer.json()) == (401, problem(answer, "not_signed_in", WRONG))


def test_an_application_cannot_log_in_by_password(harness: Harness) -> None:
    issued = harness.add_application("ci")
    assert harness.log_in("ci", issued["clientSecret"]).status_code == 401


def test_five_failures_pause_a_name_until_the_oldest_is_old_enough(any_harness: Harness) -> None:
    any_harness.add_user("li", password=PASSWORD)
    for _ in range(5):
        assert any_harness.log_in("li", "wrong").status_code == 401
        any_harness.clock.advance(seconds=10)
    _throttled(any_harness.log_in("li"), 250)
    any_harness.clock.advance(seconds=249.5)
    _throttled(any_harness.log_in("li"), 1)
    any_harness.clock.advance(seconds=0.5)
    assert any_harness.log_in("li").status_code == 200


def test_a_name_nobody_has_is_paused_like_any_other(harness: Harness) -> None:
    assert [harness.log_in("ghost", "wrong").status_code for _ in range(6)] == [401, 401, 401, 401, 401, 429]


def test_a_pause_is_for_one_name_only(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    for _ in range(6):
        harness.log_in("someone", "wrong")
    assert harness.log_in("li").status_code == 200


def test_a_success_forgets_the_failures_before_it(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    for _ in range(2):
        assert [harness.log_in("li", "wrong").status_code for _ in range(4)] == [401] * 4
        assert harness.log_in("li").status_code == 200


def test_many_attempts_at_once_do_not_slip_through(any_harness: Harness) -> None:
    any_harness.add_user("li", password=PASSWORD)
    body = {"username": "li", "password": "wrong"}
    answers = any_harness.together(*(any_harness.ask("POST", f"{V1}/login", json=body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 15
    for answer in answers:
        if answer.status_code == 429:
            _throttled(answer, 300)


def test_an_address_that_tries_many_names_is_paused_and_others_are_not(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    for number in range(5):
        assert harness.log_in(f"guess-{number}", "wrong", peer=FAR).status_code == 401
    _throttled(harness.log_in("li", peer=FAR), 300)
    assert harness.log_in("li", peer="198.51.100.4").status_code == 200


def _slowly(harness: Harness, asking: Ask) -> tuple[httpx.Response, float]:
    """The answer to a log-in, and how many seconds it was held back."""
    held_back: list[float] = []

    async def ask() -> httpx.Response:
        request, sleep = asyncio.current_task(), harness.clock.sleep

        async def sleep_unless_asked(seconds: float) -> None:
            if asyncio.current_task() is request:
                held_back.append(seconds)
                harness.clock.advance(seconds=seconds)
            else:  # loops of the server
                await sleep(seconds)

        with mock.patch.object(harness.clock, "sleep", sleep_unless_asked):
            return await asking

    return harness.run(ask()), sum(held_back)


def test_an_ipv6_network_is_one_address(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    for number in range(5):
        assert harness.log_in("li", "wrong", peer=f"2001:db8:0:1::{number}").status_code == 401
    _throttled(harness.log_in("li", peer="2001:db8:0:1:ffff::"), 300)
    body = {"username": "li", "password": PASSWORD}
    elsewhere = harness.ask("POST", f"{V1}/login", json=body, peer="2001:db8:0:2::1")
    assert _slowly(harness, elsewhere)[0].status_code == 200


def test_no_stranger_keeps_a_name_locked_out_but_everyone_is_slowed_down(any_harness: Harness) -> None:
    harness = any_harness
    harness.add_user("li", password=PASSWORD)

    def ask(password: str, peer: str) -> Ask:
        body = {"username": "li", "password": password}
        return harness.ask("POST", f"{V1}/login", json=body, peer=peer)

    waits = []
    for number in range(20):
        answer, seconds = _slowly(harness, ask("wrong", f"203.0.113.{number}"))
        assert answer.status_code == 401
        waits.append(seconds)
    assert waits == [0.0] * 5 + [0.5, 1.0, 2.0, 4.0] + [5.0] * 11
    answer, seconds = _slowly(harness, ask(PASSWORD, "198.51.100.4"))
    assert (answer.status_code, seconds) == (200, 5.0)
    answer, seconds = _slowly(harness, ask(PASSWORD, "198.51.100.5"))
    assert (answer.status_code, seconds) == (200, 0.0)


def test_a_log_in_is_never_held_back_until_its_request_times_out(open_harness: OpenHarness) -> None:
    harness = open_harness(login_attempts=1, request_timeout_seconds=2.0)
    harness.add_user("li", password=PASSWORD)
    wrong, right = ({"username": "li", "password": each} for each in ("wrong", PASSWORD))
    for number in range(5):
        _slowly(harness, harness.ask("POST", f"{V1}/login", json=wrong, peer=f"203.0.113.{number}"))
    answer, seconds = _slowly(harness, harness.ask("POST", f"{V1}/login", json=right, peer="198.51.100.4"))
    assert (answer.status_code, seconds) == (200, 1.0)


def test_this_machine_is_not_paused_by_address(harness: Harness) -> None:
    harness.add_user("li", password=PASSWORD)
    for number in range(8):
        assert harness.log_in(f"guess-{number}", "wrong").status_code == 401
    assert harness.log_in("li").status_code == 200


def test_the_settings_say_how_many_attempts_and_how_long(open_harness: OpenHarness) -> None:
    harness = open_harness(login_attempts=2, login_window_seconds=30)
    assert [harness.log_in("li", "wrong").status_code for _ in range(2)] == [401, 401]
    _throttled(harness.log_in("li", "wrong"), 30)


@pytest.mark.parametrize("host", ["[", "[::1", "a]b", ""])
def test_a_host_header_that_is_no_host_does_not_disturb_the_log_in(harness: Harness, host: str) -> None:
    harness.add_user("li", password=PASSWORD)
    assert harness.log_in("li", headers={"Host": host}).status_code == 200
