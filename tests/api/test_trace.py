"""The trace id: on every answer, in bodies and in the log line, and the caller's own if it has one."""

import logging
import re

import pytest
from tests.api.harness import V1, Harness

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEX = re.compile(r"[0-9a-f]{32}")
EVERY_KIND = [
    ("GET", "/healthz", 200),
    ("GET", "/docs", 200),
    ("GET", "/docs/swagger-ui.css", 200),
    ("GET", "/openapi.json", 200),
    ("GET", "/metrics", 200),
    ("GET", f"{V1}/me", 401),
    ("POST", f"{V1}/login", 400),
    ("GET", "/nothing", 404),
    ("GET", "/api/workloads/absent", 404),
    ("DELETE", "/healthz", 405),
    ("POST", "/api/v1/token", 400),
    ("HEAD", "/healthz", 200),
]


@pytest.mark.parametrize(("method", "path", "status"), EVERY_KIND)
def test_every_answer_has_one_of_its_own(shared_harness: Harness, method: str, path: str, status: int) -> None:
    answers = [shared_harness.request(method, path) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, status]
    ids = [answer.headers["X-Trace-Id"] for answer in answers]
    assert ids[0] != ids[1]
    assert all(HEX.fullmatch(trace_id) for trace_id in ids)


@pytest.mark.parametrize(("method", "path", "status"), EVERY_KIND)
def test_the_callers_own_is_taken(shared_harness: Harness, method: str, path: str, status: int) -> None:
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    answer = shared_harness.request(method, path, headers=headers)
    assert (answer.status_code, answer.headers["X-Trace-Id"]) == (status, TRACE)


def test_the_body_of_an_error_shows_the_same(shared_harness: Harness) -> None:
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    assert shared_harness.get(f"{V1}/me", headers=headers).json()["error"]["traceId"] == TRACE
    assert shared_harness.get("/api/workloads/x", headers=headers).json()["traceId"] == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        TRACE,
        f"00-{TRACE}",
        f"00-{TRACE}-b7ad6b7169203331",
        f"00-{TRACE.upper()}-b7ad6b7169203331-01",
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"0-{TRACE}-b7ad6b7169203331-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-b7ad6b7169203331-01",
        f"00-{TRACE}-b7ad6b7169203331-01x",
        f"00-{TRACE}-b7ad6b7169203331-01\n",
        f"00-{TRACE}-b7ad6b7169203331-01-extra",
        "é" * 55,
    ],
)
def test_one_that_is_malformed_is_ignored(shared_harness: Harness, traceparent: str) -> None:
    answer = shared_harness.get("/healthz", headers={"traceparent": traceparent})
    assert answer.status_code == 200
    assert answer.headers["X-Trace-Id"] != TRACE
    assert HEX.fullmatch(answer.headers["X-Trace-Id"])


def test_a_later_version_may_say_more(shared_harness: Harness) -> None:
    headers = {"traceparent": f"01-{TRACE}-b7ad6b7169203331-01-more"}
    assert shared_harness.get("/healthz", headers=headers).headers["X-Trace-Id"] == TRACE


def test_the_log_line_has_it_and_no_query(shared_harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="stoker.access"):
        answer = shared_harness.get(f"{V1}/me?password=secret", as_="viewer", headers={"Cookie": "c=secret"})
    (record,) = caplog.records
    assert record.getMessage() == f"GET {V1}/me 200"
    assert vars(record)["trace_id"] == answer.headers["X-Trace-Id"]
    assert (vars(record)["actor"], vars(record)["address"]) == ("viewer", "127.0.0.1")
    assert "secret" not in str(vars(record))


@pytest.mark.parametrize(
    ("agent", "path", "level"),
    [
        ("stoker-cli/1.0", "/healthz", logging.DEBUG),
        ("stoker/1.0", "/healthz", logging.DEBUG),
        ("stoker-cli/1.0", "/nothing", logging.INFO),
        ("curl/8.0", "/healthz", logging.INFO),
        ("stokers-friend/1.0", "/healthz", logging.INFO),
        ("", "/healthz", logging.INFO),
    ],
)
def test_what_our_own_client_reads_is_in_the_log_at_debug_only(
    shared_harness: Harness, caplog: pytest.LogCaptureFixture, agent: str, path: str, level: int
) -> None:
    with caplog.at_level(logging.DEBUG, logger="stoker.access"):
        shared_harness.get(path, headers={"User-Agent": agent})
    [record] = [each for each in caplog.records if each.name == "stoker.access"]
    assert record.levelno == level


def test_what_our_own_client_changes_is_in_the_log(shared_harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="stoker.access"):
        shared_harness.post("/api/stoker/v1/users", as_="admin", json={}, headers={"User-Agent": "stoker-cli/1.0"})
    assert [each.levelno for each in caplog.records if each.name == "stoker.access"] == [logging.INFO]
