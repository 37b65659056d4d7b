"""What is free on the nodes while the past is made: GPUs one by one, CPUs and memory in sum."""

from collections.abc import Iterable, Mapping, Sequence

from stoker.domain.node import Node
from stoker.domain.resources import MILLI, Resources

Seat = tuple[str, tuple[int, ...]]
"""A node and the devices of it that one pod gets."""


class Rooms:
    """`spared` nodes are left alone, so that something large can always start there."""

    def __init__(self, nodes: Iterable[Node], spared: frozenset[str] = frozenset()) -> None:
        self._free: dict[str, list[int]] = {}
        self._left: dict[str, Resources] = {}
        self._down: set[str] = set()
        self._shelf: dict[int, dict[str, None]] = {}
        self._model: dict[str, str] = {}
        for node in nodes:
            if node.name not in spared:
                self._model[node.name] = node.devices[0].model if node.devices else ""
                self._free[node.name] = [device.index for device in node.devices]
                self._left[node.name] = node.capacity
                self._shelf.setdefault(len(node.devices), {})[node.name] = None
        self._most = max(self._shelf, default=0)
        self._models = dict.fromkeys(self._model.values())

    def seats(self, each: Resources, replicas: int) -> list[Seat] | None:
        """Room for all of them, on nodes that are as full as can be, with GPUs of one model where one has room for all;
        None when they do not all fit."""
        anywhere = self._seats(each, replicas, None)
        if anywhere is None or len({self._model[name] for name, _ in anywhere}) == 1:
            return anywhere
        alike = (self._seats(each, replicas, model) for model in self._models)
        return next((found for found in alike if found is not None), anywhere)

    def _seats(self, each: Resources, replicas: int, model: str | None) -> list[Seat] | None:
        gpus = each.gpu_milli // MILLI
        found: list[Seat] = []
        for level in self._levels(gpus, replicas):
            for name in self._shelf.get(level, ()):
                if name in self._down or model not in (None, self._model[name]):
                    continue
                count = min(self._slots(name, each), replicas - len(found))
                free = self._free[name]
                found += [(name, tuple(free[place * gpus : (place + 1) * gpus])) for place in range(count)]
                if len(found) == replicas:
                    return found
        return None

    def take(self, seats: Sequence[Seat], each: Resources) -> None:
        for name, devices in seats:
            self._change(name, [device for device in self._free.get(name, ()) if device not in devices], each * -1)

    def give(self, seat: Seat, each: Resources) -> None:
        name, devices = seat
        self._change(name, sorted({*self._free.get(name, ()), *devices}), each)

    def break_down(self, name: str) -> None:
        self._down.add(name)

    def mend(self, name: str) -> None:
        self._down.discard(name)

    def free_gpus(self) -> Mapping[str, int]:
        return {name: len(free) for name, free in self._free.items()}

    def _levels(self, gpus: int, replicas: int) -> Iterable[int]:
        """The shelves in the order in which they are looked at: first where all fit on one node, most tightly."""
        whole = gpus * replicas
        if replicas > 1 and whole <= self._most and any(self._shelf.get(level) for level in range(whole, self._most)):
            return [*range(whole, self._most + 1), *range(whole - 1, gpus - 1, -1)]
        return range(gpus, self._most + 1)

    def _slots(self, name: str, each: Resources) -> int:
        left = self._left[name]
        limits = [left.cpu_milli // each.cpu_milli, left.memory_bytes // each.memory_bytes]
        if each.gpu_milli:
            limits.append(len(self._free[name]) * MILLI // each.gpu_milli)
        return min(limits)

    def _change(self, name: str, free: list[int], more: Resources) -> None:
        if name not in self._free:
            return  # a spared node, or one that is not here
        del self._shelf[len(self._free[name])][name]
        self._free[name] = free
        self._left[name] += more
        self._shelf.setdefault(len(free), {})[name] = None
