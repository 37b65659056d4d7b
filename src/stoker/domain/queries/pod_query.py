"""The query of the lists of pods."""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.queries.filters import FilterOperator


class PodField(StrEnum):
    """The fields that pods are filtered and sorted by."""

    CLUSTER_ID = "cluster_id"
    WORKLOAD_UID = "workload_uid"
    REVISION = "revision"
    NODE = "node"
    NODE_POOL = "node_pool"
    CREATED_AT = "created_at"
    ENDED_AT = "ended_at"
    DELETED_AT = "deleted_at"


class PodFilter(Struct, frozen=True):
    field: PodField
    operator: FilterOperator
    value: str | int


class PodQuery(Struct, frozen=True, kw_only=True):
    """`workspace_ids` of None means every workspace. `ended` selects finished or unfinished pods, `deleted` the pods of
    deleted or of existing workloads; None selects both. Without `sort`, pods are ordered by uid."""

    workspace_ids: tuple[int, ...] | None = None
    workload_uid: str = ""
    deleted: bool | None = False
    ended: bool | None = None
    search: str = ""
    filters: tuple[PodFilter, ...] = ()
    sort: PodField | None = None
    descending: bool = False
