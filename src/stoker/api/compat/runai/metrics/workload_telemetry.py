"""Current totals of workloads. Numbers are strings."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from stoker.api.compat.runai.workloads.list_endpoints import WORKLOADS_PATH
from stoker.api.compat.runai.workloads.mapping import format_number
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.exports import csv_response
from stoker.api.http.families import RUNAI
from stoker.api.http.negotiation import CSV_MEDIA_TYPE, prefers_csv
from stoker.api.http.params import Params
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import ErrorCode, bad_request
from stoker.domain.workload.phase import Phase
from stoker.services.fleet.workload_aggregates import (
    AggregateGroup,
    AggregateGrouping,
    AggregateMetric,
    AggregateValue,
    WorkloadAggregateQuery,
)

TelemetryType = Literal["WORKLOADS_COUNT", "GPU_ALLOCATION", "PENDING_TIME_DISTRIBUTION"]
GroupBy = Literal["ClusterId", "DepartmentId", "ProjectId", "Type", "CurrentNodepools", "Phase", "Category"]
AMOUNT_BY_TYPE: dict[TelemetryType, AggregateMetric] = {
    "WORKLOADS_COUNT": AggregateMetric.WORKLOADS,
    "GPU_ALLOCATION": AggregateMetric.GPUS,
    "PENDING_TIME_DISTRIBUTION": AggregateMetric.PENDING,
}
GROUPING_BY_NAME: dict[GroupBy, AggregateGrouping] = {
    "ClusterId": AggregateGrouping.CLUSTER,
    "DepartmentId": AggregateGrouping.DEPARTMENT,
    "ProjectId": AggregateGrouping.WORKSPACE,
    "Type": AggregateGrouping.KIND,
    "CurrentNodepools": AggregateGrouping.POOLS,
    "Phase": AggregateGrouping.PHASE,
    "Category": AggregateGrouping.CATEGORY,
}
KEY_BY_GROUPING = {
    AggregateGrouping.CLUSTER: "cluster",
    AggregateGrouping.DEPARTMENT: "department",
    AggregateGrouping.WORKSPACE: "project",
    AggregateGrouping.KIND: "type",
    AggregateGrouping.POOLS: "nodepool",
    AggregateGrouping.PHASE: "phase",
    AggregateGrouping.CATEGORY: "category",
    AggregateGrouping.WAIT_TIME: "pendingTime",
}
PENDING_TIME_BUCKETS = ("<5m", "5m-1h", "1h-24h", ">24h")


class TelemetryParams(Params, frozen=True, kw_only=True, rename="camel"):
    telemetry_type: TelemetryType
    group_by: Annotated[tuple[GroupBy, ...], Meta(max_length=2)] = ()
    cluster_id: Annotated[str, Meta(max_length=100)] = ""
    cluster: Annotated[str, Meta(description="The same, by name or id.")] = ""
    nodepool_name: Annotated[str, Meta(max_length=1000)] = ""
    department_id: Annotated[str, Meta(max_length=100)] = ""
    filter_by_phases: tuple[Phase, ...] = ()


class TelemetryGroup(Struct, frozen=True):
    key: str
    value: str
    name: str | UnsetType = UNSET


class TelemetryValue(Struct, frozen=True):
    value: str
    groups: list[TelemetryGroup] | UnsetType = UNSET


class Telemetry(Struct, frozen=True):
    type: str
    timestamp: str
    values: list[TelemetryValue]


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/telemetry",
    family=RUNAI,
    action=Action.WORKLOAD_LIST,
    params=TelemetryParams,
    result=Telemetry,
    alt_media_types=(CSV_MEDIA_TYPE,),
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_runai_telemetry(call: Call[TelemetryParams]) -> Telemetry | Response:
    """Current count, allocation or pending time of workloads, without deleted ones.

    A workload in several node pools counts once, in the group of exactly these pools. Pending times are grouped into
    less than 5 minutes, an hour, a day, and more.
    """
    asked = call.params
    groups = tuple(dict.fromkeys(GROUPING_BY_NAME[each] for each in asked.group_by))
    if AMOUNT_BY_TYPE[asked.telemetry_type] is AggregateMetric.PENDING:
        if len(groups) > 1:
            raise bad_request("groupBy", "the time waited is a group itself, and two are the most. Use one at most.")
        groups = (AggregateGrouping.WAIT_TIME, *groups)
    query = WorkloadAggregateQuery(
        metric=AMOUNT_BY_TYPE[asked.telemetry_type],
        by=groups,
        cluster=asked.cluster_id or asked.cluster,
        pool=asked.nodepool_name,
        department_id=asked.department_id,
        phases=asked.filter_by_phases or None,
    )
    sums, at = await call.services.workload_aggregates.read(call.actor, query)
    answer = Telemetry(asked.telemetry_type, format_rfc3339(at), [_to_value(each) for each in sums])
    return telemetry_csv(answer, [KEY_BY_GROUPING[each] for each in groups]) if prefers_csv(call.request) else answer


def _to_value(found: AggregateValue) -> TelemetryValue:
    return TelemetryValue(
        format_number(found.value), [_to_group(each) for each in found.groups] if found.groups else UNSET
    )


def _to_group(group: AggregateGroup) -> TelemetryGroup:
    value = PENDING_TIME_BUCKETS[int(group.value)] if group.by is AggregateGrouping.WAIT_TIME else group.value
    return TelemetryGroup(KEY_BY_GROUPING[group.by], value, group.name or UNSET)


def telemetry_csv(answer: Telemetry, keys: Sequence[str]) -> Response:
    """One line for each value, with its groups."""
    return csv_response(
        ("telemetryType", "timestamp", *keys, "value"),
        (
            (answer.type, answer.timestamp, *(group.value for group in each.groups or ()), each.value)
            for each in answer.values
        ),
    )
