"""A workload created through any family is the same in all of them, at every moment of its life."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.api.harness import V1
from tests.contract.management.harness import MANAGEMENT_PATH, big_node
from tests.contract.runai.harness import WORKLOADS, RunaiHarness
from tests.contract.runai.submissions import place

from stoker.controller.reconcile.observe import record_nodes
from stoker.controller.usage.rollup import CLOSE_DELAY_MS, Rollup
from stoker.domain.clock import HOUR_MS
from stoker.domain.workload.events import (
    Dispatched,
    EngineReachable,
    EngineUnreachable,
    LifecycleEvent,
    PodsFinished,
    PodsLost,
    PodsNotReady,
    PodsReady,
    PodsTerminated,
    Preempted,
    SpecChanged,
    TimedOut,
)
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import CATEGORY_BY_KIND, Kind

WORDS = {
    "Creating": ("Pending", "Pending", "yellow"),
    "Pending": ("Pending", "Pending", "yellow"),
    "Initializing": ("Pending", "Pending", "yellow"),
    "Running": ("Running", "Running", "green"),
    "Degraded": ("Running", "Running", "green"),
    "Updating": ("Updating", "Running", "green"),
    "Stopping": ("Running", "Running", "green"),
    "Stopped": ("Stopped", "Unknown", "gray"),
    "Resuming": ("Pending", "Pending", "yellow"),
    "Completed": ("Succeeded", "Completed", "green"),
    "Failed": ("Failed", "Failed", "red"),
    "Terminating": ("Running", "Running", "green"),
    "Unknown": ("Running", "Unknown", "gray"),
}
"""What Run:ai's clients see, and then what the management API and the monitoring API say of the same."""
MANAGEMENT_PRIORITIES = {80: 0, 125: 1, 150: 2}
V2 = "/api/v2/workloads"
USAGE = "/api/v1/gpu-aggregation/workloads/hourly-stats"
EVER = "start_time=2000-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&page_size=1000"
GPUS = 512

made_by_runai = {"Job": "trainings", "PyTorchJob": "distributed", "Deployment": "inferences", "Authoring": "workspaces"}


def make_by_management(harness: RunaiHarness, kind: str, gpus: int) -> str:
    service = {"port": 80} if kind in {"Deployment", "StatefulSet"} else None
    return harness.uid(harness.submit(kind=kind, gpu=str(gpus), replica=1 + gpus % 2, service=service, maxRetry=1))


