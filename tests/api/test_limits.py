"""Rate limits, as a caller meets them."""

import functools

import httpx
import pytest
from tests.api.conftest import OpenLab
from tests.api.lab import FAR, V1, Lab, problem

from stoker.api.limits import RateLimit


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bucket is refilled while a test runs."""
    monkeypatch.setattr("stoker.api.app.RateLimit", functools.partial(RateLimit, monotonic=lambda: 0.0))


def _too_many(answer: httpx.Response, limit: int) -> None:
    message = f"Too many requests: the limit is {limit} a second. Try again in a second."
    assert (answer.status_code, answer.json()) == (429, problem(answer, "too_many_requests", message))
    assert answer.headers["Retry-After"] == "1"


def _statuses(lab: Lab, count: int, **how: str) -> list[int]:
    return [lab.get(f"{V1}/me", **how).status_code for _ in range(count)]  # pyrefly: ignore[bad-argument-type]


def test_each_key_has_a_limit_of_its_own(open_lab: OpenLab) -> None:
    lab = open_lab(key_rate_limit=3)
    lab.keys["second"] = lab.add_key("admin")["secret"]
    assert _statuses(lab, 2, as_="admin") == [200, 200]
    _too_many(lab.get(f"{V1}/me", as_="admin"), 3)
    assert _statuses(lab, 3, as_="second") == [200] * 3
    _too_many(lab.get(f"{V1}/me", as_="second", peer="198.51.100.7"), 3)


def test_the_limit_of_a_key_holds_on_this_machine_too_and_not_for_what_anyone_may_ask(open_lab: OpenLab) -> None:
    lab = open_lab(key_rate_limit=1)
    assert _statuses(lab, 2, as_="admin") == [200, 429]
    assert lab.get("/healthz", as_="admin").status_code == 200


def test_each_address_has_a_limit_of_its_own(open_lab: OpenLab) -> None:
    lab = open_lab(address_rate_limit=2)
    assert _statuses(lab, 2, as_="admin", peer=FAR) == [200, 200]
    _too_many(lab.get(f"{V1}/me", as_="admin", peer=FAR), 2)
    _too_many(lab.get("/healthz", peer=FAR), 2)
    _too_many(lab.get("/nothing", peer=FAR), 2)
    assert _statuses(lab, 2, as_="admin", peer="198.51.100.7") == [200, 200]


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1"])
def test_this_machine_has_no_limit_by_address(open_lab: OpenLab, peer: str) -> None:
    lab = open_lab(address_rate_limit=1)
    assert _statuses(lab, 5, as_="admin", peer=peer) == [200] * 5


def test_behind_a_trusted_proxy_each_client_has_its_own(open_lab: OpenLab) -> None:
    lab = open_lab(address_rate_limit=1, trusted_proxies=("10.0.0.0/8",))
    first, second = {"X-Forwarded-For": "198.51.100.7"}, {"X-Forwarded-For": "198.51.100.8"}
    for headers in (first, second):
        assert lab.get("/healthz", peer="10.0.0.5", headers=headers).status_code == 200
        assert lab.get("/healthz", peer="10.0.0.5", headers=headers).status_code == 429


def test_zero_is_no_limit(open_lab: OpenLab) -> None:
    lab = open_lab(address_rate_limit=0, key_rate_limit=0)
    assert _statuses(lab, 50, as_="admin", peer=FAR) == [200] * 50


def test_a_request_without_a_valid_credential_uses_up_nobodys_limit(open_lab: OpenLab) -> None:
    lab = open_lab(key_rate_limit=1)
    for _ in range(5):
        assert lab.get(f"{V1}/me", bearer="sk-stoker-wrong").status_code == 401
    assert lab.get(f"{V1}/me", as_="admin").status_code == 200
