"""Workloads submitted as Kubernetes manifests, read back as such, changed and deleted."""

import base64
from typing import Any

import pytest
import yaml
from tests.contract.runai.harness import RunaiHarness
from tests.contract.runai.submissions import place

V2 = "/api/v2/workloads"
CONTAINER = {
    "name": "app",
    "image": "nginx:latest",
    "command": ["sh", "-c", "sleep 60 && echo $X"],
    "env": [{"name": "X", "value": "1"}],
    "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 2}},
}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
MANIFESTS: dict[str, dict[str, Any]] = {
    "Deployment": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE},
    },
    "StatefulSet": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 2, "template": TEMPLATE}},
    "Job": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 3, "template": TEMPLATE},
    },
    "PyTorchJob": {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "spec": {
            "runPolicy": {"activeDeadlineSeconds": 600},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": TEMPLATE},
                "Worker": {"replicas": 2, "template": TEMPLATE},
            },
        },
    },
    "Notebook": {"apiVersion": "kubeflow.org/v1", "kind": "Notebook", "spec": {"template": TEMPLATE}},
}
PODS = {"Deployment": 3, "StatefulSet": 2, "Job": 2, "PyTorchJob": 3, "Notebook": 1}


def body(harness: RunaiHarness, manifest: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": harness.name("made"), **place(harness), **metadata}, "manifest": manifest}


def make(harness: RunaiHarness, manifest: Any, **metadata: Any) -> dict[str, Any]:
    answer = harness.post(V2, as_="member", json=body(harness, manifest, **metadata))
    assert answer.status_code == 202, answer.text
    return answer.json()


def refused(harness: RunaiHarness, sent: Any) -> str:
    answer = harness.post(V2, as_="member", json=sent)
    assert answer.status_code == 400, answer.text
    return answer.json()["message"]


def test_the_list_says_what_was_submitted_as_a_manifest(harness: RunaiHarness) -> None:
    made, other = make(harness, MANIFESTS["Job"])["metadata"]["id"], harness.uid(harness.submit())
    assert [harness.runai(f"/{uid}")["sourceApi"] for uid in (made, other)] == ["WorkloadsV2", None]


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_makes_a_workload_and_is_read_back_as_one_that_makes_it_again(
    harness: RunaiHarness, kind: str
) -> None:
    made = make(harness, MANIFESTS[kind])
    uid = made["metadata"]["id"]
    assert made["metadata"]["gvk"]["kind"] == kind
    safe = harness.detail(uid)
    assert safe["resource"] == {"cpu": "500m", "gpu": "2", "memory": "1Gi", "replica": PODS[kind]}
    assert (safe["image"], safe["env"]) == ("nginx:latest", {"X": "1"})
    assert safe["entryPoint"] == "sh -c 'sleep 60 && echo $X'"
    assert (safe["maxRetry"], safe["timeout"]) == ({"Job": 3}.get(kind, 0), {"PyTorchJob": 600}.get(kind, 0))
    read = harness.get(f"{V2}/{uid}", as_="member").json()
    assert read["workload"] == made
    assert read["syncInfo"]["status"] == "Queued"
    again = make(harness, read["workload"]["rawManifest"])
    first, second = harness.inside(uid), harness.inside(again["metadata"]["id"])
    assert (first.kind, first.spec, first.max_retry) == (second.kind, second.spec, second.max_retry)


ODD = (
    b"a: !!bool x",
    b"a: !!int ''",
    b"a: !!timestamp x",
    b"a: !!binary eA==",
    b"a: 0x" + b"f" * 9000,
    b"a: [" + b"1," * 20_000 + b"]",
)
"""YAML that a manifest has no use for."""


def test_a_manifest_may_come_as_yaml_and_bring_the_name_itself(harness: RunaiHarness) -> None:
    manifest = {**MANIFESTS["Job"], "metadata": {"name": "from-yaml", "labels": {"team": "a"}}}
    encoded = base64.b64encode(yaml.safe_dump(manifest).encode()).decode()
    answer = harness.post(V2, as_="member", json={"metadata": place(harness), "manifestBase64Encoded": encoded})
    assert answer.status_code == 202, answer.text
    made = answer.json()["metadata"]
    assert (made["name"], made["priority"], made["preemptibility"]) == ("from-yaml", "low", "preemptible")
    assert harness.inside(made["id"]).spec.labels == {"team": "a"}


def test_numbers_with_colons_are_text_as_they_are_for_kubernetes(harness: RunaiHarness) -> None:
    labels = "{whole: 12:30:45, broken: 1:30.5, longest: 1" + ":1" * 31 + "}"
    manifest = f"{yaml.safe_dump(MANIFESTS['Job'])}metadata: {{name: timed, labels: {labels}}}\n"
    encoded = base64.b64encode(manifest.encode()).decode()
    answer = harness.post(V2, as_="member", json={"metadata": place(harness), "manifestBase64Encoded": encoded})
    assert answer.status_code == 202, answer.text
    kept = harness.inside(answer.json()["metadata"]["id"]).spec.labels
    assert kept == {"whole": "12:30:45", "broken": "1:30.5", "longest": "1" + ":1" * 31}


def test_a_part_of_a_gpu_is_asked_for_by_annotation(harness: RunaiHarness) -> None:
    container = {**CONTAINER, "resources": {}}
    template = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}, "spec": {"containers": [container]}}
    made = make(harness, {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}})
    assert harness.inside(made["metadata"]["id"]).spec.resources.gpu_milli == 500
    assert made["rawManifest"]["spec"]["template"]["metadata"]["annotations"] == {"gpu-fraction": "0.5"}


