"""The resources of each API family: what the operations of its OpenAPI document are grouped by.

An operation belongs to the resource with the longest matching path.
"""

from collections.abc import Sequence

from msgspec import Struct


class Resource(Struct, frozen=True):
    """`paths` are path templates; everything below them belongs to the resource too."""

    name: str
    description: str
    paths: tuple[str, ...]


_V1 = "/api/stoker/v1"
_WORKLOAD = f"{_V1}/workloads/{{name}}"
NATIVE = (
    Resource("workloads", "Suspend, resume, roll back, explain and search logs.", (f"{_V1}/workloads",)),
    Resource("pods", "Run commands in pods.", (f"{_WORKLOAD}/exec", f"{_V1}/working-directory")),
    Resource(
        "metrics",
        "GPU and training metrics of a workload.",
        (f"{_WORKLOAD}/metrics", f"{_WORKLOAD}/training-metrics"),
    ),
    Resource("events", "Changes of workloads as they happen.", (f"{_V1}/events",)),
    Resource(
        "fleet", "Totals of the fleet, and the workloads that hold GPUs.", (f"{_V1}/overview", f"{_V1}/consumers")
    ),
    Resource("clusters", "Clusters and the state of their sources.", (f"{_V1}/clusters",)),
    Resource("nodes", "Nodes with their capacity and health.", (f"{_V1}/nodes",)),
    Resource("gpus", "GPUs with their current load.", (f"{_V1}/gpus",)),
    Resource("usage", "Usage reports and idle allocations.", (f"{_V1}/usage", f"{_V1}/waste")),
    Resource(
        "sessions", "Log in, log out, and the caller.", tuple(f"{_V1}/{n}" for n in ("login", "logout", "me", "may"))
    ),
    Resource("users", "User accounts.", (f"{_V1}/users",)),
    Resource("departments", "Groups of workspaces.", (f"{_V1}/departments",)),
    Resource("workspaces", "Queues with their quota and members.", (f"{_V1}/workspaces",)),
    Resource("keys", "API keys.", (f"{_V1}/keys",)),
    Resource("applications", "Machine accounts with a client id and a secret.", (f"{_V1}/applications",)),
    Resource("webhooks", "Webhooks and their deliveries.", (f"{_V1}/webhooks",)),
    Resource("audit", "The audit log.", (f"{_V1}/audit",)),
    Resource("server", "Health, Prometheus metrics, settings and the API documents.", ("", f"{_V1}/settings")),
)

_WORKLOADS = "/api/custom/workloads"
MANAGEMENT = (
    Resource("workloads", "Submit, list, change, stop, clone and delete workloads.", (_WORKLOADS,)),
    Resource("pods", "Logs and containers of the pods of a workload.", (f"{_WORKLOADS}/{{name}}/pods",)),
    Resource("services", "The address of a workload's service.", (f"{_WORKLOADS}/{{name}}/service",)),
)

MONITORING = (
    Resource("workloads", "Workloads of the whole fleet.", ("/api/workloads", "/api/workloadMetadata")),
    Resource(
        "metrics",
        "GPU and training metrics of a workload.",
        ("/api/workloads/{uid}/metrics", "/api/workloads/{uid}/trainingPerformance"),
    ),
    Resource("clusters", "Totals, GPU consumers and the hottest GPUs.", ("/api/clusters",)),
)

_AGGREGATION = "/api/v1/gpu-aggregation"
AGGREGATION = (
    Resource("dimensions", "The clusters, namespaces, labels and annotations to group by.", (_AGGREGATION,)),
    Resource(
        "hourly stats",
        "GPU usage by hour.",
        tuple(f"{_AGGREGATION}/{level}/hourly-stats" for level in ("cluster", "namespaces", "labels", "workloads")),
    ),
    Resource("snapshots", "Which workloads held GPUs at a moment.", (f"{_AGGREGATION}/snapshots",)),
)

_RUNAI = "/api/v1/workloads"
RUNAI = (
    Resource("tokens", "Access tokens of applications.", ("/api/v1/token", "/api/v2/token", "/v1/k8s/auth")),
    Resource("workloads", "Submit, list, change, suspend and delete workloads.", (_RUNAI, "/api/v2/workloads")),
    Resource("pods", "Pods of workloads.", (f"{_RUNAI}/pods", f"{_RUNAI}/{{workloadId}}/pods")),
    Resource(
        "metrics",
        "Metrics and telemetry of workloads, pods and nodes.",
        (
            f"{_RUNAI}/{{workloadId}}/metrics",
            f"{_RUNAI}/{{workloadId}}/pods/{{podId}}/metrics",
            f"{_RUNAI}/inferences/{{workloadId}}/metrics",
            f"{_RUNAI}/inferences/{{workloadId}}/pods",
            f"{_RUNAI}/telemetry",
            "/api/v1/nodes/telemetry",
        ),
    ),
    Resource("projects", "Workspaces, as Run:ai calls them.", ("/api/v1/org-unit/projects",)),
    Resource("departments", "Groups of projects.", ("/api/v1/org-unit/departments",)),
    Resource("clusters", "Clusters.", ("/api/v1/clusters",)),
    Resource("node pools", "Node pools with their capacity.", ("/api/v1/node-pools",)),
    Resource(
        "nodes", "Nodes with their capacity and health.", ("/api/v1/nodes", "/api/v1/clusters/{clusterUuid}/nodes")
    ),
    Resource(
        "workload properties",
        "Workload types, categories and priorities.",
        tuple(f"/api/v1/workload-{kind}" for kind in ("types", "categories", "priorities")),
    ),
)


def find_resource(resources: Sequence[Resource], path: str) -> Resource | None:
    """The resource that a path template belongs to."""
    matches = [
        (len(prefix), resource)
        for resource in resources
        for prefix in resource.paths
        if path == prefix or path.startswith(prefix + "/")
    ]
    return max(matches, key=lambda match: match[0])[1] if matches else None
