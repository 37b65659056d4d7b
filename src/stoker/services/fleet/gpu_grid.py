"""Nodes and GPUs of all clusters as one grid each: filtered and sorted in columns, so that 100,000 of them are no wait.

A grid does not change; the orders that were asked for once are kept with it.
"""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.live import GpuColumns, NodeNow
from stoker.domain.resources import MILLI


class GpuState(StrEnum):
    IDLE = "idle"
    ALLOCATED = "allocated"
    FAULTY = "faulty"


class NodeState(StrEnum):
    IDLE = "idle"
    PARTIAL = "partial"
    BUSY = "busy"
    FAULTY = "faulty"


class GridSort(StrEnum):
    """By name is by cluster, node and device."""

    NAME = "name"
    ALLOCATED = "allocated"
    UTILIZATION = "utilization"
    MEMORY = "memory"
    POWER = "power"
    TEMPERATURE = "temperature"


class GpuQuery(Struct, frozen=True, kw_only=True):
    """Nothing is everything; `node` is a whole name, `model` and `workload` are parts of one in any case."""

    cluster_id: str = ""
    node: str = ""
    model: str = ""
    workload: str = ""
    state: GpuState | None = None
    sort: GridSort = GridSort.NAME
    descending: bool = False


class NodeQuery(Struct, frozen=True, kw_only=True):
    cluster_id: str = ""
    text: str = ""
    pool: str = ""
    state: NodeState | None = None
    sort: GridSort = GridSort.NAME
    descending: bool = False


class GpuNow(Struct, frozen=True):
    """One GPU; what is not known is None."""

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


class NodeGpus(Struct, frozen=True, gc=False):
    """The GPUs of one node together: their memory, what is used of it, and what is held of them and idle."""

    memory_bytes: int = 0
    used_bytes: int = 0
    idle_milli: int = 0


class IdleShare(Struct, frozen=True, gc=False):
    """What a workload holds of an idle GPU, and since when that has been idle in its hands, if that is known."""

    workload: str
    model: str
    gpu_milli: int
    idle_since: int | None


Numbers = NDArray[np.float64]


class _Orders:
    """The places of a grid in the orders that were asked for."""

    def __init__(self, columns: dict[GridSort, Numbers], size: int) -> None:
        self._columns = columns
        self._size = size
        self._known: dict[tuple[GridSort, bool], NDArray[np.intp]] = {}

    def column(self, sort: GridSort) -> Numbers:
        return self._columns[sort]

    def places(self, sort: GridSort, *, descending: bool) -> NDArray[np.intp]:
        """What is not known comes last either way; what is equal stays in the order of names."""
        key = (sort, descending)
        if key not in self._known:
            if sort is GridSort.NAME:
                found = np.arange(self._size)
                self._known[key] = found[::-1] if descending else found
            else:
                column = self._columns[sort]
                self._known[key] = np.argsort(-column if descending else column, kind="stable")
        return self._known[key]


