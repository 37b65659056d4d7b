"""The GPUs of a cluster as Prometheus has them now: one query for each quantity, however many GPUs there are."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import Clock
from stoker.domain.readings import GpuFault, Readings
from stoker.telemetry.exporters import SCALE, Gpu, Names, Quantity, Wanted
from stoker.telemetry.node_names import NodeNames
from stoker.telemetry.nvml import XIDS_OF_PROGRAMS
from stoker.telemetry.prometheus import Found, Prometheus, together
from stoker.telemetry.promql import averaged

NAME = "prometheus"
NODES_NAMED = 50
"""More nodes than this are not named in a query: then it is cheaper to be told of all."""


class PrometheusSource:
    def __init__(
        self, prometheus: Prometheus, names: Names, nodes: Callable[[], Collection[str]], clock: Clock
    ) -> None:
        self._prometheus = prometheus
        self._names = names
        self._nodes = nodes
        self._clock = clock
        self._known_nodes: tuple[str, ...] = ()
        self._find = names.finder(NodeNames(()))

    @property
    def name(self) -> str:
        return NAME

    async def readings(self) -> Readings:
        nodes = tuple(sorted(self._nodes()))
        if nodes != self._known_nodes:
            self._known_nodes, self._find = nodes, self._names.finder(NodeNames(nodes))
        wanted = Wanted(nodes if len(nodes) <= NODES_NAMED else ())
        at = self._clock.now()
        answers = await together(*(self._ask(quantity, wanted) for quantity in Quantity))
        return await asyncio.to_thread(to_readings, at, nodes, dict(zip(Quantity, answers, strict=True)), self._find)

    async def close(self) -> None:
        await self._prometheus.close()

    async def _ask(self, quantity: Quantity, wanted: Wanted) -> list[Found]:
        query = self._names.query(quantity, wanted, lambda series: averaged(series, self._names.labels))
        return await self._prometheus.at(query)


def to_readings(
    at: int,
    nodes: tuple[str, ...],
    answers: Mapping[Quantity, list[Found]],
    find: Callable[[dict[str, str]], Gpu | None],
) -> Readings:
    """One row for each GPU that anything is known of, by node and device."""
    rows: dict[Gpu, int] = {}
    known = {quantity: _numbers(found, find, rows) for quantity, found in answers.items()}
    place = {node: index for index, node in enumerate(nodes)}
    node = np.array([place[node] for node, _ in rows], np.int32)
    device = np.array([device for _, device in rows], np.int16)
    order = np.lexsort((device, node))

    def column(quantity: Quantity) -> NDArray[np.float64]:
        values = np.full(len(rows), np.nan)
        places, numbers = known[quantity]
        values[places[::-1]] = numbers[::-1]  # of several the first stays
        return values[order] * SCALE.get(quantity, 1.0)

    used = column(Quantity.MEMORY_USED)
    total = column(Quantity.MEMORY_TOTAL)
    total = np.where(np.isnan(total), used + column(Quantity.MEMORY_FREE), total)
    found = list(rows)
    gpus = [found[row] for row in order.tolist()]
    return Readings(
        at=at,
        nodes=nodes,
        node=node[order],
        device=device[order],
        utilization=within_one(column(Quantity.UTILIZATION)).astype(np.float32),
        memory_used=used,
        memory_total=np.nan_to_num(total),
        power=column(Quantity.POWER).astype(np.float32),
        temperature=column(Quantity.TEMPERATURE).astype(np.float32),
        faults=tuple(_faults(gpus, column(Quantity.XID), column(Quantity.HEALTH))),
    )


def within_one(fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rounding may go a little over; what is far over, as 65535 for "unknown" is, was never measured."""
    return np.where(fractions <= 1.01, np.minimum(fractions, 1.0), np.nan)


def _numbers(
    found: list[Found], find: Callable[[dict[str, str]], Gpu | None], rows: dict[Gpu, int]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The rows of GPUs, new ones at the end, and what was measured of them."""
    places: list[int] = []
    numbers: list[float] = []
    for series in found:
        number, gpu = series.now, find(series.metric)
        if number is not None and gpu is not None:
            places.append(rows.setdefault(gpu, len(rows)))
            numbers.append(number)
    return np.array(places, np.intp), np.array(numbers, np.float64)


def _faults(gpus: list[Gpu], xids: NDArray[np.float64], health: NDArray[np.float64]) -> Iterator[GpuFault]:
    for row in np.flatnonzero(xids > 0).tolist():
        if xids[row] not in XIDS_OF_PROGRAMS:
            yield GpuFault(*gpus[row], f"Its driver reported XID {xids[row]:.0f}.")
    for row in np.flatnonzero(health == 0).tolist():
        yield GpuFault(*gpus[row], "Its exporter says that it is not healthy.")
