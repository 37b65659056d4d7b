"""The free capacity of nodes during the simulation: single GPUs, and totals of CPUs and memory."""

from collections.abc import Iterable, Mapping, Sequence

from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI, Resources

GpuSlot = tuple[str, tuple[int, ...]]
"""A node, and the devices of it that one pod gets."""


class NodePacker:
    """`spared` nodes are not used, so that a large workload can always start there."""

    def __init__(self, nodes: Iterable[Node], spared: frozenset[str] = frozenset()) -> None:
        self._free_devices: dict[str, list[int]] = {}
        self._free_resources: dict[str, Resources] = {}
        self._down: set[str] = set()
        self._buckets: dict[int, dict[str, None]] = {}
        self._model: dict[str, str] = {}
        for node in nodes:
            if node.name not in spared:
                self._model[node.name] = node.devices[0].model if node.devices else ""
                self._free_devices[node.name] = [device.index for device in node.devices]
                self._free_resources[node.name] = node.capacity
                self._buckets.setdefault(len(node.devices), {})[node.name] = None
        self._max_gpus = max(self._buckets, default=0)
        self._models = dict.fromkeys(self._model.values())

    def find_slots(self, each: Resources, replicas: int) -> list[GpuSlot] | None:
        """Slots for all pods, on the fullest nodes that fit, with GPUs of one model if one model has capacity for all;
        None if they do not all fit."""
        anywhere = self._find_slots(each, replicas, None)
        if anywhere is None or len({self._model[name] for name, _ in anywhere}) == 1:
            return anywhere
        alike = (self._find_slots(each, replicas, model) for model in self._models)
        return next((found for found in alike if found is not None), anywhere)

    def _find_slots(self, each: Resources, replicas: int, model: str | None) -> list[GpuSlot] | None:
        gpus = each.gpu_milli // MILLI
        found: list[GpuSlot] = []
        for level in self._bucket_order(gpus, replicas):
            for name in self._buckets.get(level, ()):
                if name in self._down or model not in (None, self._model[name]):
                    continue
                count = min(self._fit_count(name, each), replicas - len(found))
                free = self._free_devices[name]
                found += [(name, tuple(free[place * gpus : (place + 1) * gpus])) for place in range(count)]
                if len(found) == replicas:
                    return found
        return None

    def allocate(self, slots: Sequence[GpuSlot], each: Resources) -> None:
        for name, devices in slots:
            self._update_node(
                name, [device for device in self._free_devices.get(name, ()) if device not in devices], each * -1
            )

    def release(self, seat: GpuSlot, each: Resources) -> None:
        name, devices = seat
        self._update_node(name, sorted({*self._free_devices.get(name, ()), *devices}), each)

    def mark_down(self, name: str) -> None:
        self._down.add(name)

    def mark_up(self, name: str) -> None:
        self._down.discard(name)

    def free_gpus(self) -> Mapping[str, int]:
        return {name: len(free) for name, free in self._free_devices.items()}

    def _bucket_order(self, gpus: int, replicas: int) -> Iterable[int]:
        """The buckets in search order: first those where all pods fit on one node, tightest first."""
        whole = gpus * replicas
        if (
            replicas > 1
            and whole <= self._max_gpus
            and any(self._buckets.get(level) for level in range(whole, self._max_gpus))
        ):
            return [*range(whole, self._max_gpus + 1), *range(whole - 1, gpus - 1, -1)]
        return range(gpus, self._max_gpus + 1)

    def _fit_count(self, name: str, each: Resources) -> int:
        left = self._free_resources[name]
        limits = [left.cpu_milli // each.cpu_milli, left.memory_bytes // each.memory_bytes]
        if each.gpu_milli:
            limits.append(len(self._free_devices[name]) * MILLI // each.gpu_milli)
        return min(limits)

    def _update_node(self, name: str, free: list[int], more: Resources) -> None:
        if name not in self._free_devices:
            return  # a spared node, or an unknown one
        del self._buckets[len(self._free_devices[name])][name]
        self._free_devices[name] = free
        self._free_resources[name] += more
        self._buckets.setdefault(len(free), {})[name] = None
