"""What `explain` suggests is a PATCH that its reader may send."""

from typing import Any

from tests.api.lab import SAFE, V1
from tests.contract.safe.lab import WAIT, QueueLab, RunningLab, big_node


def test_every_edit_that_is_suggested_can_be_made_by_whom_it_is_suggested_to(lab: QueueLab) -> None:
    lab.add_nodes(big_node("node-001"))
    workspace = lab.add_workspace(member="member", manager="manager")
    lab.add_quota(workspace, "4")
    lab.submit("manager", workspaceId=workspace, gpu="4", priority=1)
    lab.clock.advance(seconds=1)
    waiting = lab.submit(workspaceId=workspace, gpu="2")

    def suggested(as_: str) -> list[dict[str, Any]]:
        told = lab.get(f"/api/stoker/v1/workloads/{waiting}/explain", as_=as_)
        return [edit["patch"] for edit in told.json()["edits"]]

    assert suggested("member") == [{"preemptible": True}]
    assert suggested("manager") == [{"preemptible": True}, {"priority": 2}]
    assert lab.patch(f"{SAFE}/{waiting}", as_="member", json=suggested("member")[0]).status_code == 204
    assert lab.get(f"/api/stoker/v1/workloads/{waiting}/explain", as_="member").json()["edits"] == []


def test_one_that_waits_for_a_guaranteed_place_is_told_until_when_and_then_gets_it(works: RunningLab) -> None:
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
