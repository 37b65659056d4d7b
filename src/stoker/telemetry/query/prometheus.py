"""Ranges of readings from Prometheus. It averages what a GPU was held for all the time, in one query for all GPUs;
where a holding begins or ends within the time of a point, only what was held is asked for."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from stoker.domain.errors import bad_request
from stoker.domain.readings import Metric
from stoker.domain.series import MOST_POINTS, GpuLine, Holding, Point, Range
from stoker.telemetry.exporters import SCALE, Gpu, Names, Quantity, Wanted
from stoker.telemetry.holdings import Held, Piece, held
from stoker.telemetry.means import DECIMALS
from stoker.telemetry.node_names import NodeNames
from stoker.telemetry.prometheus import Found, Prometheus, together
from stoker.telemetry.prometheus_readings import within_one
from stoker.telemetry.promql import averaged, summed

MOST_VALUES = 1_000_000
"""Asked for at once."""

QUANTITIES = {
    Metric.UTILIZATION: (Quantity.UTILIZATION,),
    Metric.MEMORY_USED: (Quantity.MEMORY_USED, Quantity.MEMORY_FREE, Quantity.MEMORY_TOTAL),
    Metric.POWER: (Quantity.POWER,),
    Metric.TEMPERATURE: (Quantity.TEMPERATURE,),
}

Values = dict[Gpu, dict[int, float]]
"""For each GPU, the mean at each point."""

Sum = tuple[Gpu, int, float, float]
"""A GPU and a point, the sum of readings and how many they are."""


class PrometheusSeries:
    def __init__(self, prometheus: Prometheus, names: Names) -> None:
        self._prometheus = prometheus
        self._names = names

    async def gpus(
        self, cluster_id: str, holdings: Sequence[Holding], metrics: Sequence[Metric], span: Range
    ) -> Mapping[Metric, list[GpuLine]]:
        if (span.end - span.start) // span.step >= MOST_POINTS:
            raise bad_request("step", f"is too short for this range: {MOST_POINTS} points are the most.")
        found = held(holdings, span)
        wanted = [quantity for metric in metrics for quantity in QUANTITIES[metric]]
        answers = await together(*(self._values(quantity, found, span) for quantity in wanted))
        values = dict(zip(wanted, answers, strict=True))
        return await asyncio.to_thread(lambda: {metric: _lines(metric, values, found) for metric in metrics})

    async def close(self) -> None:
        await self._prometheus.close()

    async def _values(self, quantity: Quantity, found: Mapping[Gpu, Held], span: Range) -> Values:
        known = NodeNames({node for node, _ in found})
        parts = [self._whole(quantity, part, known, span) for part in _portions(found, span)]
        parts += [self._in_part(quantity, piece, gpus, known) for piece, gpus in _moments(found).items()]
        return await asyncio.to_thread(_means, await together(*parts), SCALE.get(quantity, 1.0))

    async def _whole(self, quantity: Quantity, found: Mapping[Gpu, Held], known: NodeNames, span: Range) -> list[Sum]:
        """Points of which all the time was held, by the mean that Prometheus makes."""
        points = [points for each in found.values() for points in each.whole]
        first, last = min(each[0] for each in points), max(each[-1] for each in points)
        query = await self._query("avg_over_time", quantity, found, span.step)
        answer = await self._prometheus.over(query, first, last, span.step)

        def taken() -> list[Sum]:
            return [
                (gpu, at, number, 1.0)
                for gpu, series in self._known(answer, known)
                if gpu in found
                for at, number in series.samples()
                if found[gpu].is_whole(at)
            ]

        return await asyncio.to_thread(taken)

    async def _in_part(self, quantity: Quantity, piece: Piece, gpus: Sequence[Gpu], known: NodeNames) -> list[Sum]:
        """The sum and the number of the readings of a piece, as a point may be made of several."""
        total = await self._query("sum_over_time", quantity, gpus, piece.end - piece.start)
        count = await self._query("count_over_time", quantity, gpus, piece.end - piece.start)
        sums, counts = await together(self._prometheus.at(total, piece.end), self._prometheus.at(count, piece.end))
        number_of = {gpu: series.now or 0.0 for gpu, series in self._known(counts, known)}
        return [
            (gpu, piece.point, series.now, number_of.get(gpu, 0.0))
            for gpu, series in self._known(sums, known)
            if gpu in gpus and series.now is not None
        ]

    async def _query(self, over: str, quantity: Quantity, gpus: Iterable[Gpu], milliseconds: int) -> str:
        """This function over so much time. One GPU may have several series, as those of pods that had it in turn."""
        window = await self._prometheus.window(milliseconds)
        pairs, labels = list(gpus), self._names.labels
        wanted = Wanted(sorted({node for node, _ in pairs}), sorted({device for _, device in pairs}))
        gathered = averaged if over == "avg_over_time" else summed
        return self._names.query(quantity, wanted, lambda series: gathered(f"{over}({series}[{window}])", labels))

    def _known(self, answer: Iterable[Found], known: NodeNames) -> Iterator[tuple[Gpu, Found]]:
        """Each GPU once: several exporters may tell of it."""
        find = self._names.finder(known)
        seen: set[Gpu] = set()
        for series in answer:
            gpu = find(series.metric)
            if gpu is not None and gpu not in seen:
                seen.add(gpu)
                yield gpu, series


def _portions(found: Mapping[Gpu, Held], span: Range) -> Iterator[dict[Gpu, Held]]:
    """The GPUs with whole points, so many at a time that the answer stays small."""
    most = max(1, MOST_VALUES // ((span.end - span.start) // span.step + 1))
    whole = [(gpu, each) for gpu, each in found.items() if each.whole]
    for first in range(0, len(whole), most):
        yield dict(whole[first : first + most])


def _moments(found: Mapping[Gpu, Held]) -> dict[Piece, list[Gpu]]:
    """The pieces, with the GPUs that share them."""
    moments: defaultdict[Piece, list[Gpu]] = defaultdict(list)
    for gpu, each in found.items():
        for piece in each.pieces:
            moments[piece].append(gpu)
    return moments


def _means(parts: Iterable[Iterable[Sum]], scale: float) -> Values:
    sums: defaultdict[Gpu, dict[int, tuple[float, float]]] = defaultdict(dict)
    for part in parts:
        for gpu, point, total, count in part:
            before = sums[gpu].get(point, (0.0, 0.0))
            sums[gpu][point] = (before[0] + total, before[1] + count)
    return {
        gpu: {point: total / count * scale for point, (total, count) in points.items() if count}
        for gpu, points in sums.items()
    }


def _lines(metric: Metric, values: Mapping[Quantity, Values], found: Mapping[Gpu, Held]) -> list[GpuLine]:
    """By node and device; a GPU without any reading has no line."""
    lines = []
    for gpu in found:
        points = [(round(value, DECIMALS), at) for value, at in _points(metric, gpu, values) if math.isfinite(value)]
        if points:
            lines.append(GpuLine(*gpu, points))
    return lines


def _points(metric: Metric, gpu: Gpu, values: Mapping[Quantity, Values]) -> list[Point]:
    first = sorted(values[QUANTITIES[metric][0]].get(gpu, {}).items())
    ats = [at for at, _ in first]
    if metric is Metric.UTILIZATION:
        return list(zip(within_one(np.array([value for _, value in first])).tolist(), ats, strict=True))
    if metric is not Metric.MEMORY_USED:
        return [(value, at) for at, value in first]
    free, total = (values[each].get(gpu, {}) for each in (Quantity.MEMORY_FREE, Quantity.MEMORY_TOTAL))
    sizes = {at: total.get(at, used + free[at] if at in free else math.nan) for at, used in first}
    return [(min(used / sizes[at], 1.0) if sizes[at] > 0 else math.nan, at) for at, used in first]
