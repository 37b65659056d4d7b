"""PATCH of pending workloads, and requests that are refused as a whole."""

from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import WAIT, QueueHarness, encoded

from stoker.domain.workload.events import Dispatched, PodsFinished, PodsReady, StopRequested

pytestmark = pytest.mark.slow

SAYS = f"echo v=$V; {WAIT}"


def patched(harness: QueueHarness, ref: str, as_: str = "member", /, **fields: Any) -> None:
    answer = harness.patch(f"{MANAGEMENT_PATH}/{ref}", as_=as_, json=fields)
    assert (answer.status_code, answer.content) == (204, b""), answer.text


# What waits is changed in place


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", "New description"),
        ("description", ""),
        ("priority", 1),
        ("preemptible", True),
        ("timeout", 7200),
        ("timeout", 0),
        ("maxRetry", 50),
        ("image", "harbor.example.com/ai/pytorch:2.1"),
        ("specifiedNodes", ["node-002"]),
    ],
)
def test_a_waiting_workload_is_changed_in_place(queue: QueueHarness, field: str, value: Any) -> None:
    ref = queue.submit(timeout=60, description="before")
    before = queue.detail(ref)
    patched(queue, ref, **{field: value})
    shown = queue.detail(ref)
    same = {name for name in before if name not in {field, "conditions", "schedulerOrder", "secondsUntilTimeout"}}
    assert shown[field] == value
    assert {name: shown[name] for name in same} == {name: before[name] for name in same}
    assert shown["phase"] == "Pending"


@pytest.mark.parametrize(("field", "value"), [("cpu", "2"), ("gpu", "4"), ("memory", "2Gi"), ("replica", 3)])
def test_the_size_of_a_waiting_workload_is_changed_in_place(queue: QueueHarness, field: str, value: Any) -> None:
    ref = queue.submit()
    before = queue.detail(ref)["resource"]
    patched(queue, ref, **{field: value})
    assert queue.detail(ref)["resource"] == {**before, field: value}
    assert queue.row(ref)["resource"] == {**before, field: value}


def test_the_script_is_sent_encoded_and_shown_decoded(queue: QueueHarness) -> None:
    ref = queue.submit()
    patched(queue, ref, entryPoint=encoded("python other.py"))
    assert queue.detail(ref)["entryPoint"] == "python other.py"


def test_variables_are_merged_and_null_takes_one_away(queue: QueueHarness) -> None:
    ref = queue.submit(env={"A": "1", "B": "2", "C": "3"})
    patched(queue, ref, env={"B": "two", "C": None, "D": "4", "E": None})
    assert queue.detail(ref)["env"] == {"A": "1", "B": "two", "D": "4"}
    patched(queue, ref, env={})
    assert queue.detail(ref)["env"] == {"A": "1", "B": "two", "D": "4"}


def test_named_nodes_set_the_number_of_replicas(queue: QueueHarness) -> None:
    ref = queue.submit(replica=5)
    patched(queue, ref, specifiedNodes=["node-001", "node-002"])
    assert queue.detail(ref)["resource"]["replica"] == 2
    patched(queue, ref, specifiedNodes=[])
    shown = queue.detail(ref)
    assert (shown["specifiedNodes"], shown["resource"]["replica"]) == ([], 2)
    patched(queue, ref, replica=1)
    assert queue.detail(ref)["resource"]["replica"] == 1


def test_an_empty_object_changes_nothing(queue: QueueHarness) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    patched(queue, ref)
    assert queue.inside(ref) == before


def test_a_value_that_is_already_there_changes_nothing(queue: QueueHarness) -> None:
    ref = queue.submit(env={"A": "1"}, gpu="1", timeout=60, image="python:3.11")
    before = queue.inside(ref)
    patched(queue, ref, env={"A": "1"}, gpu="1", timeout=60, priority=0, replica=1, image="python:3.11")
    assert queue.inside(ref) == before


def test_what_was_changed_is_seen_at_once_and_by_whom(queue: QueueHarness) -> None:
    ref = queue.submit()
    patched(queue, ref, "manager", gpu="2")
    assert "manager" in queue.detail(ref)["conditions"][-1]["message"]


def test_a_variable_that_is_stokers_is_noted_when_it_is_patched_in(queue: QueueHarness) -> None:
    ref = queue.submit()
    patched(queue, ref, env={"HIP_VISIBLE_DEVICES": "5"})
    shown = queue.detail(ref)
    assert shown["env"] == {"HIP_VISIBLE_DEVICES": "5"}
    [noted] = [each["message"] for each in shown["conditions"] if each["reason"] == "EnvOverridden"]
    assert "HIP_VISIBLE_DEVICES" in noted


