"""What breaks, and when: a function of the seed and the time alone, so the past can be asked as well as the present."""

from collections.abc import Collection

from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.node import Node
from stoker.engines.simulated.dice import dice
from stoker.engines.simulated.machine import FEWEST_LARGE, Machines

EPOCH_MS = 10 * DAY_MS
"""Each node breaks at most once in so long; no fault lasts as long."""
SHORTEST_MS = 20 * 60_000
LONGEST_MS = 10 * 3_600_000
NODE = -1

NODE_FAULTS = (
    "the node stopped reporting",
    "the node's network link is down",
    "the node rebooted after a kernel panic",
)
NVIDIA_FAULTS = (
    "XID 79: the GPU has fallen off the bus",
    "XID 48: double-bit ECC error",
    "XID 119: timeout waiting for the GSP",
    "XID 74: NVLink error",
)
AMD_FAULTS = (
    "uncorrectable ECC errors in HBM (UMC)",
    "the GPU was lost from the bus",
    "GPU reset: ring timeout",
    "xGMI link error",
)


class Fault(Struct, frozen=True):
    """`device` is NODE when the whole node is down. A node that is down, or a GPU that is off the bus, is `dark`:
    nothing can be read from it."""

    place: int
    device: int
    from_at: int
    to_at: int
    message: str

    @property
    def dark(self) -> bool:
        return self.device == NODE or "bus" in self.message

    def hits(self, devices: Collection[int]) -> bool:
        return self.device == NODE or self.device in devices


class Faults:
    """`days` is the mean time between two faults of one node; 0 means that nothing ever breaks."""

    def __init__(self, machines: Machines, days: float) -> None:
        self._machines = machines
        self._share = min(1.0, EPOCH_MS / DAY_MS / days) if days else 0.0
        self._epochs: dict[int, list[Fault]] = {}
        self._of_place: dict[int, dict[int, Fault]] = {}

    def at(self, moment: int) -> list[Fault]:
        """What is broken then."""
        return [fault for fault in self._near(moment) if fault.from_at <= moment < fault.to_at]

    def between(self, start: int, end: int) -> list[Fault]:
        """What breaks after `start` and not after `end`, in order."""
        found = [
            fault
            for epoch in range(start // EPOCH_MS, end // EPOCH_MS + 1)
            for fault in self._epoch(epoch)
            if start < fault.from_at <= end
        ]
        return sorted(found, key=lambda fault: (fault.from_at, fault.place))

    def ended(self, start: int, end: int) -> list[Fault]:
        """What is mended after `start` and not after `end`."""
        near = {fault for epoch in range(start // EPOCH_MS - 1, end // EPOCH_MS + 1) for fault in self._epoch(epoch)}
        return sorted((fault for fault in near if start < fault.to_at <= end), key=lambda fault: fault.to_at)

    def first(self, place: int, devices: Collection[int], start: int, end: int) -> Fault | None:
        """The first fault that hits these devices of a node after `start` and not after `end`."""
        for epoch in range(start // EPOCH_MS, end // EPOCH_MS + 1):
            self._epoch(epoch)
            fault = self._of_place[epoch].get(place)
            if fault is not None and start < fault.from_at <= end and fault.hits(devices):
                return fault
        return None

    def next_change(self, moment: int) -> int | None:
        """When something breaks or is mended next, as far as is known."""
        later = [*self._near(moment), *self._epoch(moment // EPOCH_MS + 1)]
        times = [at for fault in later for at in (fault.from_at, fault.to_at) if at > moment]
        return min(times, default=None)

    def node(self, place: int, moment: int) -> Node:
        """A node as it is then."""
        node = self._machines.nodes[place]
        for epoch in (moment // EPOCH_MS - 1, moment // EPOCH_MS):
            self._epoch(epoch)
            fault = self._of_place[epoch].get(place)
            if fault is not None and fault.from_at <= moment < fault.to_at:
                node = _broken(node, fault)
        return node

    def _near(self, moment: int) -> list[Fault]:
        epoch = moment // EPOCH_MS
        return self._epoch(epoch - 1) + self._epoch(epoch)

    def _epoch(self, number: int) -> list[Fault]:
        if number not in self._epochs:
            # the last nodes are spared, so that what needs two large ones can always run
            places = range(len(self._machines.nodes) - FEWEST_LARGE) if self._share else ()
            drawn = [fault for place in places if (fault := self._drawn(number, place))]
            self._epochs[number] = drawn
            self._of_place[number] = {fault.place: fault for fault in drawn}
        return self._epochs[number]

    def _drawn(self, epoch: int, place: int) -> Fault | None:
        rolled = dice(self._machines.seed, "fault", epoch, place)
        if rolled.random() >= self._share:
            return None
        group = self._machines.groups[place]
        from_at = epoch * EPOCH_MS + rolled.randrange(EPOCH_MS)
        lasts = min(LONGEST_MS, SHORTEST_MS + int(rolled.expovariate(1 / 3.0) * HOUR_MS))
        if rolled.random() < 0.3:
            return Fault(place, NODE, from_at, from_at + lasts, rolled.choice(NODE_FAULTS))
        words = AMD_FAULTS if group.model.is_amd else NVIDIA_FAULTS
        return Fault(place, rolled.randrange(group.gpus), from_at, from_at + lasts, rolled.choice(words))


def _broken(node: Node, fault: Fault) -> Node:
    if fault.device == NODE:
        return structs.replace(node, ready=False, fault=fault.message)
    devices = tuple(
        structs.replace(device, fault=fault.message) if device.index == fault.device else device
        for device in node.devices
    )
    return structs.replace(node, devices=devices)
