"""One workload is one thing: made through any family, it is the same in all of them, at every moment of its life."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.lab import V1
from tests.contract.runai.lab import RunaiLab
from tests.contract.safe.lab import big_node

from stoker.domain.lifecycle import ContactLost, Placed, PodsEnded, PodsGone, PodsUp, StopAsked, transition
from stoker.domain.workload import CATEGORY, Kind

SAFE_PHASES = {
    "Pending": "Pending",
    "Initializing": "Pending",
    "Running": "Running",
    "Stopping": "Running",
    "Stopped": "Stopped",
    "Completed": "Succeeded",
    "Failed": "Failed",
    "Unknown": "Running",
}
LENS_PHASES = {
    "Pending": "Pending",
    "Initializing": "Pending",
    "Running": "Running",
    "Stopping": "Running",
    "Stopped": "Unknown",
    "Completed": "Completed",
    "Failed": "Failed",
    "Unknown": "Unknown",
}
STEPS = {
    "place": Placed,
    "up": PodsUp,
    "succeed": lambda at: PodsEnded(at, True, "over"),
    "fail": lambda at: PodsEnded(at, False, "exit code 7"),
    "stop": lambda at: StopAsked(at, "member"),
    "gone": PodsGone,
    "lose": lambda at: ContactLost(at, "no contact"),
}


def made_by_safe(lab: RunaiLab, kind: str, gpus: int) -> str:
    return lab.uid(lab.submit(kind=kind, gpu=str(gpus), service={"port": 80} if kind == "Deployment" else None))


def made_by_runai(lab: RunaiLab, kind: str, gpus: int) -> str:
    path = {"Job": "trainings", "PyTorchJob": "distributed", "Deployment": "inferences", "Authoring": "workspaces"}
    [project] = [each for each in lab.get(f"{V1}/workspaces", as_="admin").json()["items"] if each["name"] == "vision"]
    cluster = lab.get(f"{V1}/clusters", as_="admin").json()["items"][0]["id"]
    compute = {"cpuCoreRequest": 0.1, "cpuMemoryRequest": "64Mi", "gpuDevicesRequest": gpus}
    spec: dict[str, Any] = {"image": "python:3.11", "command": "sleep", "args": "600", "compute": compute}
    if kind == "PyTorchJob":
        spec |= {"numWorkers": 1, "distributedFramework": "PyTorch"}
    if kind == "Deployment":
        spec |= {"servingPort": {"container": 8000}}
    body = {"name": lab.name("made"), "projectId": str(project["id"]), "clusterId": cluster, "spec": spec}
    answer = lab.post(f"/api/v1/workloads/{path[kind]}", as_="member", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["workloadId"]


def compare(lab: RunaiLab, uid: str) -> None:
    """Field by field: what Run:ai's clients, the management API, the monitoring API and the native one say."""
    inside = lab.inside(uid)
    runai = lab.runai(f"/{uid}")
    safe = lab.detail(uid)
    lens = lab.data(f"/api/workloads/{uid}")
    [row] = [each for each in lab.data("/api/workloads", pageSize=1000)["data"] if each["uid"] == uid]
    [listed] = [each for each in lab.rows() if each["id"] == uid]
    explained = lab.get(f"{V1}/workloads/{inside.slug}/explain", as_="admin").json()
    phase = runai["phase"]
    assert {key: value for key, value in runai.items() if key in listed} == {
        **listed,
        "phaseReason": runai["phaseReason"],
    }
    assert (safe["phase"], row["status"]) == (SAFE_PHASES[phase], LENS_PHASES[phase])
    assert runai["name"] == safe["displayName"]
    assert runai["additionalFields"]["workloadId"] == safe["workloadId"] == inside.slug
    assert runai["type"] == safe["groupVersionKind"]["kind"] == lens["kind"] == row["kind"]
    assert runai["category"] == CATEGORY[Kind(runai["type"])]
    assert runai["projectName"] == safe["workspaceId"]
    assert runai["namespace"] == lens["namespace"]
    assert runai["submittedBy"] == safe["userName"]
    assert runai["createdAt"] == safe["creationTime"]
    assert (runai["completedAt"] or "") == safe["endTime"]
    assert (lens["endTime"] == 0) == (runai["completedAt"] is None)
    assert runai["images"] == [safe["image"]]
    assert runai["requestedPods"]["number"] == safe["resource"]["replica"]
    assert runai["podsRequestedResources"]["gpu"]["request"] == float(safe["resource"]["gpu"])
    assert runai["environmentVariables"] == safe["env"]
    assert [each["reason"] for each in runai["conditions"]] == [each["reason"] for each in safe["conditions"]]
    assert (explained["workloadId"], explained["phase"]) == (inside.slug, phase)
    if runai["completedAt"] is None:
        assert runai["allocatedResources"]["gpu"] == sum(lens["gpuAllocation"].values())
    if phase == "Pending":
        assert [each["userMessage"] for each in runai["pendingSchedulingMessages"] or []] in (
            [],
            [explained["reason"]["sentence"]],
        )


def test_made_in_any_family_a_workload_is_the_same_in_all(lab: RunaiLab) -> None:
    lab.add_nodes(big_node("node-001"), big_node("node-002"))

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from((made_by_safe, made_by_runai)),
        st.sampled_from(("Job", "PyTorchJob", "Deployment", "Authoring")),
        st.integers(0, 2),
        st.lists(st.sampled_from(sorted(STEPS)), max_size=5),
    )
    def check(make: Any, kind: str, gpus: int, steps: list[str]) -> None:
        uid = make(lab, kind, gpus)
        compare(lab, uid)
        for step in steps:
            if transition(lab.inside(uid), STEPS[step](lab.clock.now())) is not None:
                lab.go(uid, STEPS[step], seconds=5)
                compare(lab, uid)

    check()