class _Words:
    """A column of words that repeat: each word is looked at once, and a place is the number of its word."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self._numbers: dict[str | None, int] = {}
        known = self._numbers
        self._codes = np.fromiter((known.setdefault(value, len(known)) for value in values), np.int32, len(values))

    def same(self, word: str) -> NDArray[np.bool_]:
        return self._codes == self._numbers.get(word, -1)

    def holding(self, text: str) -> NDArray[np.bool_]:
        """Where a part of the word is this, in any case."""
        folded = text.casefold()
        alike = [word is not None and folded in word.casefold() for word in self._numbers]
        return np.array(alike, np.bool_)[self._codes] if alike else np.zeros(0, np.bool_)


class GpuGrid:
    def __init__(self, found: Sequence[tuple[Cluster, GpuColumns]]) -> None:
        self._clusters = [cluster for cluster, _ in found]
        self._columns = columns = [each for _, each in found]
        self._starts = np.cumsum([0, *(len(each.node) for each in columns)])
        self._size = int(self._starts[-1])
        self._allocated = _numbers([value for each in columns for value in each.allocated_milli])
        self._faulty = np.fromiter((bool(fault) for each in columns for fault in each.fault), np.bool_, self._size)
        self._nodes = _Words([value for each in columns for value in each.node])
        self._models = _Words([value for each in columns for value in each.model])
        self._workloads = _Words([value for each in columns for value in each.workload])
        used = _numbers([value for each in columns for value in each.memory_used_bytes])
        total = _numbers([value or None for each in columns for value in each.memory_total_bytes])
        self._orders = _Orders(
            {
                GridSort.ALLOCATED: self._allocated,
                GridSort.UTILIZATION: _numbers([value for each in columns for value in each.utilization]),
                GridSort.MEMORY: used / total,
                GridSort.POWER: _numbers([value for each in columns for value in each.power_watts]),
                GridSort.TEMPERATURE: _numbers([value for each in columns for value in each.temperature]),
            },
            self._size,
        )

    def browse(self, query: GpuQuery, window: Window) -> Listing[GpuNow]:
        places = self._orders.places(query.sort, descending=query.descending)
        masks = self._masks(query)
        if masks:
            places = places[np.logical_and.reduce(masks)[places]]
        shown = places[window.offset : window.offset + window.limit]
        return Listing([self._gpu(place) for place in shown.tolist()], len(places))

    def idle(self, cluster_id: str, up_to: float) -> list[IdleShare]:
        """What is held of GPUs without a fault that are used no more than this."""
        used = self._orders.column(GridSort.UTILIZATION)
        mask = (self._allocated > 0) & ~self._faulty & (used <= up_to)
        found = []
        for number, columns in enumerate(self._columns):
            if cluster_id in ("", self._clusters[number].id):
                places = np.flatnonzero(mask[self._starts[number] : self._starts[number + 1]]).tolist()
                found += _idle_shares(columns, places)
        return found

    def by_node(self, idle_before: int) -> dict[tuple[str, str], NodeGpus]:
        """By cluster and node; idle is what has been so since before this moment."""
        sums: dict[tuple[str, str], tuple[int, int, int]] = {}
        for cluster, each in zip(self._clusters, self._columns, strict=True):
            since = each.idle_since or [None] * len(each.node)
            columns = (each.node, each.memory_total_bytes, each.memory_used_bytes, each.allocated_milli, since)
            for node, size, used, milli, at in zip(*columns, strict=True):
                memory, taken, idle = sums.get((cluster.id, node), (0, 0, 0))
                long = milli if at is not None and at < idle_before else 0
                sums[cluster.id, node] = (memory + size, taken + (used or 0), idle + long)
        return {key: NodeGpus(*amounts) for key, amounts in sums.items()}

    def _masks(self, query: GpuQuery) -> list[NDArray[np.bool_]]:
        masks: list[NDArray[np.bool_]] = []
        if query.cluster_id:
            masks.append(self._of_cluster(query.cluster_id))
        if query.state is GpuState.FAULTY:
            masks.append(self._faulty)
        elif query.state is not None:
            masks.append(~self._faulty & ((self._allocated > 0) == (query.state is GpuState.ALLOCATED)))
        if query.node:
            masks.append(self._nodes.same(query.node))
        if query.model:
            masks.append(self._models.holding(query.model))
        if query.workload:
            masks.append(self._workloads.holding(query.workload))
        return masks

    def _of_cluster(self, cluster_id: str) -> NDArray[np.bool_]:
        mask = np.zeros(self._size, np.bool_)
        for number, cluster in enumerate(self._clusters):
            if cluster.id == cluster_id:
                mask[self._starts[number] : self._starts[number + 1]] = True
        return mask

    def _gpu(self, place: int) -> GpuNow:
        number = int(np.searchsorted(self._starts, place, side="right")) - 1
        columns, at = self._columns[number], place - int(self._starts[number])
        fault, allocated = columns.fault[at], columns.allocated_milli[at]
        return GpuNow(
            cluster=self._clusters[number],
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
        )


def _idle_shares(columns: GpuColumns, places: Sequence[int]) -> list[IdleShare]:
    """Who holds how much of the GPUs in these places."""
    since = columns.idle_since or [None] * len(columns.node)
    others: defaultdict[int, list[IdleShare]] = defaultdict(list)
    for place, slug, milli, at in columns.shared:
        others[place].append(IdleShare(slug, columns.model[place], milli, at))
    found = []
    for place in places:
        shared = others.get(place, [])
        slug, rest = columns.workload[place], columns.allocated_milli[place] - sum(each.gpu_milli for each in shared)
        if slug is not None:
            found.append(IdleShare(slug, columns.model[place], max(0, rest), since[place]))
        found += shared
    return found


class NodeGrid:
    def __init__(self, found: Sequence[tuple[Cluster, list[NodeNow]]]) -> None:
        self._nodes = [(cluster, node) for cluster, nodes in found for node in nodes]
        nodes = [node for _, node in self._nodes]
        self._orders = _Orders(
            {
                GridSort.ALLOCATED: _numbers([node.allocated_milli for node in nodes]),
                GridSort.UTILIZATION: _numbers([node.utilization for node in nodes]),
                GridSort.MEMORY: _numbers([node.memory for node in nodes]),
                GridSort.POWER: _numbers([node.power_watts for node in nodes]),
                GridSort.TEMPERATURE: _numbers([node.temperature for node in nodes]),
            },
            len(nodes),
        )

    def browse(self, query: NodeQuery, window: Window) -> Listing[tuple[Cluster, NodeNow]]:
        order = self._orders.places(query.sort, descending=query.descending).tolist()
        if query.cluster_id or query.pool or query.state is not None or query.text:
            text = query.text.casefold()
            order = [place for place in order if _wanted(query, text, *self._nodes[place])]
        page = order[window.offset : window.offset + window.limit]
        return Listing([self._nodes[place] for place in page], len(order))


def _wanted(query: NodeQuery, text: str, cluster: Cluster, node: NodeNow) -> bool:
    return (
        (not query.cluster_id or cluster.id == query.cluster_id)
        and (not query.pool or node.pool == query.pool)
        and (query.state is None or node_state(node) is query.state)
        and text in node.name.casefold()
    )


def node_state(node: NodeNow) -> NodeState:
    if not node.ready or node.fault:
        return NodeState.FAULTY
    if not node.allocated_milli:
        return NodeState.IDLE
    return NodeState.PARTIAL if node.allocated_milli < node.gpus * MILLI else NodeState.BUSY


def _numbers(values: Sequence[float | None]) -> Numbers:
    return np.array([np.nan if value is None else value for value in values], np.float64)
