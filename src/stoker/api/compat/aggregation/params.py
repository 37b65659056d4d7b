"""Parameters of the aggregation family. All operations accept `cluster`; a time range includes both ends."""

from typing import Annotated, Literal

from msgspec import Meta

from stoker.api.compat.aggregation.formatting import RFC3339_PATTERN, parse_time
from stoker.api.http.params import Params
from stoker.domain.clock import DAY_MS
from stoker.domain.errors import bad_request
from stoker.domain.queries.pages import PageRequest

Rfc3339Text = Annotated[
    str, Meta(pattern=RFC3339_PATTERN, max_length=40, description="an RFC 3339 time", examples=["2025-11-05T14:00:00Z"])
]
PageNumber = Annotated[int, Meta(ge=1, le=2**31, description="From 1.")]
PageSize = Annotated[int, Meta(ge=1, le=1000)]
Namespace = Annotated[str, Meta(description="The whole name; all namespaces when left out.")]
DimensionType = Literal["label", "annotation"]
DimensionKey = Annotated[str, Meta(min_length=1, description="The key of a label or an annotation.")]
ALL_TIME = (-(1 << 62), 1 << 62)
DEFAULT_PAGE_SIZE = 20


class AggregationClusterParams(Params, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="By name or id; the default cluster when left out.")] = ""


class TimeRangeParams(AggregationClusterParams, frozen=True, kw_only=True):
    start_time: Rfc3339Text
    end_time: Rfc3339Text

    @property
    def time_range(self) -> tuple[int, int]:
        return check_order(parse_time(self.start_time, "start_time"), parse_time(self.end_time, "end_time"))


class OptionalTimeRangeParams(AggregationClusterParams, frozen=True, kw_only=True):
    start_time: Rfc3339Text | None = None
    end_time: Rfc3339Text | None = None

    @property
    def time_range(self) -> tuple[int, int] | None:
        """None without a time range."""
        begin, end = self._parsed_times
        if begin is None and end is None:
            return None
        return check_order(ALL_TIME[0] if begin is None else begin, ALL_TIME[1] if end is None else end)

    def time_range_until(self, now: int) -> tuple[int, int]:
        """The time range; by default the last 24 hours."""
        begin, end = self._parsed_times
        end = now if end is None else end
        return check_order(end - DAY_MS if begin is None else begin, end)

    @property
    def _parsed_times(self) -> tuple[int | None, int | None]:
        begin = None if self.start_time is None else parse_time(self.start_time, "start_time")
        return begin, None if self.end_time is None else parse_time(self.end_time, "end_time")


class HourlyPageParams(TimeRangeParams, frozen=True, kw_only=True):
    page: PageNumber | None = None
    page_size: PageSize | None = None

    @property
    def page_request(self) -> PageRequest | None:
        """None without paging."""
        if self.page is None and self.page_size is None:
            return None
        return page_request_for(self.page or 1, self.page_size or DEFAULT_PAGE_SIZE)


class NamespaceHoursParams(HourlyPageParams, frozen=True, kw_only=True):
    namespace: Namespace = ""


class LabelHoursParams(HourlyPageParams, frozen=True, kw_only=True):
    dimension_type: DimensionType
    dimension_key: DimensionKey
    dimension_value: Annotated[str, Meta(description="All values of the key when left out.")] = ""


class WorkloadHoursParams(TimeRangeParams, frozen=True, kw_only=True):
    namespace: Namespace = ""
    workload_name: Annotated[str, Meta(description="The whole name that it was given; all when left out.")] = ""
    workload_type: Annotated[str, Meta(description="A kind, as Job or PyTorchJob; all when left out.")] = ""
    page: PageNumber = 1
    page_size: PageSize = DEFAULT_PAGE_SIZE
    order_by: Literal["time", "utilization"] = "time"
    order_direction: Literal["asc", "desc"] = "asc"

    @property
    def page_request(self) -> PageRequest:
        return page_request_for(self.page, self.page_size)


class DimensionKeysParams(OptionalTimeRangeParams, frozen=True, kw_only=True):
    dimension_type: DimensionType = "label"


class DimensionValuesParams(DimensionKeysParams, frozen=True, kw_only=True):
    dimension_key: DimensionKey


class SnapshotListParams(OptionalTimeRangeParams, frozen=True, kw_only=True):
    details: Annotated[bool, Meta(description="With what every workload held.")] = False


def check_order(begin: int, end: int) -> tuple[int, int]:
    if begin > end:
        raise bad_request("start_time", "it is after end_time. Use a time that is not later than end_time.")
    return begin, end


def page_request_for(page: int, size: int) -> PageRequest:
    return PageRequest((page - 1) * size, size)
