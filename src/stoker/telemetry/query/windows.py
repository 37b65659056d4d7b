"""Which points of a range a GPU was held for, and which only in part: pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from stoker.domain.series import Holding, Range
from stoker.telemetry.exporters import Gpu


class Piece(Struct, frozen=True):
    """A part of the time that the point at `point` stands for: after `start`, and up to `end`."""

    point: int
    start: int
    end: int


class Held(Struct, frozen=True):
    """The points that a GPU was held for all the time, and the pieces of the others."""

    whole: tuple[range, ...]
    pieces: tuple[Piece, ...]

    def is_whole(self, point: int) -> bool:
        return any(point in points for points in self.whole)


def held(holdings: Iterable[Holding], span: Range) -> dict[Gpu, Held]:
    """For each GPU. Holdings are cut to whole seconds inwards, so that no one else's reading slips in."""
    spans: defaultdict[Gpu, list[tuple[int, int]]] = defaultdict(list)
    for holding in holdings:
        start = -(-holding.from_at // 1000) * 1000 - 1
        end = span.end if holding.to_at is None else holding.to_at // 1000 * 1000 - 1
        spans[holding.node, holding.device].append((max(start, span.start - span.step), min(end, span.end)))
    return {gpu: _points(list(_united(found)), span) for gpu, found in sorted(spans.items())}


def _united(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same time in spans that do not touch."""
    found: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if found is not None and start <= found[1]:
            found = (found[0], max(found[1], end))
        else:
            if found is not None:
                yield found
            found = (start, end)
    if found is not None:
        yield found


def _points(spans: list[tuple[int, int]], span: Range) -> Held:
    whole: list[range] = []
    pieces: list[Piece] = []
    for start, end in spans:
        first, last = _point_at(start + 1, span), _point_at(end, span)
        inner = range(
            first if start == first - span.step else first + span.step, last + 1 if end == last else last, span.step
        )
        whole += [inner] if inner else []
        pieces += [
            Piece(point, max(start, point - span.step), min(end, point))
            for point in sorted({first, last})
            if point not in inner and end > start and point <= span.end
        ]
    return Held(tuple(whole), tuple(pieces))


def _point_at(moment: int, span: Range) -> int:
    """The point that stands for a moment."""
    return span.start + -(-(moment - span.start) // span.step) * span.step
