"""The verbs on workloads that are there: which one is meant, what is shown, what became of each."""

import json

import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake import SAFE, FakeServer, counted, detail, log_events, problem, safe_problem, workload

A, B = "train-b2c4d", "eval-x5z6q"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.UNTOLD_LOOK_SECONDS", 0.01)


def known(*rows: dict[str, object], **answers: object) -> FakeServer:
    return FakeServer({f"GET {SAFE}": (200, counted(*rows)), f"GET {SAFE}/{A}": (200, detail(A)), **answers})  # pyrefly: ignore[bad-argument-type]


def test_a_workload_is_found_by_a_name_that_only_it_has(stoker: RunStoker) -> None:
    server = known(workload(A), workload("train-2-x5z6q"))
    assert json.loads(stoker("describe", "train", "--json", server=server).stdout) == detail(A)
    assert server.asked_for("GET", SAFE)[0].url.params["workloadId"] == "train"


def test_a_description_has_the_pods_and_where_the_service_answers(stoker: RunStoker) -> None:
    port = {"name": "http", "port": 30080, "targetPort": 8000, "protocol": "TCP"}
    service = {"serviceName": A, "clusterIP": "10.0.0.7", "ports": [port]}
    shown = stoker("describe", A, server=known(**{f"GET {SAFE}/{A}/service": (200, service)})).stdout
    assert "\nService\n  10.0.0.7:30080 (TCP), to port 8000 of the replicas\n" in shown
    assert f"\nPods\nPOD            PHASE    NODE\n{A}-0  Running  n1\n" in shown
    assert "\nPlace in queue    -\n" in shown
    assert "Service" not in stoker("describe", A, server=known()).stdout
    down = {f"GET {SAFE}/{A}/service": (503, safe_problem("Stoker.00007", "The cluster does not answer."))}
    assert "\nService\n  The cluster does not answer.\n" in stoker("describe", A, server=known(**down)).stdout


def test_a_name_that_several_have_is_refused_with_their_ids(stoker: RunStoker) -> None:
    failed = stoker("describe", "train", server=known(workload(A), workload("train-x5z6q")))
    assert failed.exit_code == 2
    assert f'There are 2 workloads with the name "train": {A}, train-x5z6q.' in failed.stderr


def test_what_is_not_there_is_answered_with_the_nearest(stoker: RunStoker) -> None:
    failed = stoker("describe", "trian", server=known(workload(A), workload(B)))
    assert failed.exit_code == 3
    assert failed.stderr == (
        f'Error: There is no workload "trian", or you may not see it.\nDid you mean {A}?\nNext: stoker list\n'
    )


@pytest.mark.parametrize(
    "verb", ["describe", "explain", "logs", "wait", "stop", "delete", "clone", "suspend", "resume"]
)
def test_when_none_is_named_the_newest_are(stoker: RunStoker, verb: str) -> None:
    failed = stoker(verb, server=known(workload(A), workload(B)))
    assert failed.exit_code == 2
    assert failed.stderr == f"Error: Say which workload.\nThe newest: {A}, {B}.\nNext: stoker list\n"


def test_several_are_one_request_and_names_among_them_a_second(stoker: RunStoker) -> None:
    missing = {"workloadId": "train", **safe_problem("Stoker.00005", 'There is no workload "train".')}
    answers: list[object] = [(207, {"succeeded": [B], "failed": [missing]}), (204, None)]
    server = known(workload(A), **{f"POST {SAFE}/stop": answers})
    done = stoker("stop", B, "train", B, server=server)
    assert (done.exit_code, done.stdout) == (0, f"Asked {B} to stop.\nAsked {A} to stop.\n")
    assert server.bodies() == [{"workloadIds": [B, "train"]}, {"workloadIds": [A]}]


def test_each_failure_is_told_and_the_first_is_the_exit_code(stoker: RunStoker) -> None:
    failed = [
        {"workloadId": B, **safe_problem("Stoker.00003", "Not allowed: workload.delete.")},
        {"workloadId": "no", **safe_problem("Stoker.00005", 'There is no workload "no".')},
    ]
    server = known(**{f"POST {SAFE}/delete": (207, {"succeeded": [A], "failed": failed})})
    done = stoker("delete", A, B, "no", "--yes", server=server)
    assert (done.exit_code, done.stdout) == (3, f"Deleted {A}.\n")
    assert f"Error: {B}: Not allowed: workload.delete.\n" in done.stderr
    assert 'There is no workload "no"' in done.stderr


def test_a_batch_is_data_for_a_program(stoker: RunStoker) -> None:
    server = known(**{f"POST {SAFE}/stop": (204, None)})
    assert json.loads(stoker("stop", A, "--json", server=server).stdout) == {
        "succeeded": [A],
        "failed": [],
        "clones": [],
    }


