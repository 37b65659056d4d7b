"""PATCH of running workloads: changes in place, and changes that replace pods."""

from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import NODES, WAIT, RunningHarness, encoded
from tests.contract.management.test_patch import SAYS, patched

from stoker.domain.workload.status import NOT_YET_SCHEDULED

pytestmark = pytest.mark.slow


# What runs


def updated(works: RunningHarness, ref: str, dispatches: int) -> dict[str, Any]:
    """The workload when it runs again; Updating was to be seen, as the phase or as a condition."""
    works.until(lambda: works.detail(ref)["dispatchCount"] >= dispatches, f"dispatched {dispatches} times")
    works.until(lambda: works.detail(ref)["phase"] == "Running", "running again")
    shown = works.detail(ref)
    assert "Updating" in [each["type"] for each in shown["conditions"]]
    return shown


def test_words_of_what_runs_are_changed_in_place(works: RunningHarness) -> None:
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


def test_what_runs_on_borrowed_capacity_stays_preemptible_until_it_is_its_own(works: RunningHarness) -> None:
    workspace = works.add_workspace(member="member")
    works.add_quota(workspace, "1")
    own = works.submit(workspaceId=workspace, gpu="1", run=WAIT)
    works.running(own)
    borrower = works.submit(workspaceId=workspace, gpu="1", run=WAIT, preemptible=True)
    works.running(borrower)
    answer = works.patch(f"{MANAGEMENT_PATH}/{borrower}", as_="member", json={"preemptible": False})
    assert (answer.status_code, answer.json()["errorCode"]) == (409, "Stoker.00010")
    assert "runs over the quota of its workspace" in answer.json()["errorMessage"]
    works.stop(own)
    works.ended(own)
    patched(works, borrower, preemptible=False)
    shown = works.detail(borrower)
    assert (shown["preemptible"], shown["dispatchCount"]) == (False, 1)
    works.stop(borrower)


def test_a_timeout_that_is_set_while_it_runs_ends_it(works: RunningHarness) -> None:
    ref = works.submit(run=WAIT)
    works.running(ref)
    patched(works, ref, timeout=1)
    shown = works.ended(ref)
    assert (shown["phase"], shown["message"]) == ("Stopped", "ran longer than its timeout of 1 s")


def test_a_higher_priority_takes_effect_at_once(works: RunningHarness) -> None:
    """The head of the queue does not fit; what goes before it now does."""
    workspace = works.add_workspace(manager="manager")
    works.add_quota(workspace, "2")
    running = works.submit("manager", workspaceId=workspace, gpu="1", run=WAIT)
    works.running(running)
    head = works.submit("manager", workspaceId=workspace, gpu="2", run=WAIT)
    behind = works.submit("manager", workspaceId=workspace, gpu="1", run=WAIT)
    works.until(lambda: works.detail(behind)["message"] != NOT_YET_SCHEDULED.message, "it is told why it waits")
    assert head in works.detail(behind)["message"]
    assert [works.detail(ref)["schedulerOrder"] for ref in (head, behind)] == [1, 2]
    patched(works, behind, "manager", priority=1)
    works.reach(behind, "Running", within=5)
    works.stop(running, head, behind)


@pytest.mark.parametrize("kind", ["PyTorchJob", "Job", "Authoring"])
def test_a_gang_that_runs_is_begun_again_without_spending_a_retry(works: RunningHarness, kind: str) -> None:
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
def test_each_field_of_what_runs_replaces_its_pods(works: RunningHarness, fields: dict[str, Any]) -> None:
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


def test_a_deployment_is_replaced_pod_by_pod_and_is_never_down(works: RunningHarness) -> None:
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
def test_the_number_of_replicas_grows_and_shrinks_around_those_that_stay(works: RunningHarness, kind: str) -> None:
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


def test_changes_in_quick_succession_end_with_the_last_one(works: RunningHarness) -> None:
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


def test_a_deployment_that_grows_gets_other_gpus_and_nobody_else_gets_them(works: RunningHarness) -> None:
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


def test_a_deployment_grows_right_after_it_was_replaced(works: RunningHarness) -> None:
    ref = works.submit(kind="Deployment", run=SAYS, env={"V": "1"})
    works.running(ref)
    patched(works, ref, env={"V": "2"})
    works.reach(ref, "Running")
    patched(works, ref, replica=2)
    try:
        works.reach(ref, "Running", within=10)
    finally:
        works.stop(ref)


def test_what_never_fits_leaves_what_runs_alone(works: RunningHarness) -> None:
    ref = works.submit(run=WAIT, gpu="1")
    works.running(ref)
    before = works.inside(ref)
    answer = works.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"gpu": "9"})
    assert (answer.status_code, answer.json()["errorCode"]) == (403, "Stoker.00008")
    assert works.inside(ref) == before
    works.stop(ref)
