"""Commands on existing workloads: name resolution, output, and the result for each."""

import json

import httpx
import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import (
    MANAGEMENT_PATH,
    FakeServer,
    counted,
    detail,
    management_problem,
    problem,
    user,
    workload,
)

A, B = "train-b2c4d", "eval-x5z6q"
STORED_LOGS = {
    "workloadId": A,
    "podId": f"{A}-0",
    "namespace": "default",
    "logs": ["2026-01-15T10:30:00.000Z one", "2026-01-15T10:30:00.001Z "],
}


@pytest.fixture(autouse=True)
def _poll_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.follow.POLL_SECONDS_WITHOUT_EVENTS", 0.01)


def known(*rows: dict[str, object], **answers: object) -> FakeServer:
    standard = {f"GET {MANAGEMENT_PATH}": (200, counted(*rows)), f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A))}
    return FakeServer(standard | answers)  # pyrefly: ignore[bad-argument-type]


def test_a_workload_is_found_by_a_name_that_only_it_has(stoker: RunStoker) -> None:
    server = known(workload(A), workload("train-2-x5z6q"))
    assert json.loads(stoker("describe", "train", "--json", server=server).stdout) == detail(A)
    assert server.asked_for("GET", MANAGEMENT_PATH)[0].url.params["workloadId"] == "train"


def test_a_description_has_the_pods_and_where_the_service_answers(stoker: RunStoker) -> None:
    port = {"name": "http", "port": 30080, "targetPort": 8000, "protocol": "TCP"}
    service = {"serviceName": A, "clusterIP": "10.0.0.7", "ports": [port]}
    shown = stoker("describe", A, server=known(**{f"GET {MANAGEMENT_PATH}/{A}/service": (200, service)})).stdout
    assert "\nService\n  10.0.0.7:30080 (TCP), to port 8000 of the replicas\n" in shown
    assert f"\nPods\nPOD            PHASE    NODE\n{A}-0  Running  n1\n" in shown
    assert "\nPlace in queue    -\n" in shown
    assert "Service" not in stoker("describe", A, server=known()).stdout
    down = {
        f"GET {MANAGEMENT_PATH}/{A}/service": (503, management_problem("Stoker.00007", "The cluster does not answer."))
    }
    assert "\nService\n  The cluster does not answer.\n" in stoker("describe", A, server=known(**down)).stdout


def test_a_name_that_several_have_is_refused_with_their_ids(stoker: RunStoker) -> None:
    failed = stoker("describe", "train", server=known(workload(A), workload("train-x5z6q")))
    assert failed.exit_code == 2
    assert f'There are 2 workloads with the name "train": {A}, train-x5z6q.' in failed.stderr


def test_an_image_that_was_not_used_is_not_described(stoker: RunStoker) -> None:
    said = {"type": "Queued", "status": "True", "lastTransitionTime": "", "reason": "ImageNotUsed", "message": "so"}
    unused = known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, image="pytorch:2.0", conditions=[said]))})
    assert "pytorch:2.0" not in stoker("describe", A, server=unused).stdout
    used = known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, image="pytorch:2.0"))})
    assert "pytorch:2.0" in stoker("describe", A, server=used).stdout


def test_what_is_not_there_is_answered_with_the_nearest(stoker: RunStoker) -> None:
    failed = stoker("describe", "trian", server=known(workload(A), workload(B)))
    assert failed.exit_code == 3
    assert failed.stderr == (
        f'Error: There is no workload "trian", or you may not see it.\nDid you mean {A}?\nNext: stoker list\n'
    )


@pytest.mark.parametrize("verb", ["wait", "stop", "delete", "clone", "suspend", "resume", "rollback"])
def test_when_none_is_named_the_newest_are(stoker: RunStoker, verb: str) -> None:
    failed = stoker(verb, server=known(workload(A), workload(B)))
    assert failed.exit_code == 2
    assert failed.stderr == f"Error: Say which workload.\nThe newest: {A}, {B}.\nNext: stoker list\n"


