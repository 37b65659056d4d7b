"""Which points of a range an allocation covers fully, and which only in part."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.intervals import Interval, merge_intervals
from stoker.domain.metrics.series import DeviceAllocation, TimeRange
from stoker.domain.names import natural_sort_key


class PartialWindow(Struct, frozen=True):
    """A part of the step that ends at `point`: after `start`, up to `end`."""

    point: int
    start: int
    end: int


class Coverage(Struct, frozen=True):
    """The points whose whole step is covered, and the covered parts of the other steps."""

    full_points: tuple[range, ...]
    partial_windows: tuple[PartialWindow, ...]

    def is_full(self, point: int) -> bool:
        return any(point in points for points in self.full_points)


def coverage_by_gpu(allocations: Iterable[DeviceAllocation], span: TimeRange) -> dict[GpuId, Coverage]:
    """The coverage by GPU and place. Allocations are shortened to whole seconds, so that no sample of another one is
    included."""
    intervals: defaultdict[GpuId, list[Interval]] = defaultdict(list)
    for allocation in allocations:
        start = -(-allocation.from_at // 1000) * 1000 - 1
        end = span.end if allocation.to_at is None else allocation.to_at // 1000 * 1000 - 1
        intervals[allocation.gpu].append((max(start, span.start - span.step), min(end, span.end)))
    return {gpu: _cover(merge_intervals(found), span) for gpu, found in sorted(intervals.items(), key=_natural_order)}


def _natural_order(item: tuple[GpuId, object]) -> tuple[str, GpuId]:
    return natural_sort_key(item[0].node), item[0]


def _cover(intervals: list[Interval], span: TimeRange) -> Coverage:
    full: list[range] = []
    partial: list[PartialWindow] = []
    for start, end in intervals:
        first, last = _point_at(start + 1, span), _point_at(end, span)
        inner = range(
            first if start == first - span.step else first + span.step, last + 1 if end == last else last, span.step
        )
        full += [inner] if inner else []
        partial += [
            PartialWindow(point, max(start, point - span.step), min(end, point))
            for point in sorted({first, last})
            if point not in inner and end > start and point <= span.end
        ]
    return Coverage(tuple(full), tuple(partial))


def _point_at(moment: int, span: TimeRange) -> int:
    """The point whose step contains a moment."""
    return span.start + -(-(moment - span.start) // span.step) * span.step
