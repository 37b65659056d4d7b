"""The trace id: on every answer, in bodies and in the log line, and the caller's own if it has one."""

import logging
import re

import pytest
from tests.api.lab import V1, Lab

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
def test_every_answer_has_one_of_its_own(shared_lab: Lab, method: str, path: str, status: int) -> None:
    answers = [shared_lab.request(method, path) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, status]
    ids = [answer.headers["X-Trace-Id"] for answer in answers]
    assert ids[0] != ids[1]
    assert all(HEX.fullmatch(trace_id) for trace_id in ids)


@pytest.mark.parametrize(("method", "path", "status"), EVERY_KIND)
def test_the_callers_own_is_taken(shared_lab: Lab, method: str, path: str, status: int) -> None:
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    answer = shared_lab.request(method, path, headers=headers)
    assert (answer.status_code, answer.headers["X-Trace-Id"]) == (status, TRACE)


def test_the_body_of_an_error_shows_the_same(shared_lab: Lab) -> None:
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    assert shared_lab.get(f"{V1}/me", headers=headers).json()["error"]["traceId"] == TRACE
    assert shared_lab.get("/api/workloads/x", headers=headers).json()["traceId"] == TRACE


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
def test_one_that_is_malformed_is_ignored(shared_lab: Lab, traceparent: str) -> None:
    answer = shared_lab.get("/healthz", headers={"traceparent": traceparent})
    assert answer.status_code == 200
    assert answer.headers["X-Trace-Id"] != TRACE
    assert HEX.fullmatch(answer.headers["X-Trace-Id"])


def test_a_later_version_may_say_more(shared_lab: Lab) -> None:
    headers = {"traceparent": f"01-{TRACE}-b7ad6b7169203331-01-more"}
    assert shared_lab.get("/healthz", headers=headers).headers["X-Trace-Id"] == TRACE


def test_the_log_line_has_it_and_no_query(shared_lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="stoker.access"):
        answer = shared_lab.get(f"{V1}/me?password=secret", as_="viewer", headers={"Cookie": "c=secret"})
    (record,) = caplog.records
    assert record.getMessage() == f"GET {V1}/me 200"
    assert vars(record)["trace_id"] == answer.headers["X-Trace-Id"]
    assert (vars(record)["actor"], vars(record)["address"]) == ("viewer", "127.0.0.1")
    assert "secret" not in str(vars(record))