# What is refused


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"replica": 2, "specifiedNodes": ["node-001"]}, "replica"),
        ({"replica": 0}, "replica"),
        ({"cpu": "0"}, "cpu"),
        ({"cpu": 1}, "cpu"),
        ({"memory": "lots"}, "memory"),
        ({"memory": "0"}, "memory"),
        ({"gpu": "-1"}, "gpu"),
        ({"priority": 3}, "priority"),
        ({"priority": -1}, "priority"),
        ({"preemptible": "yes"}, "preemptible"),
        ({"preemptible": None}, "preemptible"),
        ({"timeout": -1}, "timeout"),
        ({"maxRetry": 51}, "maxRetry"),
        ({"image": ""}, "image"),
        ({"image": None}, "image"),
        ({"description": None}, "description"),
        ({"entryPoint": "not base64"}, "entryPoint"),
        ({"env": {"A": 1}}, "env"),
        ({"env": None}, "env"),
        ({"specifiedNodes": ["node-003"]}, "specifiedNodes"),
        ({"specifiedNodes": ["node-001", "node-001"]}, "specifiedNodes"),
        ({"displayName": "other"}, "displayName"),
        ({"resource": {"gpu": "1"}}, "resource"),
        ({"colour": "red"}, "colour"),
        ({"readiness": {"path": "health"}}, "readiness.path"),
        ({"readiness": {"path": "/health"}}, "readiness"),
        ({"readiness": {"timeout": -1}}, "readiness.timeout"),
    ],
    ids=str,
)
def test_a_bad_field_is_named_and_nothing_is_changed(queue: QueueHarness, fields: dict[str, Any], named: str) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"description": "changed", **fields})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
    assert answer.json()["errorMessage"].startswith(named), answer.text
    assert queue.inside(ref) == before


def test_a_part_of_several_gpus_is_refused(queue: QueueHarness) -> None:
    answer = queue.patch(f"{MANAGEMENT_PATH}/{queue.submit()}", as_="member", json={"gpu": "1.5"})
    assert (answer.status_code, "gpu" in answer.json()["errorMessage"]) == (400, True)


def test_replicas_cannot_be_set_where_nodes_are_named(queue: QueueHarness) -> None:
    ref = queue.submit(specifiedNodes=["node-001"])
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"replica": 2})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
    assert answer.json()["errorMessage"].startswith("replica: ")


@pytest.mark.parametrize(
    ("fields", "number"),
    [({"gpu": "9"}, "9 GPUs"), ({"gpu": "8", "replica": 3}, "3 replicas"), ({"cpu": "300"}, "300")],
)
def test_what_can_never_fit_is_refused_as_a_whole(queue: QueueHarness, fields: dict[str, Any], number: str) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"description": "changed", **fields})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert number in answer.json()["errorMessage"]
    assert queue.inside(ref) == before


def test_what_is_over_the_quota_is_refused_too(queue: QueueHarness) -> None:
    workspace = queue.add_workspace(member="member")
    queue.add_quota(workspace, "4")
    ref = queue.submit(workspaceId=workspace, gpu="4")
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"replica": 2})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert all(number in answer.json()["errorMessage"] for number in ("8 GPUs", "4"))


def test_what_is_larger_than_the_quota_stays_preemptible(queue: QueueHarness) -> None:
    workspace = queue.add_workspace(member="member")
    queue.add_quota(workspace, "4")
    ref = queue.submit(workspaceId=workspace, gpu="8", preemptible=True)
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"preemptible": False})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    patched(queue, ref, preemptible=False, gpu="4")
    assert queue.detail(ref)["preemptible"] is False


def test_the_highest_priority_needs_a_manager(queue: QueueHarness) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"priority": 2, "description": "changed"})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00003")
    assert queue.inside(ref) == before
    patched(queue, ref, "manager", priority=2)
    assert queue.detail(ref)["priority"] == 2
    patched(queue, ref, description="still the owner's")


@pytest.mark.parametrize(
    "events",
    [
        (Dispatched, PodsReady, lambda at: PodsFinished(at, True, "well")),
        (Dispatched, PodsReady, lambda at: PodsFinished(at, False, "badly")),
        (lambda at: StopRequested(at, "member"),),
    ],
    ids=["Succeeded", "Failed", "Stopped"],
)
@pytest.mark.parametrize("fields", [{"description": "x"}, {"gpu": "1"}, {}], ids=str)
def test_what_has_ended_is_not_changed(queue: QueueHarness, events: tuple[Any, ...], fields: dict[str, Any]) -> None:
    ref = queue.submit()
    queue.go(ref, *events)
    before = queue.inside(ref)
    answer = queue.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json=fields)
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "Stoker.00010")
    assert queue.inside(ref) == before
