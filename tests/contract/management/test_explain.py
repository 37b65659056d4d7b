"""What `explain` suggests is a PATCH that its reader may send; asking costs a plan only where something has changed."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH, V1
from tests.contract.management.harness import WAIT, QueueHarness, RunningHarness, big_node

from stoker.domain.workload.placement import ClusterState
from stoker.scheduler import Planner
from stoker.scheduler.model import Snapshot
from stoker.services.workloads import plan_cache
from stoker.store.db.base import T, Transaction, TransactionFn


def test_every_edit_that_is_suggested_can_be_made_by_whom_it_is_suggested_to(harness: QueueHarness) -> None:
    harness.add_nodes(big_node("node-001"))
    workspace = harness.add_workspace(member="member", manager="manager")
    harness.add_quota(workspace, "4")
    harness.submit("manager", workspaceId=workspace, gpu="4", priority=1)
    harness.clock.advance(seconds=1)
    waiting = harness.submit(workspaceId=workspace, gpu="2")

    def suggested(as_: str) -> list[dict[str, Any]]:
        told = harness.get(f"/api/stoker/v1/workloads/{waiting}/explain", as_=as_)
        return [edit["patch"] for edit in told.json()["edits"]]

    assert suggested("member") == [{"preemptible": True}]
    assert suggested("manager") == [{"preemptible": True}, {"priority": 2}]
    assert harness.patch(f"{MANAGEMENT_PATH}/{waiting}", as_="member", json=suggested("member")[0]).status_code == 204
    assert harness.get(f"/api/stoker/v1/workloads/{waiting}/explain", as_="member").json()["edits"] == []


def test_one_that_waits_for_a_guaranteed_place_is_told_until_when_and_then_gets_it(works: RunningHarness) -> None:
    workspace = works.add_workspace(manager="manager")
    works.add_quota(workspace, "1")
    path = f"{V1}/workspaces/{workspace}"
    assert works.patch(path, as_="admin", json={"guaranteedSeconds": 3}).status_code == 200
    low = works.submit("manager", workspaceId=workspace, gpu="1", run=WAIT, preemptible=True)
    until = works.running(low)["guaranteedUntil"]
    high = works.submit("manager", workspaceId=workspace, gpu="1", priority=1, run=WAIT)
    assert works.detail(high)["guaranteedUntil"] == ""
    told = works.get(f"{V1}/workloads/{high}/explain", as_="manager").json()
    [blocking] = told["blocking"]
    assert (blocking["workloadId"], blocking["why"], blocking["guaranteedUntil"]) == (low, "holds", until)
    works.running(high)
    shown = works.detail(low)
    assert shown["guaranteedUntil"] == "" or shown["guaranteedUntil"] > until
    [preempted] = [each for each in shown["conditions"] if each["type"] == "Preempted"]
    assert preempted["lastTransitionTime"] >= until
    works.stop(low, high)


def explained(harness: QueueHarness, ref: str, as_: str = "member") -> dict[str, Any]:
    answer = harness.get(f"{V1}/workloads/{ref}/explain", as_=as_)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Planner]:
    """Every plan that is made to explain something."""
    made: list[Planner] = []

    def counting(snapshot: Snapshot) -> Planner:
        made.append(Planner(snapshot))
        return made[-1]

    monkeypatch.setattr(plan_cache, "Planner", counting)
    return made


def test_a_cluster_is_planned_once_for_everything_that_is_asked_until_it_changes(
    any_harness: QueueHarness, planned: list[Planner]
) -> None:
    any_harness.add_nodes(big_node("node-001"))
    workspace = any_harness.add_workspace(member="member", manager="manager")
    any_harness.add_quota(workspace, "2")
    first = any_harness.submit(workspaceId=workspace, gpu="2")
    any_harness.clock.advance(seconds=1)
    second = any_harness.submit(workspaceId=workspace, gpu="2")
    answers = [explained(any_harness, ref, as_) for ref in (first, second, second) for as_ in ("member", "manager")]
    assert len(planned) == 1
    assert answers[-1]["reason"]["code"] == "over_quota"
    changes = (
        lambda: any_harness.patch(f"{MANAGEMENT_PATH}/{second}", as_="member", json={"gpu": "1"}),
        lambda: any_harness.add_quota(workspace, "3"),
        lambda: any_harness.add_nodes(big_node("node-002")),
        lambda: any_harness.submit(workspaceId=workspace),
    )
    for number, change in enumerate(changes, start=2):
        change()
        explained(any_harness, second)
        explained(any_harness, second)
        assert len(planned) == number
    assert explained(any_harness, second)["reason"]["sentence"] == "It starts now."


def test_a_plan_is_made_anew_when_a_start_time_has_come(any_harness: QueueHarness) -> None:
    any_harness.add_nodes(big_node("node-001"))
    ref = any_harness.submit(startAfter="2026-01-15T10:31:00Z")
    assert explained(any_harness, ref)["reason"]["code"] == "not_yet"
    any_harness.clock.advance(seconds=60)
    assert explained(any_harness, ref)["reason"]["sentence"] == "It starts now."


def test_no_write_waits_for_a_look_at_the_whole_cluster(
    any_harness: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing: set[int] = set()
    store = any_harness.installation.services.workloads._context.store
    write = store.write

    async def noting(change: TransactionFn[T]) -> T:
        def noted(transaction: Transaction) -> T:
            writing.add(threading.get_ident())
            try:
                return change(transaction)
            finally:
                writing.discard(threading.get_ident())

        return await write(noted)

    looks: list[bool] = []
    read = plan_cache.read_state

    def looking(transaction: Transaction, cluster_id: str) -> ClusterState:
        looks.append(threading.get_ident() in writing)
        return read(transaction, cluster_id)

    monkeypatch.setattr(store, "write", noting)
    monkeypatch.setattr(plan_cache, "read_state", looking)
    ref = any_harness.submit(preemptible=True)
    assert any_harness.patch(f"{MANAGEMENT_PATH}/{ref}", as_="member", json={"preemptible": False}).status_code == 204
    assert any_harness.inside(ref).preemptible is False
    assert looks == [False]


def test_who_asks_too_often_for_explanations_is_told_to_wait_and_nobody_else(tmp_path: Path) -> None:
    with QueueHarness(tmp_path / "data", explain_rate_limit=2) as harness:
        harness.add_staff()
        ref = harness.submit()
        path = f"{V1}/workloads/{ref}/explain"
        answers = [harness.get(path, as_="member") for _ in range(20)]
        refused = next(each for each in answers if each.status_code != 200)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert harness.get(path, as_="manager").status_code == 200
        shown = [harness.get(f"/api/v1/workloads/{harness.inside(ref).uid}", as_="member") for _ in range(20)]
        assert {each.status_code for each in shown} == {200}
        assert shown[-1].json()["phaseMessage"]
