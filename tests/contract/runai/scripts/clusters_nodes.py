"""Reads where workloads run, whose they are and what happened to them; the client's models judge every body."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from clients import GIVEN, Client, until
from runai import models
from runai.models.get_departments200_response import GetDepartments200Response
from runai.models.get_nodepools200_response import GetNodepools200Response
from runai.models.get_projects200_response import GetProjects200Response


def as_manifest(client: Client) -> dict[str, tuple[Any, Any]]:
    """A workload that is submitted, read, changed and deleted as a manifest."""
    work = client.runai.workloads.workloads_v2
    container = {"image": "python:3.11", "command": ["sleep", "600"]}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    sent = {"metadata": {"name": "manifest", **GIVEN["place"]}, "manifest": manifest}
    made = client.call(work.create_workload_v2, models.WorkloadV2CreateRequest.model_validate(sent))
    ref = made["metadata"]["id"]
    bodies = {
        "manifest": (models.WorkloadV2, made),
        "read as a manifest": (models.WorkloadV2GetResponse, client.call(work.get_workload_v2_by_id, ref)),
    }
    if hasattr(work, "update_workload_v2"):  # 1.223 cannot
        change = models.WorkloadV2UpdateRequest.model_validate({"metadata": {"priority": "medium"}})
        bodies["manifest"] = (models.WorkloadV2, client.call(work.update_workload_v2, ref, change))
    client.call(work.delete_workload_v2, ref)
    return bodies


def main() -> None:
    client = Client(GIVEN["kind"])
    organisation, work = client.runai.organizations, client.runai.workloads
    spec = {"image": "python:3.11", "command": "true", "compute": {"cpuCoreRequest": 0.1}}
    body = models.TrainingCreationRequest.model_validate({"name": "read", **GIVEN["place"], "spec": spec})
    ref = client.call(work.trainings.create_training1, body)["workloadId"]
    bodies: dict[str, tuple[Any, Any]] = {
        "projects": (GetProjects200Response, client.call(organisation.projects.get_projects)),
        "departments": (GetDepartments200Response, client.call(organisation.departments.get_departments)),
        "pools": (GetNodepools200Response, client.call(organisation.node_pools.get_nodepools)),
        "nodes": (models.Nodes, client.call(organisation.nodes.get_tenant_nodes)),
        "node telemetry": (
            models.TelemetryResponse,
            client.call(organisation.nodes.get_node_telemetry, telemetry_type="TOTAL_GPUS", group_by=["Nodepool"]),
        ),
        "types": (
            models.ListWorkloadTypes200Response,
            client.call(work.workload_properties.list_workload_types),
        ),
        "categories": (models.ListCategories200Response, client.call(work.workload_properties.list_categories)),
        "priorities": (
            models.GetWorkloadPriorities200Response,
            client.call(work.workload_properties.get_workload_priorities),
        ),
        "events": (models.GetWorkloadEvents200Response, client.call(work.events.get_workload_events, ref)),
        "history": (models.GetWorkloadHistory200Response, client.call(work.events.get_workload_history, ref)),
    }
    until(
        lambda: client.call(work.pods.count_pods, filter_by=[f"workloadId=={ref}"])["count"], lambda count: count == 1
    )
    bodies |= {
        "pods": (models.ListPods200Response, client.call(work.pods.get_workload_pods, ref)),
        "all pods": (
            models.ListPods200Response,
            client.call(work.pods.list_pods, verbosity="full", sort_by="createdAt"),
        ),
    }
    pod = bodies["pods"][1]["pods"][0]["id"]
    end = datetime.now(UTC)
    asked: dict[str, Any] = {"start": end - timedelta(minutes=5), "end": end, "number_of_samples": 5}
    serving = client.call(
        work.inferences.create_inference1,
        models.InferenceCreationRequest.model_validate({"name": "serve", **GIVEN["place"], "spec": spec}),
    )["workloadId"]
    inferred = [models.InferenceWorkloadMetricType.THROUGHPUT, models.InferenceWorkloadMetricType.LATENCY]
    bodies |= {
        "pod metrics": (
            models.MetricsCompositeResponse,
            client.call(work.pods.get_workload_pod_metrics, ref, pod, metric_type=list(models.PodMetricType), **asked),
        ),
        "changed inference": (
            models.Inference1,
            client.call(
                work.inferences.update_inference_spec,
                serving,
                models.InferenceUpdateRequest.model_validate({"spec": {"image": "python:3.12"}}),
            ),
        ),
        "inference metrics": (
            models.MetricsResponse,
            client.call(work.inferences.get_inference_workload_metrics, serving, metric_type=inferred, **asked),
        ),
    }
    bodies |= as_manifest(client)
    for model, answer in bodies.values():
        model.model_validate(answer)
    clusters = client.call(organisation.clusters.get_clusters)
    for each in clusters:
        models.DisplayedCluster.model_validate(each)
    filtered = client.call(organisation.projects.get_projects, filter_by=["name==default", "createdAt>=2000-01-01"])
    client.close()
    print(
        json.dumps(
            {
                "clusters": [each["name"] for each in clusters],
                "projects": [each["name"] for each in filtered["projects"]],
                "events": [each["reason"] for each in bodies["events"][1]["events"]],
                "pods": [each["workloadId"] == ref for each in bodies["pods"][1]["pods"]],
                "names": all(each["workloadName"] for each in bodies["all pods"][1]["pods"]),
                "pod metrics": len({each["type"] for each in bodies["pod metrics"][1]["measurements"]}),
                "inference metrics": [each["type"] for each in bodies["inference metrics"][1]["measurements"]],
                "image": bodies["changed inference"][1]["spec"]["image"],
                "manifest": bodies["manifest"][1]["metadata"]["priority"],
                "nodes": len(bodies["nodes"][1]["nodes"]),
            }
        )
    )


main()
