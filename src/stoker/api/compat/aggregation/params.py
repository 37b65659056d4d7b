"""What the operations of `aggregation` take. Every one of them takes `cluster`; a range includes both its ends."""

from typing import Annotated, Literal

from msgspec import Meta

from stoker.api.aggregation.words import TIME, instant
from stoker.api.params import Params
from stoker.domain.clock import DAY_MS
from stoker.domain.errors import bad_request
from stoker.domain.listing import Window

Time = Annotated[
    str, Meta(pattern=TIME, max_length=40, description="an RFC 3339 time", examples=["2025-11-05T14:00:00Z"])
]
Page = Annotated[int, Meta(ge=1, le=2**31, description="From 1.")]
PageSize = Annotated[int, Meta(ge=1, le=1000)]
Namespace = Annotated[str, Meta(description="The whole name; all namespaces when left out.")]
Dimension = Literal["label", "annotation"]
Key = Annotated[str, Meta(min_length=1, description="The key of a label or an annotation.")]
EVER = (-(1 << 62), 1 << 62)
USUAL_SIZE = 20


class ClusterParams(Params, frozen=True, kw_only=True):
    cluster: Annotated[str, Meta(description="By name or id; the default cluster when left out.")] = ""


class RangeParams(ClusterParams, frozen=True, kw_only=True):
    start_time: Time
    end_time: Time

    @property
    def between(self) -> tuple[int, int]:
        return in_order(instant(self.start_time, "start_time"), instant(self.end_time, "end_time"))


class SometimeParams(ClusterParams, frozen=True, kw_only=True):
    start_time: Time | None = None
    end_time: Time | None = None

    @property
    def between(self) -> tuple[int, int] | None:
        """None when nothing is said of the time."""
        begin, end = self._given
        if begin is None and end is None:
            return None
        return in_order(EVER[0] if begin is None else begin, EVER[1] if end is None else end)

    def until(self, now: int) -> tuple[int, int]:
        """Up to now, and 24 hours, unless it is said."""
        begin, end = self._given
        end = now if end is None else end
        return in_order(end - DAY_MS if begin is None else begin, end)

    @property
    def _given(self) -> tuple[int | None, int | None]:
        begin = None if self.start_time is None else instant(self.start_time, "start_time")
        return begin, None if self.end_time is None else instant(self.end_time, "end_time")


class PageParams(RangeParams, frozen=True, kw_only=True):
    page: Page | None = None
    page_size: PageSize | None = None

    @property
    def window(self) -> Window | None:
        """None when all is asked for."""
        if self.page is None and self.page_size is None:
            return None
        return window_of(self.page or 1, self.page_size or USUAL_SIZE)


class NamespaceParams(PageParams, frozen=True, kw_only=True):
    namespace: Namespace = ""


class LabelParams(PageParams, frozen=True, kw_only=True):
    dimension_type: Dimension
    dimension_key: Key
    dimension_value: Annotated[str, Meta(description="All values of the key when left out.")] = ""


class WorkloadParams(RangeParams, frozen=True, kw_only=True):
    namespace: Namespace = ""
    workload_name: Annotated[str, Meta(description="The whole name that it was given; all when left out.")] = ""
    workload_type: Annotated[str, Meta(description="A kind, as Job or PyTorchJob; all when left out.")] = ""
    page: Page = 1
    page_size: PageSize = USUAL_SIZE
    order_by: Literal["time", "utilization"] = "time"
    order_direction: Literal["asc", "desc"] = "asc"

    @property
    def window(self) -> Window:
        return window_of(self.page, self.page_size)


class KeysParams(SometimeParams, frozen=True, kw_only=True):
    dimension_type: Dimension = "label"


class ValuesParams(KeysParams, frozen=True, kw_only=True):
    dimension_key: Key


class SnapshotParams(SometimeParams, frozen=True, kw_only=True):
    details: Annotated[bool, Meta(description="With what every workload held.")] = False


def in_order(begin: int, end: int) -> tuple[int, int]:
    if begin > end:
        raise bad_request("start_time", "it is after end_time. Use a time that is not later than end_time.")
    return begin, end


def window_of(page: int, size: int) -> Window:
    return Window((page - 1) * size, size)
