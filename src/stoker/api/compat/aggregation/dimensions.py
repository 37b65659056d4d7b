"""What can be asked for: clusters, namespaces, and the keys and values of labels and annotations.

A range of time leaves those that have hours in it.
"""

from stoker.api.aggregation.hours import BASE
from stoker.api.aggregation.params import EVER, KeysParams, SometimeParams, ValuesParams
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import AGGREGATION
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import Action
from stoker.domain.usage import DimensionQuery, HoursQuery


@endpoint(
    "GET",
    f"{BASE}/clusters",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=SometimeParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_clusters(call: Call[SometimeParams]) -> list[str]:
    """Every cluster, or those that have hours in a range of time; of these the one that is named, if one is."""
    found = await call.services.usage.clusters(call.params.between)
    if not call.params.cluster:
        return found
    named = await call.services.usage.cluster(call.params.cluster)
    return [name for name in found if name == named.name]


@endpoint(
    "GET",
    f"{BASE}/namespaces",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=SometimeParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_namespaces(call: Call[SometimeParams]) -> list[str]:
    """The namespaces whose workloads held GPUs."""
    cluster = await call.services.usage.cluster(call.params.cluster)
    return await call.services.usage.namespaces(HoursQuery(cluster.id, *(call.params.between or EVER)))


@endpoint(
    "GET",
    f"{BASE}/dimension-keys",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=KeysParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_dimension_keys(call: Call[KeysParams]) -> list[str]:
    """The keys of labels, or of annotations, that workloads which held GPUs carried."""
    return await call.services.usage.dimension_keys(await _query(call, ""))


@endpoint(
    "GET",
    f"{BASE}/dimension-values",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=ValuesParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_dimension_values(call: Call[ValuesParams]) -> list[str]:
    """The values that one of these keys had."""
    return await call.services.usage.dimension_values(await _query(call, call.params.dimension_key))


async def _query(call: Call[KeysParams] | Call[ValuesParams], key: str) -> DimensionQuery:
    cluster = await call.services.usage.cluster(call.params.cluster)
    return DimensionQuery(cluster.id, *(call.params.between or EVER), kind=call.params.dimension_type, key=key)
