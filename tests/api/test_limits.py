"""Rate limits, as a caller meets them."""

import functools

import httpx
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import FAR, V1, Harness, problem

from stoker.api.http.rate_limit import RateLimiter


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bucket is refilled while a test runs."""
    monkeypatch.setattr("stoker.api.http.app.RateLimiter", functools.partial(RateLimiter, monotonic=lambda: 0.0))


def _too_many(answer: httpx.Response, limit: int) -> None:
    message = f"Too many requests: the limit is {limit} a second. Try again in a second."
    assert (answer.status_code, answer.json()) == (429, problem(answer, "too_many_requests", message))
    assert answer.headers["Retry-After"] == "1"


def _statuses(harness: Harness, count: int, **how: str) -> list[int]:
    return [harness.get(f"{V1}/me", **how).status_code for _ in range(count)]  # pyrefly: ignore[bad-argument-type]


def test_each_key_has_a_limit_of_its_own(open_harness: OpenHarness) -> None:
    harness = open_harness(key_rate_limit=3)
    harness.keys["second"] = harness.add_key("admin")["secret"]
    assert _statuses(harness, 2, as_="admin") == [200, 200]
    _too_many(harness.get(f"{V1}/me", as_="admin"), 3)
    assert _statuses(harness, 3, as_="second") == [200] * 3
    _too_many(harness.get(f"{V1}/me", as_="second", peer="198.51.100.7"), 3)


def test_the_limit_of_a_key_holds_on_this_machine_too_and_not_for_what_anyone_may_ask(
    open_harness: OpenHarness,
) -> None:
    harness = open_harness(key_rate_limit=1)
    assert _statuses(harness, 2, as_="admin") == [200, 429]
    assert harness.get("/healthz", as_="admin").status_code == 200


def test_each_address_has_a_limit_of_its_own(open_harness: OpenHarness) -> None:
    harness = open_harness(address_rate_limit=2)
    assert _statuses(harness, 2, as_="admin", peer=FAR) == [200, 200]
    _too_many(harness.get(f"{V1}/me", as_="admin", peer=FAR), 2)
    _too_many(harness.get("/healthz", peer=FAR), 2)
    _too_many(harness.get("/nothing", peer=FAR), 2)
    assert _statuses(harness, 2, as_="admin", peer="198.51.100.7") == [200, 200]


def test_the_addresses_of_an_ipv6_network_share_a_limit(open_harness: OpenHarness) -> None:
    harness = open_harness(address_rate_limit=2)
    answers = [harness.get("/healthz", peer=f"2001:db8:0:1::{number}") for number in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert harness.get("/healthz", peer="2001:db8:0:2::1").status_code == 200


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1"])
def test_this_machine_has_no_limit_by_address(open_harness: OpenHarness, peer: str) -> None:
    harness = open_harness(address_rate_limit=1)
    assert _statuses(harness, 5, as_="admin", peer=peer) == [200] * 5


def test_behind_a_trusted_proxy_each_client_has_its_own(open_harness: OpenHarness) -> None:
    harness = open_harness(address_rate_limit=1, trusted_proxies=("10.0.0.0/8",))
    first, second = {"X-Forwarded-For": "198.51.100.7"}, {"X-Forwarded-For": "198.51.100.8"}
    for headers in (first, second):
        assert harness.get("/healthz", peer="10.0.0.5", headers=headers).status_code == 200
        assert harness.get("/healthz", peer="10.0.0.5", headers=headers).status_code == 429


def test_zero_is_no_limit(open_harness: OpenHarness) -> None:
    harness = open_harness(address_rate_limit=0, key_rate_limit=0)
    assert _statuses(harness, 50, as_="admin", peer=FAR) == [200] * 50


def test_a_request_without_a_valid_credential_uses_up_nobodys_limit(open_harness: OpenHarness) -> None:
    harness = open_harness(key_rate_limit=1)
    for _ in range(5):
        assert harness.get(f"{V1}/me", bearer="sk-stoker-wrong").status_code == 401
    assert harness.get(f"{V1}/me", as_="admin").status_code == 200
