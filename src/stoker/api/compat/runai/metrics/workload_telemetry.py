"""Workloads added up now. Every number is text here."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from stoker.api.csv_text import CSV, csv_response, wants_csv
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import Params
from stoker.api.runai.translate import number_text
from stoker.api.runai.workloads import WORKLOADS
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode, bad_request
from stoker.domain.permissions import Action
from stoker.domain.workload import Phase
from stoker.services.summary import Amount, Group, Grouping, Sum, SummaryQuery

TelemetryType = Literal["WORKLOADS_COUNT", "GPU_ALLOCATION", "PENDING_TIME_DISTRIBUTION"]
GroupBy = Literal["ClusterId", "DepartmentId", "ProjectId", "Type", "CurrentNodepools", "Phase", "Category"]
AMOUNTS: dict[TelemetryType, Amount] = {
    "WORKLOADS_COUNT": Amount.WORKLOADS,
    "GPU_ALLOCATION": Amount.GPUS,
    "PENDING_TIME_DISTRIBUTION": Amount.WAITING,
}
GROUPINGS: dict[GroupBy, Grouping] = {
    "ClusterId": Grouping.CLUSTER,
    "DepartmentId": Grouping.DEPARTMENT,
    "ProjectId": Grouping.WORKSPACE,
    "Type": Grouping.KIND,
    "CurrentNodepools": Grouping.POOLS,
    "Phase": Grouping.PHASE,
    "Category": Grouping.CATEGORY,
}
KEYS = {
    Grouping.CLUSTER: "cluster",
    Grouping.DEPARTMENT: "department",
    Grouping.WORKSPACE: "project",
    Grouping.KIND: "type",
    Grouping.POOLS: "nodepool",
    Grouping.PHASE: "phase",
    Grouping.CATEGORY: "category",
    Grouping.WAITED: "pendingTime",
}
WAITED = ("<5m", "5m-1h", "1h-24h", ">24h")


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
    f"{WORKLOADS}/telemetry",
    family=RUNAI,
    action=Action.WORKLOAD_LIST,
    params=TelemetryParams,
    result=Telemetry,
    also=(CSV,),
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_runai_telemetry(call: Call[TelemetryParams]) -> Telemetry | Response:
    """How many workloads there are, what they hold, or how long they have waited; deleted ones do not count.

    A workload in several node pools counts once, in the group of exactly these pools. The lengths of a wait are a group
    of their own: less than 5 minutes, an hour, a day, and more.
    """
    asked = call.params
    groups = tuple(dict.fromkeys(GROUPINGS[each] for each in asked.group_by))
    if AMOUNTS[asked.telemetry_type] is Amount.WAITING:
        if len(groups) > 1:
            raise bad_request("groupBy", "the time waited is a group itself, and two are the most. Use one at most.")
        groups = (Grouping.WAITED, *groups)
    query = SummaryQuery(
        amount=AMOUNTS[asked.telemetry_type],
        by=groups,
        cluster=asked.cluster_id or asked.cluster,
        pool=asked.nodepool_name,
        department_id=asked.department_id,
        phases=asked.filter_by_phases or None,
    )
    sums, at = await call.services.summary.read(call.actor, query)
    answer = Telemetry(asked.telemetry_type, rfc3339(at), [_value(each) for each in sums])
    return telemetry_csv(answer, [KEYS[each] for each in groups]) if wants_csv(call.request) else answer


def _value(found: Sum) -> TelemetryValue:
    return TelemetryValue(number_text(found.amount), [_group(each) for each in found.groups] if found.groups else UNSET)


def _group(group: Group) -> TelemetryGroup:
    value = WAITED[int(group.value)] if group.by is Grouping.WAITED else group.value
    return TelemetryGroup(KEYS[group.by], value, group.name or UNSET)


def telemetry_csv(answer: Telemetry, keys: Sequence[str]) -> Response:
    """A line for each value, with its groups."""
    return csv_response(
        ("telemetryType", "timestamp", *keys, "value"),
        (
            (answer.type, answer.timestamp, *(group.value for group in each.groups or ()), each.value)
            for each in answer.values
        ),
    )
