"""Who may read the monitoring APIs without a credential: the setting, the peer, forwarding headers and the host."""

import httpx
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import FAR, Harness, problem
from tests.api.probes import BASES, with_probes

from stoker.domain.settings.schema import MonitoringAccess

HINT = "Send the header Authorization: Bearer <API key>, or sign in with: stoker login"


def _refused(answer: httpx.Response) -> None:
    expected = problem(answer, "not_signed_in", "This needs a credential.", hint=HINT)
    assert (answer.status_code, answer.json()) == (401, expected)


@pytest.fixture(scope="module")
def watched(shared_harness: Harness) -> Harness:
    return with_probes(shared_harness)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_read(watched: Harness, peer: str) -> None:
    answer = watched.get("/metrics", peer=peer)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'stoker_build_info{version="' in answer.text


@pytest.mark.parametrize("peer", [FAR, "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "0.0.0.0", "testclient", ""])  # noqa: S104
def test_another_machine_may_not(watched: Harness, peer: str) -> None:
    _refused(watched.get("/metrics", peer=peer))


def test_another_machine_may_with_a_credential(watched: Harness) -> None:
    assert watched.get("/metrics", peer=FAR, as_="nobody").status_code == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "127.0.0.1", "localhost", "LocalHost:9", "[::1]:8080", "[::1]", "127.1.2.3:80"]
)
def test_a_host_of_this_machine_is_taken(watched: Harness, host: str) -> None:
    assert watched.get("/metrics", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("", "stoker.example.com", "localhost.example.com", "127.0.0.1.example.com", "127.0.0.1@evil.example"),
        *("10.0.0.1:8080", "[2001:db8::1]:80", "[", "localhost:80:80", "0.0.0.0"),  # noqa: S104
    ],
)
def test_a_host_of_another_name_is_refused_against_dns_rebinding(watched: Harness, host: str) -> None:
    _refused(watched.get("/metrics", headers={"Host": host}))


@pytest.mark.parametrize(
    "header",
    ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "x-forwarded-anything", "X-Real-IP"],
)
def test_what_a_proxy_forwards_does_not_come_from_this_machine(watched: Harness, header: str) -> None:
    _refused(watched.get("/metrics", headers={header: "127.0.0.1"}))
    _refused(watched.get("/metrics", headers={header: ""}))


def test_a_trusted_proxy_does_not_make_its_clients_local(open_harness: OpenHarness) -> None:
    harness = open_harness(trusted_proxies=("10.0.0.0/8",))
    _refused(harness.get("/metrics", peer="10.0.0.5", headers={"X-Forwarded-For": "127.0.0.1"}))


def test_a_bad_credential_is_refused_even_where_none_is_needed(watched: Harness) -> None:
    assert watched.get("/metrics", bearer="sk-stoker-wrong").status_code == 401


def test_a_head_request_is_let_in_like_a_get(watched: Harness) -> None:
    assert watched.request("HEAD", "/metrics").status_code == 200
    assert watched.request("HEAD", "/metrics", peer=FAR).status_code == 401


def test_the_monitoring_families_follow_the_setting(watched: Harness) -> None:
    for family in ("monitoring", "aggregation"):
        path = f"{BASES[family]}/monitored"
        assert watched.get(path).status_code == 200
        assert watched.get(path, peer=FAR).status_code == 401
        assert watched.get(path, peer=FAR, as_="nobody").status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Host": "stoker.example.com"}, {"X-Forwarded-For": "198.51.100.7"}])
@pytest.mark.parametrize("peer", ["127.0.0.1", FAR])
def test_open_lets_everyone_read(open_harness: OpenHarness, peer: str, headers: dict[str, str]) -> None:
    harness = open_harness(monitoring_access=MonitoringAccess.OPEN)
    assert harness.get("/metrics", peer=peer, headers=headers).status_code == 200


@pytest.mark.parametrize("peer", ["127.0.0.1", FAR])
def test_authenticated_lets_in_whoever_has_signed_in(open_harness: OpenHarness, peer: str) -> None:
    harness = open_harness(monitoring_access=MonitoringAccess.AUTHENTICATED)
    _refused(harness.get("/metrics", peer=peer))
    assert harness.get("/metrics", peer=peer, as_="admin").status_code == 200


@pytest.mark.parametrize("access", list(MonitoringAccess))
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
def test_health_and_docs_are_open_whatever_the_setting(
    open_harness: OpenHarness, access: MonitoringAccess, path: str
) -> None:
    assert open_harness(monitoring_access=access).get(path, peer=FAR).status_code == 200


def test_openmetrics_is_given_to_who_asks_for_it(watched: Harness) -> None:
    answer = watched.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


def test_requests_are_counted_by_route_and_never_by_path(watched: Harness) -> None:
    for path in ("/api/stoker/v1/users/one", "/api/stoker/v1/users/two", "/nothing/one", "/nothing/two"):
        watched.get(path, as_="admin")
    text = watched.get("/metrics").text
    line = 'stoker_http_requests_total{family="native",method="GET",route="/api/stoker/v1/users/{name}",status="404"}'
    assert f"{line} 2.0" in text
    assert "/nothing" not in text
    assert "users/one" not in text


def test_a_path_that_leaves_out_the_uid_says_so(watched: Harness) -> None:
    for path in ("/api/workloads/", "/api/workloads//hierarchy", "/api/workloads//metrics?start=1&end=2"):
        answer = watched.get(path)
        assert (answer.status_code, answer.json()["code"]) == (400, 400)
        assert answer.json()["message"] == "workloadUid is required"
    assert watched.get("/api/custom/workloads//service", as_="admin").status_code == 404