@pytest.mark.parametrize(("fraction", "limits"), [("2", {}), ("0", {}), ("", {}), ("0.5", {"nvidia.com/gpu": 4})])
def test_what_is_no_part_of_one_gpu_is_refused_by_its_name(
    harness: RunaiHarness, fraction: str, limits: dict[str, int]
) -> None:
    container = {**CONTAINER, "resources": {"limits": limits}}
    template = {"metadata": {"annotations": {"gpu-fraction": fraction}}, "spec": {"containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}
    assert refused(harness, body(harness, job)).startswith("manifest.spec.template.metadata.annotations.gpu-fraction: ")


def changed(**container: Any) -> dict[str, Any]:
    spec = {"containers": [{**CONTAINER, **container}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (None, "manifest: "),
        ({}, "manifest."),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {}}, "manifest.kind: "),
        ({"apiVersion": "apps/v2", "kind": "Deployment", "spec": {"template": TEMPLATE}}, "manifest.apiVersion: "),
        (changed(volumeMounts=[{"name": "v"}]), "manifest.spec.template.spec.containers[0].volumeMounts: "),
        (
            changed(resources={"limits": {"rdma/hca": 1}}),
            "manifest.spec.template.spec.containers[0].resources.rdma/hca: ",
        ),
        (changed(image=7), "manifest.spec.template.spec.containers[0].image: "),
        ({**MANIFESTS["Job"], "spec": {"completions": 9, "template": TEMPLATE}}, "manifest.spec.completions: "),
    ],
)
def test_what_has_no_counterpart_is_refused_by_its_name(harness: RunaiHarness, manifest: Any, field: str) -> None:
    assert refused(harness, body(harness, manifest)).startswith(field)


def test_bad_metadata_and_bad_yaml_are_refused(harness: RunaiHarness) -> None:
    job = MANIFESTS["Job"]
    assert refused(harness, body(harness, job, priority="urgent")).startswith("metadata.priority: ")
    assert refused(harness, body(harness, job, category="Deploy")).startswith("metadata.category: ")
    assert refused(harness, body(harness, job, clusterId="elsewhere")).startswith("metadata.clusterId: ")
    assert refused(harness, {**body(harness, job), "manifestBase64Encoded": "eA=="}).startswith("manifest: ")
    for text in (b"a: [", b"- 1", b"\xff", b"a: &x [1]\nb: *x\n", b"a: " * 99, b"[" * 130_000, *ODD):
        sent = {"metadata": place(harness), "manifestBase64Encoded": base64.b64encode(text).decode()}
        message = refused(harness, sent)
        assert message.startswith("manifestBase64Encoded: ")
        assert not any(word in message for word in ("recursion", "codec", "digits", "unsupported", "object of type"))


def test_what_runs_is_changed_by_another_manifest_and_the_kind_stays(harness: RunaiHarness) -> None:
    uid = make(harness, MANIFESTS["Deployment"])["metadata"]["id"]
    template = {"spec": {"containers": [{**CONTAINER, "image": "nginx:2", "env": [{"name": "Y", "value": "2"}]}]}}
    manifest = {**MANIFESTS["Deployment"], "spec": {"replicas": 1, "template": template}}
    answer = harness.put(f"{V2}/{uid}", as_="member", json={"metadata": {"priority": "medium"}, "manifest": manifest})
    assert answer.status_code == 202, answer.text
    after = harness.inside(uid)
    assert (after.spec.image, after.spec.env, after.spec.replicas, after.priority) == ("nginx:2", {"Y": "2"}, 1, 80)
    other = harness.put(f"{V2}/{uid}", as_="member", json={"manifest": MANIFESTS["Job"]})
    assert (other.status_code, other.json()["message"][:14]) == (400, "manifest.kind:")
    assert harness.put(f"{V2}/{uid}", as_="viewer", json={}).status_code == 403
    assert harness.delete(f"{V2}/{uid}", as_="member").status_code == 202
    assert harness.get(f"{V2}/{uid}", as_="admin").status_code == 404
