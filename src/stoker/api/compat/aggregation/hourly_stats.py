"""Hourly usage statistics by cluster, namespace, label or annotation, and workload.

The first three return all hours of a range, or one page if paging parameters are given. Times are UTC hours;
utilization and rates are 0 to 100; GPU counts are means over the whole hour.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from stoker.api.compat.aggregation.params import (
    HourlyPageParams,
    LabelHoursParams,
    NamespaceHoursParams,
    WorkloadHoursParams,
)
from stoker.api.compat.aggregation.rows import (
    ClusterStats,
    LabelStats,
    NamespaceStats,
    StatsPage,
    WorkloadStats,
    to_cluster_stats,
    to_label_stats,
    to_namespace_stats,
    to_stats_page,
    to_workload_stats,
)
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import AGGREGATION
from stoker.api.http.streaming import StreamedList, list_or_stream
from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.usage.hours import DimensionQuery, HourSort, HoursQuery
from stoker.services.usage.hours import HoursReader

BASE_PATH = "/api/v1/gpu-aggregation"
H = TypeVar("H", bound=Struct)
R = TypeVar("R", bound=Struct)


@endpoint(
    "GET",
    f"{BASE_PATH}/cluster/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=HourlyPageParams,
    result=list[ClusterStats] | StatsPage[ClusterStats],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_cluster_hours(
    call: Call[HourlyPageParams],
) -> list[ClusterStats] | StatsPage[ClusterStats] | StreamedList:
    """Hourly GPU allocation and utilization of a cluster."""
    cluster = await call.services.usage.get_cluster(call.params.cluster)
    query = HoursQuery(cluster.id, *call.params.time_range)
    return await _read_hours(
        call.params, call.services.usage.cluster_hours(call.optional_actor), query, cluster, to_cluster_stats
    )


@endpoint(
    "GET",
    f"{BASE_PATH}/namespaces/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=NamespaceHoursParams,
    result=list[NamespaceStats] | StatsPage[NamespaceStats],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_namespace_hours(
    call: Call[NamespaceHoursParams],
) -> list[NamespaceStats] | StatsPage[NamespaceStats] | StreamedList:
    """Hourly usage of namespaces. The capacity of a namespace is its quota if it has one, else the cluster's."""
    asked = call.params
    cluster = await call.services.usage.get_cluster(asked.cluster)
    query = HoursQuery(cluster.id, *asked.time_range, namespace=asked.namespace)
    return await _read_hours(
        asked, call.services.usage.namespace_hours(call.optional_actor), query, cluster, to_namespace_stats
    )


@endpoint(
    "GET",
    f"{BASE_PATH}/labels/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=LabelHoursParams,
    result=list[LabelStats] | StatsPage[LabelStats],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_label_hours(call: Call[LabelHoursParams]) -> list[LabelStats] | StatsPage[LabelStats] | StreamedList:
    """Hourly usage of all workloads with a label or annotation."""
    asked = call.params
    cluster = await call.services.usage.get_cluster(asked.cluster)
    query = DimensionQuery(
        cluster.id, *asked.time_range, kind=asked.dimension_type, key=asked.dimension_key, value=asked.dimension_value
    )
    return await _read_hours(
        asked, call.services.usage.dimension_hours(call.optional_actor), query, cluster, to_label_stats
    )


@endpoint(
    "GET",
    f"{BASE_PATH}/workloads/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=WorkloadHoursParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_workload_hours(call: Call[WorkloadHoursParams]) -> StatsPage[WorkloadStats]:
    """Hourly usage of workloads. A gigabyte of GPU memory has 1024³ bytes.

    Two workloads of one name have a row each; `owner_uid` distinguishes them.
    """
    asked = call.params
    cluster = await call.services.usage.get_cluster(asked.cluster)
    query = HoursQuery(
        cluster.id,
        *asked.time_range,
        namespace=asked.namespace,
        name=asked.workload_name,
        kind=asked.workload_type,
        order=HourSort(asked.order_by),
        descending=asked.order_direction == "desc",
    )
    found = await call.services.usage.list_workload_hours(call.optional_actor, query, asked.page_request)
    return to_stats_page(found, asked.page_request, lambda hour: to_workload_stats(cluster, hour))


async def _read_hours(
    asked: HourlyPageParams,
    hours: HoursReader[H],
    query: HoursQuery | DimensionQuery,
    cluster: Cluster,
    row: Callable[[Cluster, H], R],
) -> list[R] | StatsPage[R] | StreamedList:
    if asked.page_request is None:
        return await list_or_stream(hours.stream(query), lambda hour: row(cluster, hour))
    return to_stats_page(
        await hours.page(query, asked.page_request), asked.page_request, lambda hour: row(cluster, hour)
    )
