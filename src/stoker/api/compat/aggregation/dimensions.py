"""Dimensions of the usage statistics: clusters, namespaces, and the keys and values of labels and annotations.

With a time range, only dimensions with usage in the range are listed.
"""

from stoker.api.compat.aggregation.hourly_stats import BASE_PATH
from stoker.api.compat.aggregation.params import (
    ALL_TIME,
    DimensionKeysParams,
    DimensionValuesParams,
    OptionalTimeRangeParams,
)
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import AGGREGATION
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.usage.hours import DimensionQuery, HoursQuery


@endpoint(
    "GET",
    f"{BASE_PATH}/clusters",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=OptionalTimeRangeParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_clusters(call: Call[OptionalTimeRangeParams]) -> list[str]:
    """All clusters, or those with usage in a time range; `cluster` selects one of them."""
    found = await call.services.usage.cluster_names(call.optional_actor, call.params.time_range)
    if not call.params.cluster:
        return found
    named = await call.services.usage.get_cluster(call.params.cluster)
    return [name for name in found if name == named.name]


@endpoint(
    "GET",
    f"{BASE_PATH}/namespaces",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=OptionalTimeRangeParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_namespaces(call: Call[OptionalTimeRangeParams]) -> list[str]:
    """The namespaces with workloads that had GPUs allocated."""
    cluster = await call.services.usage.get_cluster(call.params.cluster)
    return await call.services.usage.namespace_names(
        call.optional_actor, HoursQuery(cluster.id, *(call.params.time_range or ALL_TIME))
    )


@endpoint(
    "GET",
    f"{BASE_PATH}/dimension-keys",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=DimensionKeysParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_dimension_keys(call: Call[DimensionKeysParams]) -> list[str]:
    """The label or annotation keys of workloads that had GPUs allocated."""
    return await call.services.usage.dimension_keys(call.optional_actor, await _dimension_query(call, ""))


@endpoint(
    "GET",
    f"{BASE_PATH}/dimension-values",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=DimensionValuesParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_dimension_values(call: Call[DimensionValuesParams]) -> list[str]:
    """The values of a label or annotation key."""
    return await call.services.usage.dimension_values(
        call.optional_actor, await _dimension_query(call, call.params.dimension_key)
    )


async def _dimension_query(call: Call[DimensionKeysParams] | Call[DimensionValuesParams], key: str) -> DimensionQuery:
    cluster = await call.services.usage.get_cluster(call.params.cluster)
    return DimensionQuery(cluster.id, *(call.params.time_range or ALL_TIME), kind=call.params.dimension_type, key=key)
