"""Several clusters seen as one: sums of what each of them published, and the hottest GPUs of all."""

import heapq
from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.live import HotGpu, Overview
from stoker.domain.readings import Metric
from stoker.domain.resources import MILLI


class Fleet(Struct, frozen=True):
    """Nodes are those with GPUs; `idle_nodes` + `partial_nodes` + `busy_nodes` are the healthy ones. The others are
    `cpu_nodes`, or `faulty_cpu_nodes`. The rates are 0 to 1."""

    nodes: int = 0
    healthy_nodes: int = 0
    faulty_nodes: int = 0
    idle_nodes: int = 0
    partial_nodes: int = 0
    busy_nodes: int = 0
    cpu_nodes: int = 0
    faulty_cpu_nodes: int = 0
    gpus: int = 0
    allocated_milli: int = 0
    measured_gpus: int = 0
    utilization_sum: float = 0.0
    power_watts: float | None = None
    storage_total_bytes: int = 0
    storage_used_bytes: int = 0
    rdma_ports: int = 0
    rdma_active_ports: int = 0
    rdma_bits_per_second: int = 0
    """What the fastest of the ports can do."""

    @property
    def allocation_rate(self) -> float:
        return _rate(self.allocated_milli, self.gpus * MILLI)

    @property
    def utilization(self) -> float | None:
        """The mean of the GPUs that are held; None when nothing is known of any of them."""
        return _rate(self.utilization_sum, self.measured_gpus) if self.measured_gpus else None

    @property
    def storage_rate(self) -> float:
        return _rate(self.storage_used_bytes, self.storage_total_bytes)


_SUMMED = tuple(name for name in Fleet.__struct_fields__ if name not in {"power_watts", "rdma_bits_per_second"})


def together(overviews: Sequence[Overview]) -> Fleet:
    """The clusters added up; what is not known of one of them is left out."""
    summed = {name: sum(getattr(each, name) for each in overviews) for name in _SUMMED}
    powers = [each.power_watts for each in overviews if each.power_watts is not None]
    fastest = max((each.rdma_bits_per_second for each in overviews), default=0)
    return Fleet(**summed, power_watts=sum(powers) if powers else None, rdma_bits_per_second=fastest)


def hottest(overviews: Iterable[Overview], metric: Metric, number: int) -> list[HotGpu]:
    """The GPUs with the highest values, highest first."""
    lists = [each.hottest.get(metric, []) for each in overviews]
    merged = heapq.merge(*lists, key=lambda gpu: gpu.value, reverse=True)
    return [gpu for gpu, _ in zip(merged, range(number), strict=False)]


def _rate(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole else 0.0
