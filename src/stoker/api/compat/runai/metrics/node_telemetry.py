"""Current totals of nodes. Numbers are strings."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta
from starlette.responses import Response

from stoker.api.compat.runai.metrics.workload_telemetry import Telemetry, TelemetryGroup, TelemetryValue, telemetry_csv
from stoker.api.compat.runai.workloads.mapping import format_number
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.negotiation import CSV_MEDIA_TYPE, prefers_csv
from stoker.api.http.params import Params
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import ErrorCode
from stoker.services.fleet.node_aggregates import NodeAggregate, NodeGrouping, NodeMetric

NodeTelemetryType = Literal[
    "READY_GPU_NODES",
    "READY_GPUS",
    "TOTAL_GPU_NODES",
    "TOTAL_GPUS",
    "IDLE_ALLOCATED_GPUS",
    "FREE_GPUS",
    "ALLOCATED_GPUS",
    "TOTAL_CPU_CORES",
    "USED_CPU_CORES",
    "ALLOCATED_CPU_CORES",
    "TOTAL_GPU_MEMORY_BYTES",
    "USED_GPU_MEMORY_BYTES",
    "TOTAL_CPU_MEMORY_BYTES",
    "USED_CPU_MEMORY_BYTES",
    "ALLOCATED_CPU_MEMORY_BYTES",
    "FULLY_FREE_GPU_NODES",
]
NodeGroupBy = Literal["ClusterId", "Nodepool", "Node"]
AMOUNT_BY_TYPE: dict[NodeTelemetryType, NodeMetric] = {
    "READY_GPU_NODES": NodeMetric.READY_GPU_NODES,
    "READY_GPUS": NodeMetric.READY_GPUS,
    "TOTAL_GPU_NODES": NodeMetric.GPU_NODES,
    "TOTAL_GPUS": NodeMetric.GPUS,
    "IDLE_ALLOCATED_GPUS": NodeMetric.IDLE_GPUS,
    "FREE_GPUS": NodeMetric.FREE_GPUS,
    "ALLOCATED_GPUS": NodeMetric.ALLOCATED_GPUS,
    "TOTAL_CPU_CORES": NodeMetric.CPUS,
    "USED_CPU_CORES": NodeMetric.USED_CPUS,
    "ALLOCATED_CPU_CORES": NodeMetric.ALLOCATED_CPUS,
    "TOTAL_GPU_MEMORY_BYTES": NodeMetric.GPU_MEMORY,
    "USED_GPU_MEMORY_BYTES": NodeMetric.GPU_MEMORY_USED,
    "TOTAL_CPU_MEMORY_BYTES": NodeMetric.MEMORY,
    "USED_CPU_MEMORY_BYTES": NodeMetric.USED_MEMORY,
    "ALLOCATED_CPU_MEMORY_BYTES": NodeMetric.ALLOCATED_MEMORY,
    "FULLY_FREE_GPU_NODES": NodeMetric.FREE_GPU_NODES,
}
GROUPING_BY_NAME: dict[NodeGroupBy, tuple[NodeGrouping, str]] = {
    "ClusterId": (NodeGrouping.CLUSTER, "cluster"),
    "Nodepool": (NodeGrouping.POOL, "nodepool"),
    "Node": (NodeGrouping.NODE, "node"),
}


class NodeTelemetryParams(Params, frozen=True, kw_only=True, rename="camel"):
    telemetry_type: NodeTelemetryType
    group_by: Annotated[tuple[NodeGroupBy, ...], Meta(max_length=2)] = ()
    cluster_id: Annotated[str, Meta(max_length=100)] = ""
    nodepool_name: Annotated[str, Meta(max_length=1000)] = ""


@endpoint(
    "GET",
    "/api/v1/nodes/telemetry",
    family=RUNAI,
    action=Action.CLUSTER_READ,
    params=NodeTelemetryParams,
    result=Telemetry,
    alt_media_types=(CSV_MEDIA_TYPE,),
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_node_telemetry(call: Call[NodeTelemetryParams]) -> Telemetry | Response:
    """Current capacity, allocation and usage of nodes, in total or by group."""
    asked = call.params
    groups = [GROUPING_BY_NAME[each] for each in dict.fromkeys(asked.group_by)]
    sums, at = await call.services.node_aggregates.read(
        AMOUNT_BY_TYPE[asked.telemetry_type], [by for by, _ in groups], asked.cluster_id, asked.nodepool_name
    )
    keys = [key for _, key in groups]
    answer = Telemetry(asked.telemetry_type, format_rfc3339(at), [_to_value(each, keys) for each in sums])
    return telemetry_csv(answer, keys) if prefers_csv(call.request) else answer


def _to_value(found: NodeAggregate, keys: list[str]) -> TelemetryValue:
    groups = [TelemetryGroup(key, value, name or UNSET) for key, (value, name) in zip(keys, found.groups, strict=True)]
    return TelemetryValue(format_number(found.value), groups or UNSET)
