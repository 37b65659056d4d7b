"""The GPUs of all clusters as one grid.

The grid filters and sorts by columns, so that a page of 100,000 GPUs takes milliseconds; it does not change.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import GpuColumns, GpuState
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.workload.idle_samples import idle_mask
from stoker.services.fleet.columns import CategoricalColumn, GridSort, SortOrders, float_array

GPU_COLUMN_NAMES = (
    *("node", "device", "model", "fault", "utilization", "memory_used_bytes", "memory_total_bytes"),
    *("power_watts", "temperature"),
)
"""The columns that do not depend on the allocation of a GPU."""


class GpuQuery(Struct, frozen=True, kw_only=True):
    """An empty filter matches everything; `node` matches a whole name, `model` and `workload` a part, ignoring case."""

    cluster_id: str = ""
    node: str = ""
    model: str = ""
    workload: str = ""
    state: GpuState | None = None
    sort: GridSort = GridSort.NAME
    descending: bool = False


class GpuGridRow(Struct, frozen=True):
    """One GPU; None is an unknown value."""

    cluster: Cluster
    node: str
    device: int
    model: str
    workload: str | None
    allocated_milli: int
    fault: str
    state: GpuState
    utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int
    power_watts: float | None
    temperature: float | None
    idle_since: int | None
    uuid: str = ""


class NodeGpuTotals(Struct, frozen=True, gc=False):
    """The GPUs of one node together: memory, used memory, and GPUs that are allocated but idle."""

    memory_bytes: int = 0
    used_bytes: int = 0
    idle_milli: int = 0


class IdleAllocation(Struct, frozen=True, gc=False):
    """The share of an idle GPU that a workload has; `idle_since` is None when the start of the idle time is unknown."""

    workload: str
    node: str
    model: str
    gpu_milli: int
    idle_since: int | None


class GpuGrid:
    def __init__(self, gpus_by_cluster: Sequence[tuple[Cluster, GpuColumns]]) -> None:
        self._clusters = [cluster for cluster, _ in gpus_by_cluster]
        self._columns = [columns for _, columns in gpus_by_cluster]
        self._starts = np.cumsum([0, *(len(columns.node) for columns in self._columns)])
        self._size = int(self._starts[-1])
        self._allocated = float_array([value for columns in self._columns for value in columns.allocated_milli])
        self._faulty = np.fromiter(
            (bool(fault) for columns in self._columns for fault in columns.fault), np.bool_, self._size
        )
        self._nodes = CategoricalColumn([value for columns in self._columns for value in columns.node])
        self._models = CategoricalColumn([value for columns in self._columns for value in columns.model])
        self._workloads = CategoricalColumn([value for columns in self._columns for value in columns.workload])
        used = float_array([value for columns in self._columns for value in columns.memory_used_bytes])
        total = float_array([value or None for columns in self._columns for value in columns.memory_total_bytes])
        self._orders = SortOrders(
            {
                GridSort.ALLOCATED: self._allocated,
                GridSort.UTILIZATION: float_array(
                    [value for columns in self._columns for value in columns.utilization]
                ),
                GridSort.MEMORY: used / total,
                GridSort.POWER: float_array([value for columns in self._columns for value in columns.power_watts]),
                GridSort.TEMPERATURE: float_array(
                    [value for columns in self._columns for value in columns.temperature]
                ),
            },
            self._name_order(),
        )

    def list_gpus(self, query: GpuQuery, window: PageRequest) -> PageResult[GpuGridRow]:
        rows = self._orders.row_order(query.sort, descending=query.descending)
        masks = self._masks(query)
        if masks:
            rows = rows[np.logical_and.reduce(masks)[rows]]
        page = rows[window.offset : window.offset + window.limit]
        return PageResult([self._build_row(row) for row in page.tolist()], len(rows))

    def allocated_to(self, slugs: Container[str | None]) -> list[tuple[Cluster, GpuColumns]]:
        """The GPUs allocated to these workloads, each with the shares of these workloads only."""
        pairs = zip(self._clusters, self._columns, strict=True)
        return [(cluster, _filter_allocated_to(columns, slugs)) for cluster, columns in pairs]

    def idle_allocations(self, cluster_id: str, percent: float) -> list[IdleAllocation]:
        """Allocations of GPUs without a fault whose utilization is at most this."""
        idle = idle_mask(self._orders.column(GridSort.UTILIZATION), percent)
        mask = (self._allocated > 0) & ~self._faulty & idle
        allocations = []
        for index, columns in enumerate(self._columns):
            if cluster_id in ("", self._clusters[index].id):
                rows = np.flatnonzero(mask[self._starts[index] : self._starts[index + 1]]).tolist()
                allocations += _idle_allocations(columns, rows)
        return allocations

    def totals_by_node(self, idle_before: int) -> dict[tuple[str, str], NodeGpuTotals]:
        """Totals by cluster id and node name; a GPU counts as idle when it has been idle since before `idle_before`."""
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        idle: Counter[tuple[str, str]] = Counter()
        for cluster, columns in zip(self._clusters, self._columns, strict=True):
            for node, size, used in zip(
                columns.node, columns.memory_total_bytes, columns.memory_used_bytes, strict=True
            ):
                memory_bytes, used_bytes = sums.get((cluster.id, node), (0, 0))
                sums[cluster.id, node] = (memory_bytes + size, used_bytes + (used or 0))
            idle_rows = {row for row, idle_since in enumerate(columns.idle_since) if idle_since is not None}
            for allocation in _idle_allocations(columns, sorted(idle_rows | {row for row, *_ in columns.shared})):
                if allocation.idle_since is not None and allocation.idle_since < idle_before:
                    idle[cluster.id, allocation.node] += allocation.gpu_milli
        return {key: NodeGpuTotals(*amounts, idle[key]) for key, amounts in sums.items()}

    def _name_order(self) -> NDArray[np.intp]:
        clusters = np.repeat(np.arange(len(self._columns)), np.diff(self._starts))
        devices = np.fromiter((device for columns in self._columns for device in columns.device), np.int32, self._size)
        return np.lexsort((devices, self._nodes.natural_ranks(), clusters))

    def _masks(self, query: GpuQuery) -> list[NDArray[np.bool_]]:
        masks: list[NDArray[np.bool_]] = []
        if query.cluster_id:
            masks.append(self._cluster_mask(query.cluster_id))
        if query.state is GpuState.FAULTY:
            masks.append(self._faulty)
        elif query.state is not None:
            masks.append(~self._faulty & ((self._allocated > 0) == (query.state is GpuState.ALLOCATED)))
        if query.node:
            masks.append(self._nodes.equals(query.node))
        if query.model:
            masks.append(self._models.contains(query.model))
        if query.workload:
            masks.append(self._workloads.contains(query.workload))
        return masks

    def _cluster_mask(self, cluster_id: str) -> NDArray[np.bool_]:
        mask = np.zeros(self._size, np.bool_)
        for index, cluster in enumerate(self._clusters):
            if cluster.id == cluster_id:
                mask[self._starts[index] : self._starts[index + 1]] = True
        return mask

    def _build_row(self, row: int) -> GpuGridRow:
        index = int(np.searchsorted(self._starts, row, side="right")) - 1
        columns, at = self._columns[index], row - int(self._starts[index])
        fault, allocated = columns.fault[at], columns.allocated_milli[at]
        return GpuGridRow(
            cluster=self._clusters[index],
            node=columns.node[at],
            device=columns.device[at],
            model=columns.model[at],
            workload=columns.workload[at],
            allocated_milli=allocated,
            fault=fault,
            state=GpuState.FAULTY if fault else GpuState.ALLOCATED if allocated else GpuState.IDLE,
            utilization=columns.utilization[at],
            memory_used_bytes=columns.memory_used_bytes[at],
            memory_total_bytes=columns.memory_total_bytes[at],
            power_watts=columns.power_watts[at],
            temperature=columns.temperature[at],
            idle_since=columns.idle_since[at] if columns.idle_since else None,
            uuid=columns.uuid[at] if columns.uuid else "",
        )


def _filter_allocated_to(columns: GpuColumns, slugs: Container[str | None]) -> GpuColumns:
    """`columns.workload` names the first workload of a GPU; `columns.shared` lists the shares of the others."""
    shares: dict[int, list[tuple[str, int, int | None]]] = {}
    others_milli: defaultdict[int, int] = defaultdict(int)
    for row, slug, milli, idle_since in columns.shared:
        others_milli[row] += milli
        if slug in slugs:
            shares.setdefault(row, []).append((slug, milli, idle_since))
    idle_since_by_row = columns.idle_since or [None] * len(columns.node)
    for row, slug in enumerate(columns.workload):
        if slug is not None and slug in slugs:
            first = (slug, max(0, columns.allocated_milli[row] - others_milli[row]), idle_since_by_row[row])
            shares[row] = [first, *shares.get(row, [])]
    rows = sorted(shares)
    kept = {name: [getattr(columns, name)[row] for row in rows] for name in GPU_COLUMN_NAMES}
    return GpuColumns(
        **kept,
        workload=[shares[row][0][0] for row in rows],
        allocated_milli=[sum(milli for _, milli, _ in shares[row]) for row in rows],
        idle_since=[shares[row][0][2] for row in rows],
        shared=[(index, *share) for index, row in enumerate(rows) for share in shares[row][1:]],
        uuid=[columns.uuid[row] for row in rows] if columns.uuid else [],
    )


def _idle_allocations(columns: GpuColumns, rows: Sequence[int]) -> list[IdleAllocation]:
    """The share of each workload in the GPUs of these rows."""
    idle_since_by_row = columns.idle_since or [None] * len(columns.node)
    others: defaultdict[int, list[IdleAllocation]] = defaultdict(list)
    for row, slug, milli, idle_since in columns.shared:
        others[row].append(IdleAllocation(slug, columns.node[row], columns.model[row], milli, idle_since))
    allocations = []
    for row in rows:
        shared = others.get(row, [])
        slug = columns.workload[row]
        if slug is not None:
            milli = max(0, columns.allocated_milli[row] - sum(share.gpu_milli for share in shared))
            allocations.append(
                IdleAllocation(slug, columns.node[row], columns.model[row], milli, idle_since_by_row[row])
            )
        allocations += shared
    return allocations
