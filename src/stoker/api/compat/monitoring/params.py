"""Parameters of the monitoring family. All operations accept `cluster`."""

from typing import Annotated, Literal

from msgspec import Meta

from stoker.api.compat.monitoring.enums import Status
from stoker.api.http.params import Params
from stoker.domain.queries.pages import PageRequest

Seconds = Annotated[int, Meta(ge=0, le=2**43, description="Unix seconds.")]
Milliseconds = Annotated[int, Meta(ge=0, le=2**53, description="Unix milliseconds.")]


class MonitoringClusterParams(Params, frozen=True, kw_only=True, rename="camel"):
    cluster: Annotated[str, Meta(description="Only of this cluster, by name or id.")] = ""


class MonitoringPageParams(MonitoringClusterParams, frozen=True, kw_only=True, rename="camel"):
    page_num: Annotated[int, Meta(ge=1, le=2**31, description="From 1.")] = 1
    page_size: Annotated[int, Meta(ge=1, le=1000)] = 10

    @property
    def page_request(self) -> PageRequest:
        return PageRequest((self.page_num - 1) * self.page_size, self.page_size)


class MonitoringListParams(MonitoringPageParams, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, Meta(max_length=1000, description="Part of the name, in any case.")] = ""
    kind: str = ""
    namespace: str = ""
    status: Status | None = None
    order_by: Literal["start_at", "end_at"] | None = None
    order: Literal["desc", "asc"] = "desc"


class MonitoringWorkloadPath(MonitoringClusterParams, frozen=True, kw_only=True, rename="camel"):
    uid: Annotated[str, Meta(description="The uid, or the id that the management API shows.")]


class MonitoringMetricsParams(MonitoringWorkloadPath, frozen=True, kw_only=True, rename="camel"):
    start: Seconds
    end: Seconds
    step: Annotated[int, Meta(ge=1, le=2**43, description="Seconds between two points.")] = 60


class MonitoringTrainingParams(MonitoringWorkloadPath, frozen=True, kw_only=True, rename="camel"):
    start: Milliseconds
    end: Milliseconds


class HeatmapParams(MonitoringClusterParams, frozen=True, kw_only=True, rename="camel"):
    top_k: Annotated[int, Meta(ge=1, le=100, description="How many GPUs of each metric.")] = 5
