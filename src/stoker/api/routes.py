"""All endpoints of the API."""

from stoker.api import system as system_endpoints
from stoker.api.compat.aggregation import dimensions, hourly_stats, snapshots
from stoker.api.compat.management import pods, workloads
from stoker.api.compat.monitoring import clusters as monitoring_clusters
from stoker.api.compat.monitoring import series as monitoring_series
from stoker.api.compat.monitoring import workloads as monitoring_workloads
from stoker.api.compat.runai import auth, catalog
from stoker.api.compat.runai import pods as runai_pods
from stoker.api.compat.runai.metrics import endpoints as runai_metrics
from stoker.api.compat.runai.metrics import node_telemetry, workload_telemetry
from stoker.api.compat.runai.org import clusters_nodes, projects
from stoker.api.compat.runai.org import departments as runai_departments
from stoker.api.compat.runai.workloads import actions, events, manifest_endpoints, submit_endpoints
from stoker.api.compat.runai.workloads import list_endpoints as runai_workloads
from stoker.api.http.endpoint import Endpoint, collect_endpoints
from stoker.api.native import clusters, fleet, system, webhooks
from stoker.api.native.identity import credentials, departments, sessions, users, workspaces
from stoker.api.native.usage import report as native_usage
from stoker.api.native.usage import waste
from stoker.api.native.workloads import explain, metrics, training
from stoker.api.native.workloads import operations as native_workloads

ENDPOINTS: list[Endpoint] = collect_endpoints(
    (
        workloads,
        pods,
        monitoring_workloads,
        monitoring_series,
        monitoring_clusters,
        dimensions,
        hourly_stats,
        snapshots,
        native_workloads,
        training,
        explain,
        fleet,
        metrics,
        native_usage,
        waste,
        sessions,
        users,
        departments,
        workspaces,
        credentials,
        webhooks,
        clusters,
        system,
        auth,
        submit_endpoints,
        manifest_endpoints,
        actions,
        events,
        runai_pods,
        projects,
        runai_departments,
        clusters_nodes,
        catalog,
        runai_workloads,
        runai_metrics,
        workload_telemetry,
        node_telemetry,
        system_endpoints,
    )
)
