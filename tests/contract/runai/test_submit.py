"""Workloads that Run:ai's clients submit, suspend, resume and delete: the same things that every other family shows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.harness import MANAGEMENT_PATH
from tests.contract.management.harness import QueueHarness, big_node
from tests.contract.runai.submissions import TYPES, WORKLOADS, body, place, submit

from stoker.domain.workload.events import Dispatched, PodsFinished, PodsReady, PodsTerminated
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Kind

KINDS = {
    "workspaces": Kind.AUTHORING,
    "trainings": Kind.JOB,
    "distributed": Kind.PYTORCH_JOB,
    "inferences": Kind.DEPLOYMENT,
}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    with QueueHarness(tmp_path_factory.mktemp("submit") / "data") as opened:
        opened.add_staff()
        opened.add_nodes(big_node("node-1"), big_node("node-2"))
        yield opened


@pytest.mark.parametrize("kind", TYPES)
def test_a_submission_is_one_of_our_kinds_and_is_read_back(harness: QueueHarness, kind: str) -> None:
    compute = {"gpuDevicesRequest": 2, "cpuCoreRequest": 1.5, "cpuMemoryRequest": "4Gi"}
    made = submit(harness, kind, compute=compute, environmentVariables=[{"name": "A", "value": "1"}])
    assert made["actualPhase"] == "Pending"
    assert made["desiredPhase"] == "Running"
    assert made["createdBy"] == "member"
    assert made["spec"]["compute"] == compute
    assert (made["spec"]["command"], made["spec"]["args"]) == ("sleep", "60")
    assert made["spec"]["environmentVariables"] == [{"name": "A", "value": "1"}]
    assert harness.get(f"{WORKLOADS}/{kind}/{made['workloadId']}", as_="member").json() == made
    listed = harness.get(f"{WORKLOADS}/{made['workloadId']}", as_="viewer").json()
    assert (listed["command"], listed["arguments"], listed["phase"]) == ("sleep", "60", "Pending")
    kept = harness.inside(made["workloadId"])
    assert (kept.kind, kept.origin_api) == (KINDS[kind], "runai")
    shown = harness.detail(kept.slug)
    assert (shown["entryPoint"], shown["env"], shown["phase"]) == ("sleep 60", {"A": "1"}, "Pending")
    assert shown["resource"]["gpu"] == "2"


@pytest.mark.parametrize("memory", ["256M", "1.5Gi", "2000Ki"])
def test_memory_is_read_back_as_it_was_sent(harness: QueueHarness, memory: str) -> None:
    ref = submit(harness, compute={"cpuMemoryRequest": memory})["workloadId"]
    assert (
        harness.get(f"{WORKLOADS}/trainings/{ref}", as_="viewer").json()["spec"]["compute"]["cpuMemoryRequest"]
        == memory
    )
    listed = harness.get(f"{WORKLOADS}/{ref}", as_="viewer").json()
    assert listed["podsRequestedResources"]["cpuMemory"]["request"] == memory
    assert harness.detail(ref)["resource"]["memory"] == memory


@pytest.mark.parametrize("kind", TYPES)
def test_it_is_suspended_resumed_and_deleted(harness: QueueHarness, kind: str) -> None:
    made = submit(harness, kind)
    path = f"{WORKLOADS}/{kind}/{made['workloadId']}"
    harness.go(made["workloadId"], Dispatched, PodsReady)

    def phases() -> tuple[str, str, str]:
        found = harness.get(path, as_="member").json()
        return found["actualPhase"], found["desiredPhase"], harness.detail(made["workloadId"])["phase"]

    suspended = harness.post(f"{path}/suspend", as_="member")
    assert (suspended.status_code, suspended.json()["code"]) == (202, 202)
    assert phases() == ("Stopping", "Stopped", "Running")
    harness.go(made["workloadId"], PodsTerminated)
    assert phases() == ("Stopped", "Stopped", "Stopped")
    assert harness.post(f"{path}/suspend", as_="member").status_code == 202
    resumed = harness.post(f"{path}/resume", as_="member")
    assert (resumed.status_code, resumed.json()["code"]) == (202, 202)
    assert phases() == ("Resuming", "Running", "Pending")
    assert harness.post(f"{path}/resume", as_="member").status_code == 409
    assert harness.delete(path, as_="member").status_code == 202
    assert harness.get(path, as_="member").status_code == 404
    assert harness.get(f"{MANAGEMENT_PATH}/{made['workloadId']}", as_="member").status_code == 404


def test_what_has_ended_by_itself_is_not_suspended(harness: QueueHarness) -> None:
    made = submit(harness)
    harness.go(made["workloadId"], Dispatched, PodsReady, lambda at: PodsFinished(at, success=True, message="done"))
    refused = harness.post(f"{WORKLOADS}/trainings/{made['workloadId']}/suspend", as_="member")
    assert (refused.status_code, refused.json()["code"]) == (409, 409)
    assert harness.inside(made["workloadId"]).phase is Phase.COMPLETED


def test_a_workload_is_only_found_by_its_own_type(harness: QueueHarness) -> None:
    made = submit(harness, "trainings")["workloadId"]
    for kind in ("workspaces", "distributed", "inferences", "distributed-inferences", "pods-of"):
        for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/suspend"), ("POST", "/resume")):
            answer = harness.request(method, f"{WORKLOADS}/{kind}/{made}{end}", as_="admin")
            assert (answer.status_code, answer.json()["code"]) == (404, 404)
    assert harness.inside(made).phase is Phase.PENDING


def test_who_may_not_see_or_do_it(harness: QueueHarness) -> None:
    made = submit(harness)["workloadId"]
    path = f"{WORKLOADS}/trainings/{made}"
    assert harness.get(path).status_code == 401
    assert harness.get(path, as_="outsider").status_code == 404
    assert harness.delete(path, as_="viewer").status_code == 403
    sent = body(harness)
    assert harness.post(f"{WORKLOADS}/trainings", as_="viewer", json=sent).status_code == 403
    hidden = harness.post(f"{WORKLOADS}/trainings", as_="outsider", json=sent)
    assert hidden.status_code == 404
    assert "vision" not in hidden.text


def test_a_body_that_is_json_inside_a_json_string_is_taken(harness: QueueHarness) -> None:
    made = harness.post(f"{WORKLOADS}/trainings", as_="member", json=json.dumps(body(harness)))
    assert made.status_code == 202, made.text
    batch = {"ids": [made.json()["workloadId"]], "action": "suspend"}
    assert harness.post(f"{WORKLOADS}/batch", as_="member", json=json.dumps(batch)).json()["failed"] == []


def test_the_same_key_submits_once(harness: QueueHarness) -> None:
    sent = body(harness)
    headers = {"Idempotency-Key": harness.name("key")}
    first, second = (harness.post(f"{WORKLOADS}/trainings", as_="member", json=sent, headers=headers) for _ in range(2))
    assert first.json() == second.json()


@pytest.mark.parametrize(
    ("kind", "spec", "replicas"),
    [
        ("trainings", {}, 1),
        ("trainings", {"parallelism": 3, "completions": 3}, 3),
        ("distributed", {}, 2),
        ("distributed", {"numWorkers": 3, "distributedFramework": "PyTorch"}, 4),
        ("inferences", {}, 1),
        ("inferences", {"autoscaling": {"minReplicas": 2, "maxReplicas": 2}}, 2),
        ("workspaces", {}, 1),
    ],
)
def test_how_many_pods_there_are(harness: QueueHarness, kind: str, spec: dict[str, Any], replicas: int) -> None:
    made = submit(harness, kind, **spec)
    assert harness.inside(made["workloadId"]).spec.replicas == replicas
    for name, value in spec.items():
        assert made["spec"][name] == value


@pytest.mark.parametrize(
    ("kind", "priority", "kept", "preemptible"),
    [
        ("trainings", None, 40, True),
        ("workspaces", None, 125, False),
        ("inferences", None, 125, False),
        ("trainings", "very-low", 25, True),
        ("trainings", "medium-high", 90, True),
        ("trainings", "high", 125, False),
        ("trainings", "build", 100, False),
    ],
)
def test_a_priority_class_is_a_number_and_says_what_is_preempted(
    harness: QueueHarness, kind: str, priority: str | None, kept: int, preemptible: bool
) -> None:
    workload = harness.inside(submit(harness, kind, priorityClass=priority)["workloadId"])
    assert (workload.priority, workload.preemptible) == (kept, preemptible)


def test_what_is_said_of_preemption_counts_more_than_the_priority(harness: QueueHarness) -> None:
    made = submit(harness, priorityClass="high", preemptibility="preemptible")
    assert harness.inside(made["workloadId"]).preemptible
    made = submit(harness, priorityClass="low", preemptibility="non-preemptible")
    assert not harness.inside(made["workloadId"]).preemptible


def test_the_highest_priority_needs_a_manager(harness: QueueHarness) -> None:
    sent = body(harness, priorityClass="very-high")
    assert harness.post(f"{WORKLOADS}/trainings", as_="member", json=sent).status_code == 403
    assert harness.post(f"{WORKLOADS}/trainings", as_="manager", json=sent).status_code == 202


def test_a_part_of_a_gpu_is_asked_for_by_portion(harness: QueueHarness) -> None:
    asked = {"gpuDevicesRequest": 1, "gpuRequestType": "portion", "gpuPortionRequest": 0.25}
    made = submit(harness, compute=asked)
    assert harness.inside(made["workloadId"]).spec.resources.gpu_milli == 250
    assert made["spec"]["compute"] == {**asked, "cpuCoreRequest": 0.1, "cpuMemoryRequest": "100M"}


def test_a_port_becomes_the_service(harness: QueueHarness) -> None:
    made = submit(harness, "inferences", servingPort={"container": 8000})
    assert made["spec"]["servingPort"] == {"container": 8000}
    service = harness.get(f"{MANAGEMENT_PATH}/{made['workloadId']}/service", as_="member").json()
    assert service["ports"][0]["targetPort"] == 8000


def test_what_can_never_fit_is_refused_with_the_numbers(harness: QueueHarness) -> None:
    answer = harness.post(f"{WORKLOADS}/trainings", as_="member", json=body(harness, compute={"gpuDevicesRequest": 9}))
    assert (answer.status_code, answer.json()["code"]) == (403, 403)
    assert "9" in answer.json()["message"]
    assert "8" in answer.json()["message"]


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("trainings", {"storage": {"pvc": [{"path": "/data"}]}}, "spec.storage"),
        ("trainings", {"security": {"runAsUid": 7}}, "spec.security"),
        ("trainings", {"workingDir": "/x"}, "spec.workingDir"),
        ("trainings", {"tolerations": [{"key": "x"}]}, "spec.tolerations"),
        ("trainings", {"command": None}, "spec.command"),
        ("trainings", {"command": None, "args": None}, "spec.command"),
        ("trainings", {"priorityClass": "urgent"}, "spec.priorityClass"),
        ("trainings", {"completions": 2}, "spec.completions"),
        ("trainings", {"category": "Deploy"}, "spec.category"),
        ("trainings", {"numWorkers": 2}, "spec.numWorkers"),
        ("trainings", {"compute": {"gpuRequestType": "memory"}}, "spec.compute.gpuRequestType"),
        ("trainings", {"compute": {"gpuMemoryRequest": "4Gi"}}, "spec.compute.gpuMemoryRequest"),
        ("trainings", {"compute": {"cpuMemoryRequest": "4 Gi"}}, "spec.compute.cpuMemoryRequest"),
        (
            "trainings",
            {"compute": {"gpuDevicesRequest": 2, "gpuPortionRequest": 0.5}},
            "spec.compute.gpuPortionRequest",
        ),
        (
            "trainings",
            {"environmentVariables": [{"name": "A", "secret": {"name": "s", "key": "k"}}]},
            "spec.environmentVariables.A.secret",
        ),
        ("trainings", {"ports": [{"container": 1}, {"container": 2}]}, "spec.ports"),
        ("distributed", {"distributedFramework": "MPI"}, "spec.distributedFramework"),
        ("distributed", {"numWorkers": 2, "maxReplicas": 4}, "spec.maxReplicas"),
        ("inferences", {"autoscaling": {"minReplicas": 1, "maxReplicas": 4}}, "spec.autoscaling.maxReplicas"),
        ("inferences", {"autoscaling": {"minReplicas": 0}}, "spec.autoscaling.minReplicas"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    harness: QueueHarness, kind: str, spec: dict[str, Any], field: str
) -> None:
    answer = harness.post(f"{WORKLOADS}/{kind}", as_="member", json=body(harness, **spec))
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["message"].startswith(f"{field}: "), answer.text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "No Such"}, "name"),
        ({"name": None}, "name"),
        ({"clusterId": "00000000-0000-4000-8000-000000000000"}, "clusterId"),
        ({"templateId": "x"}, "templateId"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_submission_is_refused_by_name(harness: QueueHarness, fields: dict[str, Any], field: str) -> None:
    answer = harness.post(f"{WORKLOADS}/trainings", as_="member", json={**body(harness), **fields})
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"{field}: ")


@pytest.mark.parametrize("project", ["999", "vision", "-1", "9" * 40, "٣"])
def test_a_project_that_is_not_there_is_not_found(harness: QueueHarness, project: str) -> None:
    sent = {**body(harness), "projectId": project}
    assert harness.post(f"{WORKLOADS}/trainings", as_="member", json=sent).status_code == 404


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_labels_are_not_without_number(harness: QueueHarness, field: str) -> None:
    sent = body(harness)
    sent["spec"][field] = [{"name": f"k{number}", "value": ""} for number in range(257)]
    answer = harness.post(f"{WORKLOADS}/trainings", as_="member", json=sent)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"spec.{field}: it has 257 entries. Use a list of at most 256, ")
    del sent["spec"][field][0]
    assert harness.post(f"{WORKLOADS}/trainings", as_="member", json=sent).status_code == 202


def test_null_is_the_same_as_left_out(harness: QueueHarness) -> None:
    sent = body(harness, compute={"gpuDevicesRequest": None}, storage=None)
    sent["spec"] |= {"labels": None, "nodePools": None, "ports": [None], "storage": {}}
    assert harness.post(f"{WORKLOADS}/trainings", as_="member", json=sent).status_code == 202


def test_distributed_inference_says_that_it_is_not_served(harness: QueueHarness) -> None:
    answer = harness.post(f"{WORKLOADS}/distributed-inferences", as_="member", json={"name": "x", **place(harness)})
    assert answer.status_code == 400
    assert answer.json()["message"] == "Distributed inference is not served here: a replica is one pod."


class TestBatches:
    def _batch(self, harness: QueueHarness, action: str, ids: list[str], as_: str = "member") -> dict[str, Any]:
        answer = harness.post(f"{WORKLOADS}/batch", as_=as_, json={"ids": ids, "action": action})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def test_each_is_told_of_by_itself(self, harness: QueueHarness) -> None:
        one, two = submit(harness)["workloadId"], submit(harness, "inferences")["workloadId"]
        ghost = "00000000-0000-4000-8000-000000000000"
        done = self._batch(harness, "suspend", [one, ghost, two, one])
        assert done["succeeded"] == [one, two]
        assert [(each["id"], each["code"]) for each in done["failed"]] == [(ghost, 404)]
        assert self._batch(harness, "resume", [one, two])["succeeded"] == [one, two]
        [failed] = self._batch(harness, "resume", [one])["failed"]
        assert (failed["id"], failed["code"]) == (one, 409)
        assert self._batch(harness, "delete", [one, two])["succeeded"] == [one, two]
        assert [each["code"] for each in self._batch(harness, "delete", [one])["failed"]] == [404]

    def test_what_one_may_not_do_fails(self, harness: QueueHarness) -> None:
        one = submit(harness)["workloadId"]
        assert [each["code"] for each in self._batch(harness, "delete", [one], "viewer")["failed"]] == [403]
        assert [each["code"] for each in self._batch(harness, "delete", [one], "outsider")["failed"]] == [404]

    @pytest.mark.parametrize(
        ("sent", "field"),
        [
            ({"ids": [], "action": "delete"}, "ids"),
            ({"ids": ["x"] * 101, "action": "delete"}, "ids"),
            ({"ids": ["x"], "action": "stop"}, "action"),
            ({"action": "delete"}, "ids"),
        ],
    )
    def test_a_bad_one_is_refused_by_name(self, harness: QueueHarness, sent: dict[str, Any], field: str) -> None:
        answer = harness.post(f"{WORKLOADS}/batch", as_="member", json=sent)
        assert answer.status_code == 400
        assert answer.json()["message"].startswith(f"{field}: ")


def test_an_inference_is_changed_and_what_is_left_out_stays(harness: QueueHarness) -> None:
    made = submit(harness, "inferences", servingPort={"container": 8000}, compute={"cpuCoreRequest": 0.5})["workloadId"]
    path = f"{WORKLOADS}/inferences/{made}"
    spec = {
        "image": "python:3.12",
        "autoscaling": {"minReplicas": 3},
        "compute": {"gpuDevicesRequest": 2},
        "environmentVariables": [{"name": "A", "value": "1"}],
        "priorityClass": "medium",
    }
    answer = harness.patch(path, as_="member", json={"spec": spec})
    assert answer.status_code == 202, answer.text
    after = harness.inside(made)
    assert (after.spec.image, after.spec.replicas, after.spec.env, after.priority) == ("python:3.12", 3, {"A": "1"}, 80)
    assert (after.spec.resources.gpu_milli, after.spec.resources.cpu_milli) == (2000, 500)
    assert (after.spec.entry_point, after.spec.service and after.spec.service.port) == ("sleep 60", 8000)
    assert answer.json()["spec"]["image"] == "python:3.12"
    refused = harness.patch(path, as_="member", json={"spec": {"servingPort": {"container": 9000}}})
    assert (refused.status_code, refused.json()["message"][:18]) == (400, "spec.servingPort: ")
    assert harness.patch(path, as_="viewer", json={}).status_code == 403
    training = submit(harness)["workloadId"]
    assert harness.patch(f"{WORKLOADS}/inferences/{training}", as_="member", json={}).status_code == 404
