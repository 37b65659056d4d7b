"""PATCH: what changes in place, what replaces pods, and what is refused as a whole."""

from typing import Any

import pytest
from tests.api.lab import SAFE
from tests.contract.safe.lab import NODES, WAIT, QueueLab, RunningLab, big_node, encoded

from stoker.domain.events import Placed, PodsEnded, PodsUp, StopAsked

SAYS = f"echo v=$V; {WAIT}"


@pytest.fixture(scope="module")
def queue(lab: QueueLab) -> QueueLab:
    lab.add_nodes(big_node("node-001"), big_node("node-002"))
    return lab


def patched(lab: QueueLab, ref: str, as_: str = "member", /, **fields: Any) -> None:
    answer = lab.patch(f"{SAFE}/{ref}", as_=as_, json=fields)
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
def test_a_waiting_workload_is_changed_in_place(queue: QueueLab, field: str, value: Any) -> None:
    ref = queue.submit(timeout=60, description="before")
    before = queue.detail(ref)
    patched(queue, ref, **{field: value})
    shown = queue.detail(ref)
    same = {name for name in before if name not in {field, "conditions", "schedulerOrder", "secondsUntilTimeout"}}
    assert shown[field] == value
    assert {name: shown[name] for name in same} == {name: before[name] for name in same}
    assert shown["phase"] == "Pending"


@pytest.mark.parametrize(("field", "value"), [("cpu", "2"), ("gpu", "4"), ("memory", "2Gi"), ("replica", 3)])
def test_the_size_of_a_waiting_workload_is_changed_in_place(queue: QueueLab, field: str, value: Any) -> None:
    ref = queue.submit()
    before = queue.detail(ref)["resource"]
    patched(queue, ref, **{field: value})
    assert queue.detail(ref)["resource"] == {**before, field: value}
    assert queue.row(ref)["resource"] == {**before, field: value}


def test_the_script_is_sent_encoded_and_shown_decoded(queue: QueueLab) -> None:
    ref = queue.submit()
    patched(queue, ref, entryPoint=encoded("python other.py"))
    assert queue.detail(ref)["entryPoint"] == "python other.py"


def test_variables_are_merged_and_null_takes_one_away(queue: QueueLab) -> None:
    ref = queue.submit(env={"A": "1", "B": "2", "C": "3"})
    patched(queue, ref, env={"B": "two", "C": None, "D": "4", "E": None})
    assert queue.detail(ref)["env"] == {"A": "1", "B": "two", "D": "4"}
    patched(queue, ref, env={})
    assert queue.detail(ref)["env"] == {"A": "1", "B": "two", "D": "4"}


def test_named_nodes_set_the_number_of_replicas(queue: QueueLab) -> None:
    ref = queue.submit(replica=5)
    patched(queue, ref, specifiedNodes=["node-001", "node-002"])
    assert queue.detail(ref)["resource"]["replica"] == 2
    patched(queue, ref, specifiedNodes=[])
    shown = queue.detail(ref)
    assert (shown["specifiedNodes"], shown["resource"]["replica"]) == ([], 2)
    patched(queue, ref, replica=1)
    assert queue.detail(ref)["resource"]["replica"] == 1


def test_an_empty_object_changes_nothing(queue: QueueLab) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    patched(queue, ref)
    assert queue.inside(ref) == before


def test_a_value_that_is_already_there_changes_nothing(queue: QueueLab) -> None:
    ref = queue.submit(env={"A": "1"}, gpu="1", timeout=60)
    before = queue.inside(ref)
    patched(queue, ref, env={"A": "1"}, gpu="1", timeout=60, priority=0, replica=1, image="python:3.11")
    assert queue.inside(ref) == before


def test_what_was_changed_is_seen_at_once_and_by_whom(queue: QueueLab) -> None:
    ref = queue.submit()
    patched(queue, ref, "manager", gpu="2")
    assert "manager" in queue.detail(ref)["conditions"][-1]["message"]


def test_a_variable_that_is_stokers_is_noted_when_it_is_patched_in(queue: QueueLab) -> None:
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
    ],
    ids=str,
)
def test_a_bad_field_is_named_and_nothing_is_changed(queue: QueueLab, fields: dict[str, Any], named: str) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"description": "changed", **fields})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
    assert answer.json()["errorMessage"].startswith(named), answer.text
    assert queue.inside(ref) == before