def make_by_runai(harness: RunaiHarness, kind: str, gpus: int) -> str:
    compute = {"cpuCoreRequest": 0.1, "cpuMemoryRequest": "64Mi", "gpuDevicesRequest": gpus}
    spec: dict[str, Any] = {"image": "python:3.11", "command": "sleep", "args": "600", "compute": compute}
    if kind == "PyTorchJob":
        spec |= {"numWorkers": 1, "distributedFramework": "PyTorch"}
    if kind == "Deployment":
        spec |= {"servingPort": {"container": 8000}}
    body = {"name": harness.name("made"), **place(harness), "spec": spec}
    answer = harness.post(f"{WORKLOADS}/{made_by_runai[kind]}", as_="member", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["workloadId"]


def make_a_clone(harness: RunaiHarness, kind: str, gpus: int) -> str:
    source = (make_by_runai if kind in made_by_runai else make_by_management)(harness, kind, gpus)
    answer = harness.post(f"{MANAGEMENT_PATH}/clone", as_="member", json={"workloadIds": [source]})
    assert answer.status_code == 204, answer.text
    return harness.uid(answer.headers["X-Workload-Ids"])


def make_by_manifest(harness: RunaiHarness, kind: str, gpus: int) -> str:
    """As the manifest of another, which makes the same again."""
    source = harness.get(f"{V2}/{make_by_management(harness, kind, gpus)}", as_="member").json()["workload"]
    body = {"metadata": {"name": harness.name("made"), **place(harness)}, "manifest": source["rawManifest"]}
    answer = harness.post(V2, as_="member", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["metadata"]["id"]


def made(harness: RunaiHarness, way: Callable[[RunaiHarness, str, int], str], kind: str, gpus: int) -> str:
    """The way that was chosen, where it can make such a thing."""
    return (make_by_management if way is make_by_runai and kind not in made_by_runai else way)(harness, kind, gpus)


HAPPENS: dict[str, Callable[[int, Workload], LifecycleEvent]] = {
    "place": lambda at, _: Dispatched(at, ("default",), at + 60_000),
    "up": lambda at, _: PodsReady(at),
    "short": lambda at, _: PodsNotReady(at, "one pod is not up"),
    "succeed": lambda at, _: PodsFinished(at, True, "over"),
    "fail": lambda at, _: PodsFinished(at, False, "exit code 7"),
    "lose a node": lambda at, _: PodsLost(at, "the node is gone"),
    "preempt": lambda at, _: Preempted(at, "another"),
    "replace": lambda at, now: SpecChanged(at, "member", structs.replace(now.spec, image="python:3.12")),
    "time out": lambda at, _: TimedOut(at),
    "gone": lambda at, _: PodsTerminated(at),
    "lose contact": lambda at, _: EngineUnreachable(at, "no contact"),
    "find it again": lambda at, _: EngineReachable(at),
}
ASKED: dict[str, Callable[[RunaiHarness, Workload], Any]] = {
    "stop by safe": lambda harness, it: harness.post(f"{MANAGEMENT_PATH}/{it.slug}/stop", as_="member"),
    "stop many by safe": lambda harness, it: harness.post(
        f"{MANAGEMENT_PATH}/stop", as_="member", json={"workloadIds": [it.slug]}
    ),
    "suspend by runai": lambda harness, it: batch(harness, it, "suspend"),
    "resume by runai": lambda harness, it: batch(harness, it, "resume"),
    "resume": lambda harness, it: harness.post(f"{V1}/workloads/{it.slug}/resume", as_="member"),
    "change by safe": lambda harness, it: harness.patch(
        f"{MANAGEMENT_PATH}/{it.slug}", as_="manager", json={"priority": 1}
    ),
}
DELETED: dict[str, Callable[[RunaiHarness, Workload], Any]] = {
    "by safe": lambda harness, it: harness.delete(f"{MANAGEMENT_PATH}/{it.slug}", as_="member"),
    "many by safe": lambda harness, it: harness.post(
        f"{MANAGEMENT_PATH}/delete", as_="member", json={"workloadIds": [it.uid]}
    ),
    "by runai": lambda harness, it: batch(harness, it, "delete"),
}


def batch(harness: RunaiHarness, workload: Workload, action: str) -> None:
    answer = harness.post(f"{WORKLOADS}/batch", as_="member", json={"ids": [workload.uid], "action": action})
    assert answer.status_code == 200, answer.text


def happen(harness: RunaiHarness, uid: str, step: str) -> None:
    """Let it happen, or be asked for, if it can; pods and GPUs follow as an engine would have it."""
    harness.clock.advance(seconds=5)
    workload = harness.inside(uid)
    if step in ASKED:
        ASKED[step](harness, workload)
    elif transition(workload, HAPPENS[step](harness.clock.now(), workload)) is not None:
        if step == "gone":
            harness.release(*(pod for pod in harness.pods(uid) if not pod.phase.is_finished))
        harness.go(uid, lambda at: HAPPENS[step](at, workload))
    after = harness.inside(uid)
    held = [pod for pod in harness.pods(uid) if not pod.phase.is_finished]
    if after.phase is Phase.INITIALIZING and not held:
        for rank in range(after.spec.replicas):
            wanted = after.spec.resources.gpu_milli // 1000
            harness.add_pod(uid, rank, {"node-001": list(itertools.islice(harness.unheld, wanted))})
    elif held and (after.phase.is_finished or after.phase.is_pending):
        harness.release(*held)


def seconds(runtime: str) -> int:
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(\d+)s", runtime)
    assert parts, runtime
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    return hours * 3600 + minutes * 60 + rest


def compare(harness: RunaiHarness, uid: str) -> None:
    """Field by field: what Run:ai's clients, the management API, the monitoring API and the native one say."""
    inside = harness.inside(uid)
    runai = harness.runai(f"/{uid}")
    safe = harness.detail(uid)
    lens = harness.data(f"/api/workloads/{uid}")
    [row] = [
        each for each in harness.data("/api/workloads", pageSize=9, name=inside.name)["data"] if each["uid"] == uid
    ]
    [listed] = [each for each in harness.rows(f"name=={inside.name}") if each["id"] == uid]
    explained = harness.get(f"{V1}/workloads/{inside.slug}/explain", as_="admin").json()
    phase = runai["phase"]
    assert {key: value for key, value in runai.items() if key in listed} == {
        **listed,
        "phaseReason": runai["phaseReason"],
    }
    assert (safe["phase"], row["status"], row["statusColor"]) == WORDS[phase]
    assert harness.row(safe["workloadId"])["phase"] == safe["phase"]
    assert runai["name"] == safe["displayName"] == lens["name"] == row["name"]
    assert runai["additionalFields"]["workloadId"] == safe["workloadId"] == inside.slug
    assert runai["additionalFields"]["description"] == safe["description"]
    assert runai["type"] == safe["groupVersionKind"]["kind"] == lens["kind"] == row["kind"]
    assert runai["category"] == CATEGORY_BY_KIND[Kind(runai["type"])]
    assert runai["projectName"] == safe["workspaceId"]
    assert runai["namespace"] == lens["namespace"] == row["namespace"]
    assert runai["submittedBy"] == safe["userName"]
    if runai["priority"] in MANAGEMENT_PRIORITIES:
        assert safe["priority"] == MANAGEMENT_PRIORITIES[runai["priority"]]
    assert runai["preemptible"] == safe["preemptible"]
    assert (runai["guaranteedRuntimeEndsAt"] or "") == safe["guaranteedUntil"]
    compare_times(runai, safe, lens, row)
    compare_resources(harness, uid, runai, safe, lens, row)
    assert [(each["type"], each["reason"], each["message"]) for each in runai["conditions"]] == [
        (each["type"], each["reason"], each["message"]) for each in safe["conditions"]
    ]
    assert (explained["workloadId"], explained["phase"]) == (inside.slug, phase)
    if phase == "Pending":
        assert [each["userMessage"] for each in runai["pendingSchedulingMessages"] or []] in (
            [],
            [explained["reason"]["sentence"]],
        )


def compare_times(runai: Any, safe: Any, lens: Any, row: Any) -> None:
    assert runai["createdAt"] == safe["creationTime"]
    assert (runai["completedAt"] or "") == safe["endTime"]
    assert (lens["startTime"], lens["endTime"]) == (row["startAt"], row["endAt"])
    assert (lens["startTime"] == 0) == (safe["startTime"] == "")
    assert (lens["endTime"] == 0) == (runai["completedAt"] is None)
    assert runai["totalRunningTimeSeconds"] == seconds(safe["runtime"])


def compare_resources(harness: RunaiHarness, uid: str, runai: Any, safe: Any, lens: Any, row: Any) -> None:
    asked = safe["resource"]
    assert runai["images"] == [safe["image"]]
    assert f"{runai['command']} {runai['arguments']}".strip() == safe["entryPoint"]
    assert runai["environmentVariables"] == safe["env"]
    assert runai["requestedPods"]["number"] == asked["replica"]
    assert runai["podsRequestedResources"]["gpu"]["request"] == float(asked["gpu"])
    assert runai["workloadRequestedResources"]["gpu"]["request"] == float(asked["gpu"]) * asked["replica"]
    assert sum(lens["gpuAllocation"].values()) == row["gpuAllocated"]
    if runai["completedAt"] is None:
        assert runai["allocatedResources"]["gpu"] == row["gpuAllocated"]
    pods = harness.runai(f"/{uid}/pods")["pods"]
    assert runai["runningPods"] == sum(each["k8sPhase"] == "Running" for each in pods)
    assert {each["podId"] for each in safe["pods"]} <= {each["name"] for each in pods}
    assert {each["podName"] for each in lens["pods"]} <= {each["name"] for each in pods}
    nodes = {each["name"]: each["nodeName"] for each in pods}
    assert all(nodes[each["podId"]] == each["nodeName"] for each in safe["pods"])
    assert all(nodes[each["podName"]] == each["nodeName"] for each in lens["pods"])


def compare_deleted(harness: RunaiHarness, uid: str) -> None:
    """Hidden at once from the management and the monitoring API; Run:ai's clients see it go."""
    workload = harness.inside(uid)
    assert harness.get(f"{MANAGEMENT_PATH}/{workload.slug}", as_="admin").status_code == 404
    assert harness.get(f"/api/workloads/{uid}").status_code == 404
    assert uid not in {each["uid"] for each in harness.data("/api/workloads", pageSize=9, name=workload.name)["data"]}
    there = {each["id"]: each["phase"] for each in harness.rows(f"name=={workload.name}")}
    gone = {each["id"]: each["phase"] for each in harness.rows(f"name=={workload.name}", deleted="true")}
    if workload.phase is Phase.DELETING:
        assert (there.get(uid), uid in gone) == ("Deleting", False)
    else:
        assert (uid in there, gone.get(uid)) == (False, str(workload.phase))


@pytest.fixture
def fleet(harness: RunaiHarness) -> RunaiHarness:
    """With a large node, of which no GPU is given out twice."""
    node = big_node("node-001", GPUS)
    harness.add_nodes(node)
    now, cluster_id = harness.clock.now(), harness.cluster_id
    harness.run(harness.installation.store.write(lambda tx: record_nodes(tx, cluster_id, [node], now)))
    return harness


def test_made_in_any_family_a_workload_is_the_same_in_all(fleet: RunaiHarness) -> None:
    harness = fleet
    held: dict[str, Workload] = {}

    @settings(max_examples=20, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from((make_by_management, make_by_runai, make_by_manifest, make_a_clone)),
        st.sampled_from(("Job", "PyTorchJob", "Deployment", "StatefulSet", "Authoring")),
        st.integers(0, 2),
        st.lists(st.sampled_from(["place", "up", *HAPPENS, *ASKED]), max_size=7),
        st.sampled_from([None, *DELETED]),
    )
    def check(way: Any, kind: str, gpus: int, steps: list[str], deleted: str | None) -> None:
        uid = made(harness, way, kind, gpus)
        compare(harness, uid)
        for step in steps:
            happen(harness, uid, step)
            compare(harness, uid)
        if gpus and harness.pods(uid):
            held[uid] = harness.inside(uid)
            harness.clock.advance(seconds=5)
        if deleted is not None:
            DELETED[deleted](harness, harness.inside(uid))
            compare_deleted(harness, uid)
            if harness.inside(uid).phase is Phase.DELETING:
                harness.release(*(pod for pod in harness.pods(uid) if not pod.phase.is_finished))
                harness.go(uid, PodsTerminated, seconds=5)
                compare_deleted(harness, uid)

    check()
    last = make_by_management(harness, "Job", 2)
    happen(harness, last, "place")
    happen(harness, last, "up")
    compare_hours(harness, {**held, last: harness.inside(last)})


def compare_hours(harness: RunaiHarness, held: dict[str, Workload]) -> None:
    """What held GPUs is in the hours of the usage API, under the same names and words."""
    harness.clock.advance(seconds=(HOUR_MS - harness.clock.now() % HOUR_MS + CLOSE_DELAY_MS) / 1000)
    assert harness.run(Rollup(harness.installation.store, harness.cluster_id, harness.clock, 1.0).catch_up()) > 0
    found = harness.get(f"{USAGE}?{EVER}&cluster=local", as_="admin").json()["data"]
    rows = {each["owner_uid"]: each for each in found["data"]}
    assert held.keys() <= rows.keys()
    for uid, workload in held.items():
        row = rows[uid]
        assert (row["owner_name"], row["namespace"]) == (workload.slug, workload.namespace)
        assert (row["workload_name"], row["workload_type"]) == (workload.name, workload.kind)
        if harness.inside(uid).deleted_at is None:
            assert row["workload_status"] == WORDS[str(harness.inside(uid).phase)][1]
