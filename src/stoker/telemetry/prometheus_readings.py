"""The GPUs of a cluster as Prometheus has them now: one query for each quantity, however many GPUs there are."""

import asyncio
import math
from collections.abc import Callable, Collection, Mapping

import numpy as np

from stoker.domain.clock import Clock
from stoker.domain.readings import GpuFault, Readings
from stoker.telemetry.exporters import SCALE, Names, Quantity, Wanted
from stoker.telemetry.node_names import NodeNames
from stoker.telemetry.nvml import XIDS_OF_PROGRAMS
from stoker.telemetry.prometheus import Found, Prometheus, together
from stoker.telemetry.promql import averaged

NAME = "prometheus"
NODES_NAMED = 50
"""More nodes than this are not named in a query: then it is cheaper to be told of all."""

Gpu = tuple[str, int]


class PrometheusSource:
    def __init__(
        self, prometheus: Prometheus, names: Names, nodes: Callable[[], Collection[str]], clock: Clock
    ) -> None:
        self._prometheus = prometheus
        self._names = names
        self._nodes = nodes
        self._clock = clock
        self._known_nodes: tuple[str, ...] = ()
        self._known = NodeNames(())

    @property
    def name(self) -> str:
        return NAME

    async def readings(self) -> Readings:
        nodes = tuple(sorted(self._nodes()))
        if nodes != self._known_nodes:
            self._known_nodes, self._known = nodes, NodeNames(nodes)
        wanted = Wanted(nodes if len(nodes) <= NODES_NAMED else ())
        at = self._clock.now()
        answers = await together(*(self._ask(quantity, wanted) for quantity in Quantity))
        return await asyncio.to_thread(self._put_together, at, nodes, answers)

    async def close(self) -> None:
        await self._prometheus.close()

    async def _ask(self, quantity: Quantity, wanted: Wanted) -> list[Found]:
        query = self._names.query(quantity, wanted, lambda series: averaged(series, self._names.labels))
        return await self._prometheus.at(query)

    def _put_together(self, at: int, nodes: tuple[str, ...], answers: list[list[Found]]) -> Readings:
        values = {
            quantity: self._by_gpu(found, SCALE.get(quantity, 1.0))
            for quantity, found in zip(Quantity, answers, strict=True)
        }
        return to_readings(at, nodes, values)

    def _by_gpu(self, found: list[Found], scale: float) -> dict[Gpu, float]:
        """The first value of each GPU; what has no node of ours or no number is left out."""
        values: dict[Gpu, float] = {}
        for series in found:
            node, device, number = (
                self._names.node(series.metric, self._known),
                self._names.device(series.metric),
                series.now,
            )
            if node is not None and device is not None and number is not None:
                values.setdefault((node, device), number * scale)
        return values


def to_readings(at: int, nodes: tuple[str, ...], values: Mapping[Quantity, Mapping[Gpu, float]]) -> Readings:
    gpus = sorted({gpu for known in values.values() for gpu in known})
    place = {node: index for index, node in enumerate(nodes)}
    used, free = values[Quantity.MEMORY_USED], values[Quantity.MEMORY_FREE]
    total = {gpu: used[gpu] + free[gpu] for gpu in used.keys() & free.keys()} | dict(values[Quantity.MEMORY_TOTAL])

    def column(known: Mapping[Gpu, float], absent: float = math.nan) -> list[float]:
        return [known.get(gpu, absent) for gpu in gpus]

    return Readings(
        at=at,
        nodes=nodes,
        node=np.array([place[node] for node, _ in gpus], np.int32),
        device=np.array([device for _, device in gpus], np.int16),
        utilization=np.array(within_one(column(values[Quantity.UTILIZATION])), np.float32),
        memory_used=np.array(column(used), np.float64),
        memory_total=np.array(column(total, 0.0), np.float64),
        power=np.array(column(values[Quantity.POWER]), np.float32),
        temperature=np.array(column(values[Quantity.TEMPERATURE]), np.float32),
        faults=(*_xids(values[Quantity.XID]), *_unwell(values[Quantity.HEALTH])),
    )


def within_one(fractions: list[float]) -> list[float]:
    """Rounding may go a little over; what is far over, as 65535 for "unknown" is, was never measured."""
    return [min(value, 1.0) if value <= 1.01 else math.nan for value in fractions]


def _xids(values: Mapping[Gpu, float]) -> list[GpuFault]:
    return [
        GpuFault(node, device, f"Its driver reported XID {xid:.0f}.")
        for (node, device), xid in values.items()
        if xid > 0 and xid not in XIDS_OF_PROGRAMS
    ]


def _unwell(values: Mapping[Gpu, float]) -> list[GpuFault]:
    return [
        GpuFault(node, device, "Its exporter says that it is not healthy.")
        for (node, device), health in values.items()
        if health == 0
    ]
