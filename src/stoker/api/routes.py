"""Every endpoint there is."""

from stoker.api import pages
from stoker.api.aggregation import hours, names, snapshots
from stoker.api.endpoint import Endpoint, endpoints_of
from stoker.api.lens import clusters as lens_clusters
from stoker.api.lens import series as lens_series
from stoker.api.lens import workloads as lens_workloads
from stoker.api.native import (
    credentials,
    departments,
    explain,
    fleet,
    installation,
    measurements,
    sessions,
    training,
    users,
    waste,
    webhooks,
    workspaces,
)
from stoker.api.native import usage as native_usage
from stoker.api.native import workloads as native_workloads
from stoker.api.runai import (
    actions,
    events,
    node_telemetry,
    organisation,
    places,
    properties,
    submit,
    telemetry,
    token,
    v2,
)
from stoker.api.runai import metrics as runai_metrics
from stoker.api.runai import pods as runai_pods
from stoker.api.runai import workloads as runai_workloads
from stoker.api.safe import pods, workloads

ENDPOINTS: list[Endpoint] = endpoints_of(
    (
        workloads,
        pods,
        lens_workloads,
        lens_series,
        lens_clusters,
        names,
        hours,
        snapshots,
        native_workloads,
        training,
        explain,
        fleet,
        measurements,
        native_usage,
        waste,
        sessions,
        users,
        departments,
        workspaces,
        credentials,
        webhooks,
        installation,
        token,
        submit,
        v2,
        actions,
        events,
        runai_pods,
        organisation,
        places,
        properties,
        runai_workloads,
        runai_metrics,
        telemetry,
        node_telemetry,
        pages,
    )
)