ME = {"user": user("li.wei"), "workspaces": [], "credential": "session", "scopes": [], "csrfToken": None}


@pytest.mark.parametrize("verb", ["describe", "explain", "logs"])
def test_a_verb_that_only_looks_takes_the_newest_of_the_caller_and_says_so(stoker: RunStoker, verb: str) -> None:
    explanation = {
        "workloadId": A,
        "phase": "Running",
        "reason": {"code": "", "sentence": ""},
        "order": 0,
        "ahead": {"gpu": "0", "cpu": "0", "memory": "0"},
        "blocking": [],
        "edits": [],
    }
    server = known(workload(A), **{"GET /me": (200, ME), f"GET /workloads/{A}/explain": (200, explanation)})
    server.answers[f"GET {MANAGEMENT_PATH}/{A}/pods/{A}-0/logs"] = (200, {**STORED_LOGS, "podId": f"{A}-0"})
    done = stoker(verb, server=server)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"{A} is the newest of your workloads.\n"
    asked = server.asked_for("GET", MANAGEMENT_PATH)[0].url.params
    assert (asked["userId"], asked["limit"], asked["sortBy"], asked["order"]) == (
        "id-of-li.wei",
        "1",
        "create_time",
        "desc",
    )


def test_a_caller_without_workloads_is_told_so(stoker: RunStoker) -> None:
    failed = stoker("describe", server=known(**{"GET /me": (200, ME)}))
    assert failed.exit_code == 3
    assert failed.stderr.startswith("Error: You have no workloads.\n")


def test_several_are_one_request_and_names_among_them_a_second(stoker: RunStoker) -> None:
    missing = {"workloadId": "train", **management_problem("Stoker.00005", 'There is no workload "train".')}
    answers: list[object] = [(207, {"succeeded": [B], "failed": [missing]}), (204, None)]
    server = known(workload(A), **{f"POST {MANAGEMENT_PATH}/stop": answers})
    done = stoker("stop", B, "train", B, server=server)
    assert (done.exit_code, done.stdout) == (0, f"Asked {B} to stop.\nAsked {A} to stop.\n")
    assert server.bodies() == [{"workloadIds": [B, "train"]}, {"workloadIds": [A]}]


def test_each_failure_is_told_and_the_first_is_the_exit_code(stoker: RunStoker) -> None:
    failed = [
        {"workloadId": B, **management_problem("Stoker.00003", "Not allowed: workload.delete.")},
        {"workloadId": "no", **management_problem("Stoker.00005", 'There is no workload "no".')},
    ]
    server = known(**{f"POST {MANAGEMENT_PATH}/delete": (207, {"succeeded": [A], "failed": failed})})
    done = stoker("delete", A, B, "no", "--yes", server=server)
    assert (done.exit_code, done.stdout) == (3, f"Deleted {A}.\n")
    assert f"Error: {B}: Not allowed: workload.delete.\n" in done.stderr
    assert 'There is no workload "no"' in done.stderr


def test_a_batch_is_data_for_a_program(stoker: RunStoker) -> None:
    server = known(**{f"POST {MANAGEMENT_PATH}/stop": (204, None)})
    assert json.loads(stoker("stop", A, "--json", server=server).stdout) == {
        "succeeded": [A],
        "failed": [],
        "clones": [],
        "unchanged": [],
    }


