"""What `explain` suggests is a PATCH that its reader may send."""

from typing import Any

from tests.api.lab import SAFE
from tests.contract.safe.lab import QueueLab, big_node


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