@pytest.mark.parametrize(
    ("verb", "said"), [("resume", f"Resumed {A}.\n"), ("suspend", f"Asked {A} to stop until it is resumed.\n")]
)
def test_a_resume_or_a_suspend_is_told_of_one_by_one(stoker: RunStoker, verb: str, said: str) -> None:
    refused = (409, problem("state_forbids", f'"{B}" has ended.'))
    server = known(**{f"POST /workloads/{A}/{verb}": (204, None), f"POST /workloads/{B}/{verb}": refused})
    done = stoker(verb, A, B, server=server)
    assert (done.exit_code, done.stdout, done.stderr) == (1, said, f'Error: "{B}" has ended.\n')


def test_a_list_is_filtered_by_the_server_and_says_when_it_is_cut(stoker: RunStoker) -> None:
    server = FakeServer({f"GET {SAFE}": (200, counted(workload(A), total=7))})
    words = ("--phase", "running", "--phase", "Pending", "--kind", "job", "-w", "vision", "--limit", "1")
    done = stoker("list", "tra", *words, "--sort", "gpu", "--ascending", server=server)
    asked = dict(server.asked[0].url.params)
    assert {name: value for name, value in asked.items() if value} == {
        "workloadId": "tra",
        "phase": "Running,Pending",
        "kind": "Job",
        "workspaceId": "vision",
        "sortBy": "gpu",
        "order": "asc",
        "limit": "1",
    }
    assert done.stdout.splitlines()[1].split()[:2] == [A, "Running"]
    assert done.stderr == "These are 1 of 7; --limit 0 shows all.\n"
    assert json.loads(stoker("ps", "--json", server=server).stdout) == counted(workload(A), total=7)


def test_an_explanation_calls_the_phase_what_the_list_calls_it(stoker: RunStoker) -> None:
    explanation = {
        "workloadId": A,
        "phase": "Completed",
        "reason": {"code": "", "sentence": "every pod exited with code 0"},
        "order": 0,
        "ahead": {"gpu": "0", "cpu": "0", "memory": "0"},
        "blocking": [],
        "edits": [],
    }
    ended = (200, detail(A, "Succeeded"))
    server = known(**{f"GET {SAFE}/{A}": ended, f"GET /workloads/{A}/explain": (200, explanation)})
    assert stoker("explain", A, server=server).stdout == f"{A} is Succeeded: every pod exited with code 0\n"


def test_an_explanation_ends_with_commands_to_type(stoker: RunStoker) -> None:
    explanation = {
        "workloadId": A,
        "phase": "Pending",
        "reason": {"code": "no_room", "sentence": "Needs 8 GPUs on one node; the only node has 4."},
        "order": 3,
        "ahead": {"gpu": "12", "cpu": "96", "memory": "0"},
        "blocking": [
            {
                "workloadId": B,
                "phase": "Running",
                "why": "holds",
                "resource": {"gpu": "4", "cpu": "1"},
                "guaranteedUntil": "2026-01-15T10:30:00.000Z",
            }
        ],
        "edits": [
            {"sentence": "Ask for 4 GPUs.", "patch": {"gpu": "4", "replica": 2, "specifiedNodes": ["n 1", "n2"]}}
        ],
    }
    waits = (200, detail(A, "Pending"))
    server = known(**{f"GET {SAFE}/{A}": waits, f"GET /workloads/{A}/explain": (200, explanation)})
    lines = stoker("explain", A, server=server).stdout.splitlines()
    assert lines[0] == f"{A} is Pending: Needs 8 GPUs on one node; the only node has 4."
    assert lines[1] == "Its place in the queue is 3; before it others ask for 12 GPUs, 96 CPUs."
    assert lines[5].split() == [B, "Running", "4", "1", "-", "holds,", "guaranteed", "until", "2026-01-15T10:30:00Z"]
    assert lines[-1].strip() == f"stoker patch {A} --gpu 4 --replicas 2 --node 'n 1' --node n2"
    assert json.loads(stoker("explain", A, "--json", server=server).stdout) == explanation


@pytest.mark.parametrize(
    ("patch", "flags"),
    [
        ({"preemptible": True}, ["--preemptible"]),
        ({"specifiedNodes": []}, ["--any-node"]),
        ({"priority": 1}, ["--priority", "1"]),
        ({"replica": 2}, ["--replicas", "2"]),
        ({"gpu": "500m"}, ["--gpu", "500m"]),
        ({"cpu": "2"}, ["--cpu", "2"]),
        ({"memory": "3Gi"}, ["--memory", "3Gi"]),
    ],
)
def test_every_edit_is_a_command_that_sends_it(stoker: RunStoker, patch: dict[str, object], flags: list[str]) -> None:
    explanation = {
        "workloadId": A,
        "phase": "Pending",
        "reason": {"code": "no_room", "sentence": "There is no room."},
        "order": 1,
        "ahead": {},
        "blocking": [],
        "edits": [{"sentence": "Do it.", "patch": patch}],
    }
    server = known(**{f"GET /workloads/{A}/explain": (200, explanation), f"PATCH {SAFE}/{A}": (204, None)})
    words = stoker("explain", A, server=server).stdout.splitlines()[-1].split()
    assert words == ["stoker", "patch", A, *flags]
    assert stoker(*words[1:], server=server).exit_code == 0
    assert server.bodies() == [patch]


