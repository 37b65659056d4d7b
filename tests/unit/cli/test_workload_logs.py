"""`stoker logs`: selection, search and order of log lines."""

import json

import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import (
    MANAGEMENT_PATH,
    FakeServer,
    detail,
    log_events,
)
from tests.unit.cli.test_workloads import STORED_LOGS, A, known

LOGS = f"GET {MANAGEMENT_PATH}/{A}/pods/{A}-0/logs"


@pytest.fixture(autouse=True)
def _poll_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS_WITHOUT_EVENTS", 0.01)


def test_logs_are_the_lines_alone_unless_their_time_is_asked_for(stoker: RunStoker) -> None:
    server = known(**{LOGS: (200, STORED_LOGS)})
    assert stoker("logs", A, server=server).stdout == "one\n\n"
    assert stoker("logs", A, "--timestamps", server=server).stdout.splitlines() == STORED_LOGS["logs"]
    found = json.loads(stoker("logs", f"{A}-0", "--json", server=server).stdout)["items"]
    assert found[0] == {"pod": f"{A}-0", "attempt": 1, "at": "2026-01-15T10:30:00.000Z", "line": "one"}


def test_a_search_over_all_pods_is_one_request(stoker: RunStoker) -> None:
    line = {"pod": f"{A}-1", "attempt": 1, "at": "2026-01-15T10:30:00.000Z", "line": "Loss 3"}
    answers = {
        f"GET {MANAGEMENT_PATH}/{A}": (
            200,
            detail(A, resource={"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 2}),
        ),
        f"GET /workloads/{A}/logs": (200, {"items": [line]}),
    }
    server = known(**answers)
    assert stoker("logs", A, "--grep", "loss", "--tail", "5", server=server).stdout == f"{A}-1 | Loss 3\n"
    assert dict(server.asked[-1].url.params) == {"text": "loss", "attempt": "1", "limit": "5"}


def test_a_followed_log_ends_with_the_workload_whatever_its_end(stoker: RunStoker) -> None:
    server = known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, "Failed", message="pod p exited with code 3"))})
    server.answers[LOGS] = (200, log_events("one", "two"))
    done = stoker("logs", "-f", A, server=server)
    assert (done.exit_code, done.stdout) == (0, "one\ntwo\n")
    assert done.stderr == f"{A}: Failed: pod p exited with code 3\n"


def test_a_pod_that_the_workload_does_not_have_is_not_found(stoker: RunStoker) -> None:
    failed = stoker("logs", A, "--pod", "x", server=known())
    assert failed.exit_code == 3
    assert f"There are: {A}-0." in failed.stderr


@pytest.mark.parametrize(
    ("dispatches", "made"),
    [
        (0, "has not been dispatched yet"),
        (1, "was dispatched once, as attempt 1"),
        (3, "was dispatched 3 times, as attempts 1 to 3"),
    ],
)
def test_an_attempt_that_was_never_made_is_not_found(stoker: RunStoker, dispatches: int, made: str) -> None:
    server = known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, dispatchCount=dispatches))})
    failed = stoker("logs", A, "--attempt", "4", server=server)
    assert (failed.exit_code, failed.stderr) == (3, f"Error: There is no attempt 4: {A} {made}.\n")


def test_an_earlier_attempt_may_have_had_other_pods(stoker: RunStoker) -> None:
    line = {"pod": f"{A}-7", "attempt": 1, "at": "2026-01-15T10:30:00.000Z", "line": "early"}
    server = known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, dispatchCount=2))})
    server.answers[f"GET /workloads/{A}/logs"] = (200, {"items": [line]})
    assert stoker("logs", A, "--attempt", "1", server=server).stdout == "early\n"
    server.answers[f"GET {MANAGEMENT_PATH}/{A}/pods/{A}-7/logs"] = (200, {**STORED_LOGS, "podId": f"{A}-7"})
    assert stoker("logs", A, "--attempt", "1", "--pod", f"{A}-7", server=server).stdout == "one\n\n"


def test_what_has_not_begun_has_printed_nothing(stoker: RunStoker) -> None:
    waits = detail(A, "Pending", message="Needs 8 GPUs.")
    done = stoker("logs", A, server=known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, waits)}))
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"{A}: Pending: Needs 8 GPUs.\nNext: stoker logs -f {A}\n"


def test_an_event_is_a_line(stoker: RunStoker) -> None:
    event = {
        "seq": 3,
        "at": "2026-01-15T10:30:00.000Z",
        "workloadId": A,
        "workspace": "w",
        "kind": "phase",
        "phase": "Running",
        "reason": "PodsRunning",
        "message": "every\x1b[2J pod runs",
    }
    stream = f"id: 3\nevent: phase\ndata: {json.dumps(event)}\n\n".encode()
    server = FakeServer({"GET /events": (200, stream)})
    shown = stoker("events", "--limit", "1", server=server).stdout
    assert shown == f"2026-01-15 10:30:00Z  {A}  Running  PodsRunning  every�[2J pod runs\n"
    assert json.loads(stoker("events", "--limit", "1", "--json", server=server).stdout) == event


def test_the_schema_is_that_of_a_file_which_has_a_script_and_needs_nothing_more(stoker: RunStoker) -> None:
    create = {"type": "object", "properties": {"image": {"type": "string"}}, "required": ["image"]}
    served = {"$ref": "#/$defs/CreateWorkload", "$defs": {"CreateWorkload": create, "Other": {"type": "string"}}}
    server = FakeServer({"GET /schemas/job.json": (200, served)})
    shown = json.loads(stoker("schema", server=server).stdout)
    assert shown["$defs"]["Other"] == {"type": "string"}
    assert sorted(shown["$defs"]["CreateWorkload"]["properties"]) == ["image", "script"]
    assert shown["$defs"]["CreateWorkload"]["required"] == []