def test_a_part_of_several_gpus_is_refused(queue: QueueLab) -> None:
    answer = queue.patch(f"{SAFE}/{queue.submit()}", as_="member", json={"gpu": "1.5"})
    assert (answer.status_code, "gpu" in answer.json()["errorMessage"]) == (400, True)


def test_replicas_cannot_be_set_where_nodes_are_named(queue: QueueLab) -> None:
    ref = queue.submit(specifiedNodes=["node-001"])
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"replica": 2})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "Stoker.00002")
    assert answer.json()["errorMessage"].startswith("replica: ")


@pytest.mark.parametrize(
    ("fields", "number"),
    [({"gpu": "9"}, "9 GPUs"), ({"gpu": "8", "replica": 3}, "3 replicas"), ({"cpu": "300"}, "300")],
)
def test_what_can_never_fit_is_refused_as_a_whole(queue: QueueLab, fields: dict[str, Any], number: str) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"description": "changed", **fields})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert number in answer.json()["errorMessage"]
    assert queue.inside(ref) == before


def test_what_is_over_the_quota_is_refused_too(queue: QueueLab) -> None:
    workspace = queue.add_workspace(member="member")
    queue.add_quota(workspace, "4")
    ref = queue.submit(workspaceId=workspace, gpu="4")
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"replica": 2})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert all(number in answer.json()["errorMessage"] for number in ("8 GPUs", "4"))


def test_what_is_larger_than_the_quota_stays_preemptible(queue: QueueLab) -> None:
    workspace = queue.add_workspace(member="member")
    queue.add_quota(workspace, "4")
    ref = queue.submit(workspaceId=workspace, gpu="8", preemptible=True)
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"preemptible": False})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    patched(queue, ref, preemptible=False, gpu="4")
    assert queue.detail(ref)["preemptible"] is False


def test_the_highest_priority_needs_a_manager(queue: QueueLab) -> None:
    ref = queue.submit()
    before = queue.inside(ref)
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json={"priority": 2, "description": "changed"})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00003")
    assert queue.inside(ref) == before
    patched(queue, ref, "manager", priority=2)
    assert queue.detail(ref)["priority"] == 2
    patched(queue, ref, description="still the owner's")


@pytest.mark.parametrize(
    "events",
    [
        (Placed, PodsUp, lambda at: PodsEnded(at, True, "well")),
        (Placed, PodsUp, lambda at: PodsEnded(at, False, "badly")),
        (lambda at: StopAsked(at, "member"),),
    ],
    ids=["Succeeded", "Failed", "Stopped"],
)
@pytest.mark.parametrize("fields", [{"description": "x"}, {"gpu": "1"}, {}], ids=str)
def test_what_has_ended_is_not_changed(queue: QueueLab, events: tuple[Any, ...], fields: dict[str, Any]) -> None:
    ref = queue.submit()
    queue.go(ref, *events)
    before = queue.inside(ref)
    answer = queue.patch(f"{SAFE}/{ref}", as_="member", json=fields)
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "Stoker.00010")
    assert queue.inside(ref) == before


# What runs


def updated(works: RunningLab, ref: str, dispatches: int) -> dict[str, Any]:
    """The workload when it runs again; Updating was to be seen, as the phase or as a condition."""
    works.until(lambda: works.detail(ref)["dispatchCount"] >= dispatches, f"dispatched {dispatches} times")
    works.until(lambda: works.detail(ref)["phase"] == "Running", "running again")
    shown = works.detail(ref)
    assert "Updating" in [each["type"] for each in shown["conditions"]]
    return shown


def test_words_of_what_runs_are_changed_in_place(works: RunningLab) -> None:
    ref = works.submit(run=WAIT)
    works.running(ref)
    before = [pod.uid for pod in works.pods(ref)]
    patched(works, ref, description="x", priority=1, preemptible=True, timeout=3600, maxRetry=2)
    shown = works.detail(ref)
    assert (shown["phase"], shown["dispatchCount"]) == ("Running", 1)
    assert [shown[name] for name in ("description", "priority", "timeout", "maxRetry")] == ["x", 1, 3600, 2]
    assert shown["preemptible"] is True
    assert 3590 < shown["secondsUntilTimeout"] <= 3600
    assert "Updating" not in {each["type"] for each in shown["conditions"]}
    works.stop(ref)
    assert [pod.uid for pod in works.pods(ref)] == before