def test_a_patch_sends_what_is_given(stoker: RunStoker) -> None:
    server = known(**{f"PATCH {SAFE}/{A}": (204, None)})
    words = ("--priority", "1", "--replicas", "2", "--timeout", "1h", "-e", "A=1", "--unset-env", "B", "--script", "x")
    assert stoker("patch", A, *words, server=server).exit_code == 0
    assert server.bodies() == [
        {"priority": 1, "timeout": 3600, "replica": 2, "entryPoint": "eA==", "env": {"A": "1", "B": None}}
    ]


@pytest.mark.parametrize(
    ("until", "phase", "code"),
    [
        ("ended", "Succeeded", 0),
        ("ended", "Failed", 1),
        ("ended", "Stopped", 1),
        ("running", "Running", 0),
        ("running", "Succeeded", 0),
        ("running", "Failed", 1),
    ],
)
def test_a_wait_ends_well_when_it_came_to_what_was_waited_for(
    stoker: RunStoker, until: str, phase: str, code: int
) -> None:
    server = known(**{f"GET {SAFE}/{A}": [(200, detail(A, "Pending")), (200, detail(A, phase))]})
    done = stoker("wait", A, "--for", until, server=server)
    assert (done.exit_code, done.stdout) == (code, f"{A}: {phase}\n")


def test_a_wait_that_takes_too_long_says_how_to_find_out_why(stoker: RunStoker) -> None:
    failed = stoker("wait", A, "--timeout", "0", server=known())
    assert failed.exit_code == 1
    assert failed.stderr.endswith(f"Error: {A} is still not ended.\nNext: stoker explain {A}\n")


LOGS = f"GET {SAFE}/{A}/pods/{A}-0/logs"
KEPT = {
    "workloadId": A,
    "podId": f"{A}-0",
    "namespace": "default",
    "logs": ["2026-01-15T10:30:00.000Z one", "2026-01-15T10:30:00.001Z "],
}


def test_logs_are_the_lines_alone_unless_their_time_is_asked_for(stoker: RunStoker) -> None:
    server = known(**{LOGS: (200, KEPT)})
    assert stoker("logs", A, server=server).stdout == "one\n\n"
    assert stoker("logs", A, "--timestamps", server=server).stdout.splitlines() == KEPT["logs"]
    found = json.loads(stoker("logs", f"{A}-0", "--json", server=server).stdout)["items"]
    assert found[0] == {"pod": f"{A}-0", "attempt": 1, "at": "2026-01-15T10:30:00.000Z", "line": "one"}


def test_a_search_over_all_pods_is_one_request(stoker: RunStoker) -> None:
    line = {"pod": f"{A}-1", "attempt": 1, "at": "2026-01-15T10:30:00.000Z", "line": "Loss 3"}
    answers = {
        f"GET {SAFE}/{A}": (200, detail(A, resource={"cpu": "1", "memory": "1Gi", "gpu": "0", "replica": 2})),
        f"GET /workloads/{A}/logs": (200, {"items": [line]}),
    }
    server = known(**answers)
    assert stoker("logs", A, "--grep", "loss", "--tail", "5", server=server).stdout == f"{A}-1 | Loss 3\n"
    assert dict(server.asked[-1].url.params) == {"text": "loss", "attempt": "1", "limit": "5"}


def test_a_followed_log_ends_with_the_workload_whatever_its_end(stoker: RunStoker) -> None:
    server = known(**{f"GET {SAFE}/{A}": (200, detail(A, "Failed", message="pod p exited with code 3"))})
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
    server = known(**{f"GET {SAFE}/{A}": (200, detail(A, dispatchCount=dispatches))})
    failed = stoker("logs", A, "--attempt", "4", server=server)
    assert (failed.exit_code, failed.stderr) == (3, f"Error: There is no attempt 4: {A} {made}.\n")


def test_an_earlier_attempt_may_have_had_other_pods(stoker: RunStoker) -> None:
    line = {"pod": f"{A}-7", "attempt": 1, "at": "2026-01-15T10:30:00.000Z", "line": "early"}
    server = known(**{f"GET {SAFE}/{A}": (200, detail(A, dispatchCount=2))})
    server.answers[f"GET /workloads/{A}/logs"] = (200, {"items": [line]})
    assert stoker("logs", A, "--attempt", "1", server=server).stdout == "early\n"
    server.answers[f"GET {SAFE}/{A}/pods/{A}-7/logs"] = (200, {**KEPT, "podId": f"{A}-7"})
    assert stoker("logs", A, "--attempt", "1", "--pod", f"{A}-7", server=server).stdout == "one\n\n"


def test_what_has_not_begun_has_printed_nothing(stoker: RunStoker) -> None:
    waits = detail(A, "Pending", message="Needs 8 GPUs.")
    done = stoker("logs", A, server=known(**{f"GET {SAFE}/{A}": (200, waits)}))
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
