"""Nodes added up now. Every number is text here."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta
from starlette.responses import Response

from stoker.api.csv_text import CSV, wants_csv
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import Params
from stoker.api.runai.telemetry import Telemetry, TelemetryGroup, TelemetryValue, telemetry_csv
from stoker.api.runai.translate import number_text
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import Action
from stoker.services.node_totals import NodeAmount, NodeGrouping, NodeSum

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
AMOUNTS: dict[NodeTelemetryType, NodeAmount] = {
    "READY_GPU_NODES": NodeAmount.READY_GPU_NODES,
    "READY_GPUS": NodeAmount.READY_GPUS,
    "TOTAL_GPU_NODES": NodeAmount.GPU_NODES,
    "TOTAL_GPUS": NodeAmount.GPUS,
    "IDLE_ALLOCATED_GPUS": NodeAmount.IDLE_GPUS,
    "FREE_GPUS": NodeAmount.FREE_GPUS,
    "ALLOCATED_GPUS": NodeAmount.ALLOCATED_GPUS,
    "TOTAL_CPU_CORES": NodeAmount.CPUS,
    "USED_CPU_CORES": NodeAmount.USED_CPUS,
    "ALLOCATED_CPU_CORES": NodeAmount.ALLOCATED_CPUS,
    "TOTAL_GPU_MEMORY_BYTES": NodeAmount.GPU_MEMORY,
    "USED_GPU_MEMORY_BYTES": NodeAmount.GPU_MEMORY_USED,
    "TOTAL_CPU_MEMORY_BYTES": NodeAmount.MEMORY,
    "USED_CPU_MEMORY_BYTES": NodeAmount.USED_MEMORY,
    "ALLOCATED_CPU_MEMORY_BYTES": NodeAmount.ALLOCATED_MEMORY,
    "FULLY_FREE_GPU_NODES": NodeAmount.FREE_GPU_NODES,
}
GROUPINGS: dict[NodeGroupBy, tuple[NodeGrouping, str]] = {
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
    also=(CSV,),
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_node_telemetry(call: Call[NodeTelemetryParams]) -> Telemetry | Response:
    """What nodes have, hold and use now, of all of them or in groups."""
    asked = call.params
    groups = [GROUPINGS[each] for each in dict.fromkeys(asked.group_by)]
    sums, at = await call.services.node_totals.read(
        AMOUNTS[asked.telemetry_type], [by for by, _ in groups], asked.cluster_id, asked.nodepool_name
    )
    keys = [key for _, key in groups]
    answer = Telemetry(asked.telemetry_type, rfc3339(at), [_value(each, keys) for each in sums])
    return telemetry_csv(answer, keys) if wants_csv(call.request) else answer


def _value(found: NodeSum, keys: list[str]) -> TelemetryValue:
    groups = [TelemetryGroup(key, value, name or UNSET) for key, (value, name) in zip(keys, found.groups, strict=True)]
    return TelemetryValue(number_text(found.amount), groups or UNSET)