def test_a_stop_of_what_has_ended_says_so(stoker: RunStoker) -> None:
    unchanged = httpx.Response(204, headers={"X-Unchanged-Workload-Ids": f"{A},{B}"})
    server = known(
        **{
            f"POST {MANAGEMENT_PATH}/stop": unchanged,
            f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, "Succeeded")),
            f"GET {MANAGEMENT_PATH}/{B}": (200, detail(B, "Running")),
        }
    )
    done = stoker("stop", A, B, "other", server=server)
    assert done.exit_code == 0
    assert done.stdout == f"{A} had ended already: Succeeded.\n{B} is stopping already.\nAsked other to stop.\n"


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ((), {}),
        (("--grace", "2m"), {"gracePeriodSeconds": 120}),
        (("--now",), {"gracePeriodSeconds": 0}),
        (("--grace", "0"), {"gracePeriodSeconds": 0}),
    ],
)
def test_a_stop_sends_the_grace_that_is_given(
    stoker: RunStoker, words: tuple[str, ...], sent: dict[str, object]
) -> None:
    server = known(**{f"POST {MANAGEMENT_PATH}/stop": (204, None)})
    assert stoker("stop", A, *words, server=server).exit_code == 0
    assert server.bodies() == [{"workloadIds": [A], **sent}]


def test_a_stop_that_waits_ends_when_the_workload_has(stoker: RunStoker) -> None:
    stopped = (200, detail(A, "Stopped", message="stopped by li.wei"))
    server = known(
        **{f"POST {MANAGEMENT_PATH}/stop": (204, None), f"GET {MANAGEMENT_PATH}/{A}": [(200, detail(A)), stopped]}
    )
    done = stoker("stop", A, "--wait", server=server)
    assert (done.exit_code, done.stdout) == (0, f"Asked {A} to stop.\n{A}: Stopped: stopped by li.wei\n")


def test_a_stop_does_not_wait_for_a_cluster_that_no_server_drives(stoker: RunStoker) -> None:
    sentence = 'No server drives cluster "demo". The stop is recorded and takes place when a server drives it.'
    explanation = {
        "workloadId": A,
        "phase": "Stopping",
        "order": 0,
        "ahead": {"gpu": "0", "cpu": "0", "memory": "0"},
        "reason": {"code": "not_driven", "sentence": sentence},
        "blocking": [],
        "edits": [],
    }
    server = known(**{f"POST {MANAGEMENT_PATH}/stop": (204, None), f"GET /workloads/{A}/explain": (200, explanation)})
    failed = stoker("stop", A, "--wait", server=server)
    assert (failed.exit_code, failed.stdout) == (1, f"Asked {A} to stop.\n")
    assert failed.stderr == f"Error: {A}: {sentence}\n"


def test_a_grace_and_now_do_not_go_together(stoker: RunStoker) -> None:
    server = known()
    failed = stoker("stop", A, "--grace", "5s", "--now", server=server)
    assert (failed.exit_code, server.asked) == (2, [])


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("resume", f"Resumed {A}.\n"),
        ("suspend", f"Asked {A} to stop until it is resumed.\n"),
        ("rollback", f"Rolling {A} back.\n"),
    ],
)
def test_a_resume_a_suspend_or_a_rollback_is_told_of_one_by_one(stoker: RunStoker, verb: str, said: str) -> None:
    refused = (409, problem("conflict", f'"{B}" has ended.'))
    server = known(**{f"POST /workloads/{A}/{verb}": (204, None), f"POST /workloads/{B}/{verb}": refused})
    done = stoker(verb, A, B, server=server)
    assert (done.exit_code, done.stdout, done.stderr) == (1, said, f'Error: "{B}" has ended.\n')


def test_a_list_is_filtered_by_the_server_and_says_when_it_is_cut(stoker: RunStoker) -> None:
    server = FakeServer({f"GET {MANAGEMENT_PATH}": (200, counted(workload(A), total=7))})
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
    server = known(**{f"GET {MANAGEMENT_PATH}/{A}": ended, f"GET /workloads/{A}/explain": (200, explanation)})
    assert stoker("explain", A, server=server).stdout == f"{A} is Succeeded: every pod exited with code 0\n"


