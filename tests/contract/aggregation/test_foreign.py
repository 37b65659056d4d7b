"""A foreign workload in every family: seen with its GPUs, read-only, and accounted in the hourly rows."""

import pytest
from msgspec import structs
from tests.contract.aggregation.harness import NODE, UsageHarness

from stoker.controller.reconcile.observe import record_delta
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload.ownership import OwnedObject
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.engines.model import Delta, EnginePhase, ObservedPod, ObservedWorkload
from stoker.store.cluster import clusters
from stoker.store.db.base import Transaction

MANAGEMENT = "/api/custom/workloads"
V1 = "/api/stoker/v1"


@pytest.fixture
def scene(any_harness: UsageHarness) -> tuple[UsageHarness, ObservedWorkload]:
    """A notebook on two GPUs that Stoker did not start, from the beginning of an hour on."""
    any_harness.add_staff()
    any_harness.to_the_hour()
    any_harness.appear()
    now = any_harness.clock.now()
    notebook = ObservedWorkload(
        engine_ref="c0ffee",
        uid=new_uuid4(),
        kind="RayCluster",
        api_version="ray.io/v1",
        name="Notebook_of_Ann",
        namespace="elsewhere",
        phase=EnginePhase.RUNNING,
        resources=Resources(2 * MILLI, 100, 1),
        image="jupyter:1",
        user="ann",
        labels={"team": "vision"},
        owners=(OwnedObject("group-1", "WorkerGroup", "workers", "elsewhere"),),
        created_at=now,
        started_at=now,
    )
    pod = ObservedPod(
        uid=new_uuid4(),
        name="notebook-pod",
        workload_uid="",
        attempt=1,
        revision=1,
        node=NODE.name,
        phase=PodPhase.RUNNING,
        owner_ref=notebook.engine_ref,
        owner_uid="group-1",
        created_at=now,
        started_at=now,
        devices=(DeviceRef(0, "u0"), DeviceRef(1, "u1")),
        resources=notebook.resources,
    )
    report = Delta(workloads=(notebook,), pods=(pod,))
    cluster_id = any_harness.cluster_id("local")
    any_harness.run(any_harness.installation.store.write(lambda tx: record_delta(tx, cluster_id, report, now)))
    return any_harness, notebook


def test_monitoring_shows_it_with_its_owner_tree(scene: tuple[UsageHarness, ObservedWorkload]) -> None:
    harness, notebook = scene
    listed = harness.get("/api/workloads").json()["data"]["data"]
    assert [(row["uid"], row["kind"], row["namespace"], row["gpuAllocated"]) for row in listed] == [
        (notebook.uid, "RayCluster", "elsewhere", 2)
    ]
    detail = harness.get(f"/api/workloads/{notebook.uid}").json()["data"]
    assert (detail["apiVersion"], detail["name"]) == ("ray.io/v1", "Notebook_of_Ann")
    tree = harness.get(f"/api/workloads/{notebook.uid}/hierarchy").json()["data"]
    assert [(child["kind"], child["name"]) for child in tree["children"]] == [("WorkerGroup", "workers")]
    assert [child["name"] for child in tree["children"][0]["children"]] == ["notebook-pod"]
    facets = harness.get("/api/workloadMetadata").json()["data"]
    assert "RayCluster" in facets["kinds"]
    assert "elsewhere" in facets["namespaces"]


def test_management_and_runai_show_it_to_admins_and_it_is_read_only(
    scene: tuple[UsageHarness, ObservedWorkload],
) -> None:
    harness, notebook = scene
    assert [row["displayName"] for row in harness.get(MANAGEMENT, as_="admin").json()["items"]] == ["Notebook_of_Ann"]
    assert harness.get(MANAGEMENT, as_="member").json()["items"] == []
    detail = harness.get(f"{MANAGEMENT}/{notebook.uid}", as_="admin").json()
    assert (detail["phase"], detail["groupVersionKind"]["kind"]) == ("Running", "RayCluster")
    [row] = harness.get("/api/v1/workloads", as_="admin").json()["workloads"]
    assert (row["name"], row["type"]) == ("Notebook_of_Ann", "RayCluster")
    changes = [
        harness.patch(f"{MANAGEMENT}/{notebook.uid}", as_="admin", json={"description": "mine"}),
        harness.post(f"{MANAGEMENT}/{notebook.uid}/stop", as_="admin"),
        harness.delete(f"{MANAGEMENT}/{notebook.uid}", as_="admin"),
        harness.post(f"{MANAGEMENT}/clone", as_="admin", json={"workloadIds": [notebook.uid]}),
    ]
    assert [answer.status_code for answer in changes] == [409] * 4
    assert all("was not submitted through Stoker" in answer.text for answer in changes)
    assert harness.get(f"{MANAGEMENT}/{notebook.uid}", as_="member").status_code == 404
    assert harness.get(f"{V1}/workloads/{notebook.uid}/explain", as_="admin").status_code == 200


def test_the_hour_accounts_for_it_under_its_own_name(scene: tuple[UsageHarness, ObservedWorkload]) -> None:
    harness, notebook = scene
    hour = harness.clock.now()
    harness.read_gpus([0.5] * 8, range(60), hour)
    assert harness.close_hours() >= 1
    between = dict.fromkeys(("start_time", "end_time"), format_rfc3339(hour))
    [row] = harness.data("/workloads/hourly-stats", **between)["data"]
    assert (row["owner_uid"], row["owner_name"]) == (notebook.uid, "Notebook_of_Ann")
    assert (row["namespace"], row["allocated_gpu_count"]) == ("elsewhere", 2.0)
    [namespace] = harness.data("/namespaces/hourly-stats", **between)
    assert (namespace["namespace"], namespace["allocated_gpu_count"]) == ("elsewhere", 2.0)


def test_an_admin_stops_it_where_the_cluster_allows_that(scene: tuple[UsageHarness, ObservedWorkload]) -> None:
    harness, notebook = scene
    cluster_id = harness.cluster_id("local")

    def allow(transaction: Transaction) -> None:
        cluster = clusters.get(transaction, cluster_id)
        clusters.update(transaction, structs.replace(cluster, config='{"foreign_stop": true}'))

    harness.run(harness.installation.store.write(allow))
    assert harness.post(f"{MANAGEMENT}/{notebook.uid}/stop", as_="admin").status_code == 204
    assert harness.inside(notebook.uid).phase is Phase.STOPPING
    ended = structs.replace(notebook, phase=EnginePhase.FAILED, ended_at=harness.clock.now())
    report = Delta(workloads=(ended,))
    now = harness.clock.now()
    harness.run(harness.installation.store.write(lambda tx: record_delta(tx, cluster_id, report, now)))
    assert (harness.inside(notebook.uid).phase, harness.inside(notebook.uid).message) == (
        Phase.STOPPED,
        "stopped by admin",
    )