def test_what_runs_on_borrowed_room_stays_preemptible_until_it_is_its_own(works: RunningLab) -> None:
    workspace = works.add_workspace(member="member")
    works.add_quota(workspace, "1")
    own = works.submit(workspaceId=workspace, gpu="1", run=WAIT)
    works.running(own)
    borrower = works.submit(workspaceId=workspace, gpu="1", run=WAIT, preemptible=True)
    works.running(borrower)
    answer = works.patch(f"{SAFE}/{borrower}", as_="member", json={"preemptible": False})
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "Stoker.00010")
    assert "borrows beyond its quota" in answer.json()["errorMessage"]
    works.stop(own)
    works.ended(own)
    patched(works, borrower, preemptible=False)
    shown = works.detail(borrower)
    assert (shown["preemptible"], shown["dispatchCount"]) == (False, 1)
    works.stop(borrower)


def test_a_timeout_that_is_set_while_it_runs_ends_it(works: RunningLab) -> None:
    ref = works.submit(run=WAIT)
    works.running(ref)
    patched(works, ref, timeout=1)
    shown = works.ended(ref)
    assert (shown["phase"], shown["message"]) == ("Stopped", "ran longer than its timeout of 1 s")


def test_a_higher_priority_takes_effect_at_once(works: RunningLab) -> None:
    """The head of the queue does not fit; what goes before it now does."""
    workspace = works.add_workspace(manager="manager")
    works.add_quota(workspace, "2")
    running = works.submit("manager", workspaceId=workspace, gpu="1", run=WAIT)
    works.running(running)
    head = works.submit("manager", workspaceId=workspace, gpu="2", run=WAIT)
    behind = works.submit("manager", workspaceId=workspace, gpu="1", run=WAIT)
    works.until(lambda: works.detail(behind)["message"] != "", "it is told why it waits")
    assert head in works.detail(behind)["message"]
    assert [works.detail(ref)["schedulerOrder"] for ref in (head, behind)] == [1, 2]
    patched(works, behind, "manager", priority=1)
    works.reach(behind, "Running", within=5)
    works.stop(running, head, behind)


@pytest.mark.parametrize("kind", ["PyTorchJob", "Job", "Authoring"])
def test_a_gang_that_runs_is_begun_again_without_spending_a_retry(works: RunningLab, kind: str) -> None:
    ref = works.submit(kind=kind, run=SAYS, env={"V": "1", "W": "w"}, maxRetry=0)
    began = works.running(ref)["startTime"]
    works.prints(ref, "v=1")
    patched(works, ref, env={"V": "2", "W": None})
    assert works.detail(ref)["phase"] == "Updating"
    shown = updated(works, ref, 2)
    assert (shown["dispatchCount"], shown["startTime"], shown["env"]) == (2, began, {"V": "2"})
    assert (len(shown["nodes"]), shown["ranks"]) == (2, [["0"], ["0"]])
    works.prints(ref, "v=2")
    assert works.inside(ref).retries == 0
    works.stop(ref)


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "other:1"},
        {"entryPoint": encoded(f"echo v=new; {WAIT}")},
        {"cpu": "200m"},
        {"gpu": "2"},
        {"memory": "512Mi"},
        {"replica": 2},
        {"specifiedNodes": list(NODES)},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_each_field_of_what_runs_replaces_its_pods(works: RunningLab, fields: dict[str, Any]) -> None:
    ref = works.submit(run=SAYS, gpu="1")
    works.running(ref)
    patched(works, ref, **fields)
    shown = updated(works, ref, 2)
    size = {name: shown["resource"].get(name, shown.get(name)) for name in fields}
    assert size == {name: "echo v=new; " + WAIT if name == "entryPoint" else value for name, value in fields.items()}
    if "specifiedNodes" in fields:
        assert shown["nodes"][1] == list(NODES)
    if shown["resource"]["replica"] == 2:
        assert shown["ranks"] == [["0"], ["0", "1"]]
        assert [pod["podId"] for pod in shown["pods"]] == [f"{ref}-master-0", f"{ref}-worker-0"]
    works.stop(ref)


