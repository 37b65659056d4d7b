"""Workloads submitted as Kubernetes manifests, read back as such, changed and deleted."""

import base64
from typing import Any

import pytest
import yaml
from tests.contract.runai.lab import RunaiLab
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


def body(lab: RunaiLab, manifest: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": lab.name("made"), **place(lab), **metadata}, "manifest": manifest}


def make(lab: RunaiLab, manifest: Any, **metadata: Any) -> dict[str, Any]:
    answer = lab.post(V2, as_="member", json=body(lab, manifest, **metadata))
    assert answer.status_code == 202, answer.text
    return answer.json()


def refused(lab: RunaiLab, sent: Any) -> str:
    answer = lab.post(V2, as_="member", json=sent)
    assert answer.status_code == 400, answer.text
    return answer.json()["message"]


def test_the_list_says_what_was_submitted_as_a_manifest(lab: RunaiLab) -> None:
    made, other = make(lab, MANIFESTS["Job"])["metadata"]["id"], lab.uid(lab.submit())
    assert [lab.runai(f"/{uid}")["sourceApi"] for uid in (made, other)] == ["WorkloadsV2", None]


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_makes_a_workload_and_is_read_back_as_one_that_makes_it_again(lab: RunaiLab, kind: str) -> None:
    made = make(lab, MANIFESTS[kind])
    uid = made["metadata"]["id"]
    assert made["metadata"]["gvk"]["kind"] == kind
    safe = lab.detail(uid)
    assert safe["resource"] == {"cpu": "500m", "gpu": "2", "memory": "1Gi", "replica": PODS[kind]}
    assert (safe["image"], safe["env"]) == ("nginx:latest", {"X": "1"})
    assert safe["entryPoint"] == "sh -c 'sleep 60 && echo $X'"
    assert (safe["maxRetry"], safe["timeout"]) == ({"Job": 3}.get(kind, 0), {"PyTorchJob": 600}.get(kind, 0))
    read = lab.get(f"{V2}/{uid}", as_="viewer").json()
    assert read["workload"] == made
    assert read["syncInfo"]["status"] == "Queued"
    again = make(lab, read["workload"]["rawManifest"])
    first, second = lab.inside(uid), lab.inside(again["metadata"]["id"])
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


def test_a_manifest_may_come_as_yaml_and_bring_the_name_itself(lab: RunaiLab) -> None:
    manifest = {**MANIFESTS["Job"], "metadata": {"name": "from-yaml", "labels": {"team": "a"}}}
    encoded = base64.b64encode(yaml.safe_dump(manifest).encode()).decode()
    answer = lab.post(V2, as_="member", json={"metadata": place(lab), "manifestBase64Encoded": encoded})
    assert answer.status_code == 202, answer.text
    made = answer.json()["metadata"]
    assert (made["name"], made["priority"], made["preemptibility"]) == ("from-yaml", "low", "preemptible")
    assert lab.inside(made["id"]).spec.labels == {"team": "a"}


def test_numbers_with_colons_are_text_as_they_are_for_kubernetes(lab: RunaiLab) -> None:
    labels = "{whole: 12:30:45, broken: 1:30.5, longest: 1" + ":1" * 31 + "}"
    manifest = f"{yaml.safe_dump(MANIFESTS['Job'])}metadata: {{name: timed, labels: {labels}}}\n"
    encoded = base64.b64encode(manifest.encode()).decode()
    answer = lab.post(V2, as_="member", json={"metadata": place(lab), "manifestBase64Encoded": encoded})
    assert answer.status_code == 202, answer.text
    kept = lab.inside(answer.json()["metadata"]["id"]).spec.labels
    assert kept == {"whole": "12:30:45", "broken": "1:30.5", "longest": "1" + ":1" * 31}


def test_a_part_of_a_gpu_is_asked_for_by_annotation(lab: RunaiLab) -> None:
    container = {**CONTAINER, "resources": {}}
    template = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}, "spec": {"containers": [container]}}
    made = make(lab, {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}})
    assert lab.inside(made["metadata"]["id"]).spec.resources.gpu_milli == 500
    assert made["rawManifest"]["spec"]["template"]["metadata"]["annotations"] == {"gpu-fraction": "0.5"}


@pytest.mark.parametrize(("fraction", "limits"), [("2", {}), ("0", {}), ("", {}), ("0.5", {"nvidia.com/gpu": 4})])
def test_what_is_no_part_of_one_gpu_is_refused_by_its_name(
    lab: RunaiLab, fraction: str, limits: dict[str, int]
) -> None:
    container = {**CONTAINER, "resources": {"limits": limits}}
    template = {"metadata": {"annotations": {"gpu-fraction": fraction}}, "spec": {"containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}
    assert refused(lab, body(lab, job)).startswith("manifest.spec.template.metadata.annotations.gpu-fraction: ")


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
def test_what_has_no_counterpart_is_refused_by_its_name(lab: RunaiLab, manifest: Any, field: str) -> None:
    assert refused(lab, body(lab, manifest)).startswith(field)


def test_bad_metadata_and_bad_yaml_are_refused(lab: RunaiLab) -> None:
    job = MANIFESTS["Job"]
    assert refused(lab, body(lab, job, priority="urgent")).startswith("metadata.priority: ")
    assert refused(lab, body(lab, job, category="Deploy")).startswith("metadata.category: ")
    assert refused(lab, body(lab, job, clusterId="elsewhere")).startswith("metadata.clusterId: ")
    assert refused(lab, {**body(lab, job), "manifestBase64Encoded": "eA=="}).startswith("manifest: ")
    for text in (b"a: [", b"- 1", b"\xff", b"a: &x [1]\nb: *x\n", b"a: " * 99, b"[" * 130_000, *ODD):
        sent = {"metadata": place(lab), "manifestBase64Encoded": base64.b64encode(text).decode()}
        assert refused(lab, sent).startswith("manifestBase64Encoded: ")


def test_what_runs_is_changed_by_another_manifest_and_the_kind_stays(lab: RunaiLab) -> None:
    uid = make(lab, MANIFESTS["Deployment"])["metadata"]["id"]
    template = {"spec": {"containers": [{**CONTAINER, "image": "nginx:2", "env": [{"name": "Y", "value": "2"}]}]}}
    manifest = {**MANIFESTS["Deployment"], "spec": {"replicas": 1, "template": template}}
    answer = lab.put(f"{V2}/{uid}", as_="member", json={"metadata": {"priority": "medium"}, "manifest": manifest})
    assert answer.status_code == 202, answer.text
    after = lab.inside(uid)
    assert (after.spec.image, after.spec.env, after.spec.replicas, after.priority) == ("nginx:2", {"Y": "2"}, 1, 80)
    other = lab.put(f"{V2}/{uid}", as_="member", json={"manifest": MANIFESTS["Job"]})
    assert (other.status_code, other.json()["message"][:14]) == (400, "manifest.kind:")
    assert lab.put(f"{V2}/{uid}", as_="viewer", json={}).status_code == 403
    assert lab.delete(f"{V2}/{uid}", as_="member").status_code == 202
    assert lab.get(f"{V2}/{uid}", as_="admin").status_code == 404