def test_amounts_in_an_explanation_have_their_units(stoker: RunStoker) -> None:
    blocking = {"workloadId": B, "phase": "Running", "why": "holds", "guaranteedUntil": None}
    explanation = {
        "workloadId": A,
        "phase": "Pending",
        "reason": {"code": "no_room", "sentence": "There is no room."},
        "order": 2,
        "ahead": {"gpu": "1", "cpu": "100m", "memory": "64Gi"},
        "blocking": [{**blocking, "resource": {"gpu": "500m", "cpu": "1500m", "memory": "1536Mi"}}],
        "edits": [],
    }
    server = known(
        **{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, "Pending")), f"GET /workloads/{A}/explain": (200, explanation)}
    )
    lines = stoker("explain", A, server=server).stdout.splitlines()
    assert lines[1] == "Its place in the queue is 2; before it others ask for 1 GPU, 0.1 CPU, 64 GiB of memory."
    assert " ".join(lines[5].split()) == f"{B} Running 0.5 1.5 1.5 GiB holds"


def test_a_description_has_the_gpus_of_all_replicas(stoker: RunStoker) -> None:
    def gpus(**asked: object) -> str:
        resource = {"cpu": "100m", "memory": "1Gi", **asked}
        shown = stoker(
            "describe", A, server=known(**{f"GET {MANAGEMENT_PATH}/{A}": (200, detail(A, resource=resource))})
        ).stdout
        assert "\nCPU               0.1\n" in shown
        return next(line for line in shown.splitlines() if line.startswith("GPU ")).split(maxsplit=1)[1]

    assert gpus(gpu="8", replica=4) == "32 (8 for each replica)"
    assert gpus(gpu="8", replica=1) == "8"


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
                "resource": {"gpu": "4", "cpu": "1", "memory": "64Gi"},
                "guaranteedUntil": "2026-01-15T10:30:00.000Z",
            }
        ],
        "edits": [
            {"sentence": "Ask for 4 GPUs.", "patch": {"gpu": "4", "replica": 2, "specifiedNodes": ["n 1", "n2"]}}
        ],
    }
    waits = (200, detail(A, "Pending"))
    server = known(**{f"GET {MANAGEMENT_PATH}/{A}": waits, f"GET /workloads/{A}/explain": (200, explanation)})
    lines = stoker("explain", A, server=server).stdout.splitlines()
    assert lines[0] == f"{A} is Pending: Needs 8 GPUs on one node; the only node has 4."
    assert lines[1] == "Its place in the queue is 3; before it others ask for 12 GPUs, 96 CPUs."
    assert lines[5].split()[:6] == [B, "Running", "4", "1", "64", "GiB"]
    assert lines[5].endswith("holds, guaranteed until 2026-01-15T10:30:00Z")
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
        "ahead": {"gpu": "0", "cpu": "0", "memory": "0"},
        "blocking": [],
        "edits": [{"sentence": "Do it.", "patch": patch}],
    }
    server = known(**{f"GET /workloads/{A}/explain": (200, explanation), f"PATCH {MANAGEMENT_PATH}/{A}": (204, None)})
    words = stoker("explain", A, server=server).stdout.splitlines()[-1].split()
    assert words == ["stoker", "patch", A, *flags]
    assert stoker(*words[1:], server=server).exit_code == 0
    assert server.bodies() == [patch]


def test_a_patch_sends_what_is_given(stoker: RunStoker) -> None:
    server = known(**{f"PATCH {MANAGEMENT_PATH}/{A}": (204, None)})
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
    server = known(**{f"GET {MANAGEMENT_PATH}/{A}": [(200, detail(A, "Pending")), (200, detail(A, phase))]})
    done = stoker("wait", A, "--for", until, server=server)
    assert (done.exit_code, done.stdout) == (code, f"{A}: {phase}\n")


def test_a_wait_that_takes_too_long_says_how_to_find_out_why(stoker: RunStoker) -> None:
    failed = stoker("wait", A, "--timeout", "0", server=known())
    assert failed.exit_code == 1
    assert failed.stderr.endswith(f"Error: {A} is still not ended.\nNext: stoker explain {A}\n")