def test_a_deployment_is_replaced_pod_by_pod_and_is_never_down(works: RunningLab) -> None:
    ref = works.submit(kind="Deployment", replica=2, gpu="1", run=SAYS, env={"V": "1"})
    works.running(ref)
    patched(works, ref, env={"V": "2"})
    seen = set()
    while (shown := works.detail(ref))["phase"] == "Updating":
        seen.add(sum(pod.phase == "Running" for pod in works.pods(ref)))
    assert 0 not in seen
    assert (shown["phase"], shown["dispatchCount"], shown["ranks"]) == ("Running", 1, [["0", "1"]])
    for pod in shown["pods"]:
        works.prints(ref, "v=2", pod["podId"])
    assert {pod.revision for pod in works.pods(ref) if pod.phase == "Running"} == {2}
    works.stop(ref)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_number_of_replicas_grows_and_shrinks_around_those_that_stay(works: RunningLab, kind: str) -> None:
    ref = works.submit(kind=kind, replica=1, gpu="1", run=WAIT)
    works.running(ref)
    [first] = [pod.uid for pod in works.pods(ref)]
    for replicas in (3, 1):
        patched(works, ref, replica=replicas)
        shown = works.reach(ref, "Running")
        names = [f"{ref}-{number}" for number in range(replicas)]
        assert [pod["podId"] for pod in shown["pods"]] == names
        assert {pod["phase"] for pod in shown["pods"]} == {"Running"}
        assert shown["ranks"] == [[str(number) for number in range(replicas)]]
    assert [pod.uid for pod in works.pods(ref) if pod.phase == "Running"] == [first]
    works.stop(ref)


def test_changes_in_quick_succession_end_with_the_last_one(works: RunningLab) -> None:
    ref = works.submit(kind="Deployment", replica=2, gpu="1", run=SAYS, env={"V": "0"})
    works.running(ref)
    for number in "123":
        patched(works, ref, env={"V": number})
    shown = works.reach(ref, "Running")
    for pod in shown["pods"]:
        works.prints(ref, "v=3", pod["podId"])
    for replicas in (4, 1, 2):
        patched(works, ref, replica=replicas)
    works.until(
        lambda: (
            [pod["phase"] for pod in works.detail(ref)["pods"]] == ["Running"] * 2
            and works.detail(ref)["phase"] == "Running"
        ),
        "two pods run",
    )
    works.stop(ref)


def test_a_deployment_that_grows_gets_other_gpus_and_nobody_else_gets_them(works: RunningLab) -> None:
    """Its old pod takes a while to go; until then both hold what they have."""
    slow = "trap 'sleep 0.5; exit 0' TERM; sleep 600 & wait $!"
    ref = works.submit(kind="Deployment", gpu="1", run=slow)
    works.running(ref)
    patched(works, ref, gpu="2")
    others = [works.submit(run=WAIT, gpu="1") for _ in range(16)]
    works.reach(ref, "Running")
    works.until(
        lambda: all(works.row(other)["message"] or works.row(other)["startTime"] for other in others), "planned"
    )
    assert works.held_twice() == []
    works.stop(ref, *others)


def test_a_deployment_grows_right_after_it_was_replaced(works: RunningLab) -> None:
    ref = works.submit(kind="Deployment", run=SAYS, env={"V": "1"})
    works.running(ref)
    patched(works, ref, env={"V": "2"})
    works.reach(ref, "Running")
    patched(works, ref, replica=2)
    try:
        works.reach(ref, "Running", within=3)
    finally:
        works.stop(ref)


def test_what_never_fits_leaves_what_runs_alone(works: RunningLab) -> None:
    ref = works.submit(run=WAIT, gpu="1")
    works.running(ref)
    before = works.inside(ref)
    answer = works.patch(f"{SAFE}/{ref}", as_="member", json={"gpu": "9"})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert works.inside(ref) == before
    works.stop(ref)
