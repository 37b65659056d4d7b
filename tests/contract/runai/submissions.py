"""What the tests of submissions send, and where."""

from typing import Any

from tests.contract.management.harness import QueueHarness

WORKLOADS = "/api/v1/workloads"
TYPES = ("workspaces", "trainings", "distributed", "inferences")


def place(harness: QueueHarness, workspace: str = "vision") -> dict[str, str]:
    """The ids of a workspace and of its cluster, as submissions name them."""
    found = harness.get(f"/api/stoker/v1/workspaces/{workspace}", as_="admin").json()
    cluster = harness.get(f"/api/stoker/v1/clusters/{found['cluster']}", as_="admin").json()
    return {"projectId": str(found["id"]), "clusterId": cluster["id"]}


def body(harness: QueueHarness, **spec: Any) -> dict[str, Any]:
    """A submission to workspace vision."""
    given = {"image": "python:3.11", "command": "sleep", "args": "60", **spec}
    return {"name": harness.name("job"), **place(harness), "spec": {k: v for k, v in given.items() if v is not None}}


def submit(harness: QueueHarness, kind: str = "trainings", as_: str = "member", **spec: Any) -> dict[str, Any]:
    made = harness.post(f"{WORKLOADS}/{kind}", as_=as_, json=body(harness, **spec))
    assert made.status_code == 202, made.text
    return made.json()
