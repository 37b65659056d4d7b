"""The operations on closed hours: by cluster, namespace, label or annotation, and workload.

The first three give all hours of a range, and a page of them when one is asked for. Times are hours of UTC;
utilization and rates go from 0 to 100; GPU counts are means over the whole hour.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from stoker.api.aggregation.params import LabelParams, NamespaceParams, PageParams, WorkloadParams
from stoker.api.aggregation.rows import (
    ClusterStats,
    LabelStats,
    NamespaceStats,
    Paged,
    WorkloadStats,
    cluster_row,
    label_row,
    namespace_row,
    paged,
    workload_row,
)
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import AGGREGATION
from stoker.api.streams import LongList, listed
from stoker.domain.errors import ErrorCode
from stoker.domain.identity import Cluster
from stoker.domain.permissions import Action
from stoker.domain.usage import DimensionQuery, HoursOrder, HoursQuery
from stoker.services.usage import Hours

BASE = "/api/v1/gpu-aggregation"
H = TypeVar("H", bound=Struct)
R = TypeVar("R", bound=Struct)


@endpoint(
    "GET",
    f"{BASE}/cluster/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=PageParams,
    result=list[ClusterStats] | Paged[ClusterStats],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_cluster_hours(call: Call[PageParams]) -> list[ClusterStats] | Paged[ClusterStats] | LongList:
    """A cluster, hour by hour: how many of its GPUs were held, and how busy they were."""
    cluster = await call.services.usage.cluster(call.params.cluster)
    query = HoursQuery(cluster.id, *call.params.between)
    return await _hours(call.params, call.services.usage.cluster_hours, query, cluster, cluster_row)


@endpoint(
    "GET",
    f"{BASE}/namespaces/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=NamespaceParams,
    result=list[NamespaceStats] | Paged[NamespaceStats],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_namespace_hours(
    call: Call[NamespaceParams],
) -> list[NamespaceStats] | Paged[NamespaceStats] | LongList:
    """Namespaces, hour by hour. The capacity of a namespace is its quota if it has one, else the cluster's."""
    asked = call.params
    cluster = await call.services.usage.cluster(asked.cluster)
    query = HoursQuery(cluster.id, *asked.between, namespace=asked.namespace)
    return await _hours(asked, call.services.usage.namespace_hours, query, cluster, namespace_row)


@endpoint(
    "GET",
    f"{BASE}/labels/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=LabelParams,
    result=list[LabelStats] | Paged[LabelStats],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_label_hours(call: Call[LabelParams]) -> list[LabelStats] | Paged[LabelStats] | LongList:
    """What workloads with a label, or with an annotation, had together, hour by hour."""
    asked = call.params
    cluster = await call.services.usage.cluster(asked.cluster)
    query = DimensionQuery(
        cluster.id, *asked.between, kind=asked.dimension_type, key=asked.dimension_key, value=asked.dimension_value
    )
    return await _hours(asked, call.services.usage.dimension_hours, query, cluster, label_row)


@endpoint(
    "GET",
    f"{BASE}/workloads/hourly-stats",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=WorkloadParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_workload_hours(call: Call[WorkloadParams]) -> Paged[WorkloadStats]:
    """Workloads, hour by hour. A gigabyte of GPU memory has 1024³ bytes.

    Two workloads of one name have a row each: `owner_uid` tells them apart.
    """
    asked = call.params
    cluster = await call.services.usage.cluster(asked.cluster)
    query = HoursQuery(
        cluster.id,
        *asked.between,
        namespace=asked.namespace,
        name=asked.workload_name,
        kind=asked.workload_type,
        order=HoursOrder(asked.order_by),
        descending=asked.order_direction == "desc",
    )
    found = await call.services.usage.workloads(query, asked.window)
    return paged(found, asked.window, lambda hour: workload_row(cluster, hour))


async def _hours(
    asked: PageParams,
    hours: Hours[H],
    query: HoursQuery | DimensionQuery,
    cluster: Cluster,
    row: Callable[[Cluster, H], R],
) -> list[R] | Paged[R] | LongList:
    if asked.window is None:
        return await listed(hours.stream(query), lambda hour: row(cluster, hour))
    return paged(await hours.page(query, asked.window), asked.window, lambda hour: row(cluster, hour))
