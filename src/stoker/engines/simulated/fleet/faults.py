"""The fault schedule: which nodes and GPUs are faulty when. It is a function of the seed and the time alone, so it can
be queried for the past and the present alike."""

from collections.abc import Collection

from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.cluster.node import Node
from stoker.engines.simulated.fleet.nodes import MIN_LARGE_NODES, SimulatedFleet
from stoker.engines.simulated.seeded_random import seeded_rng

FAULT_EPOCH_MS = 10 * DAY_MS
"""A node has at most one fault in this time, and every fault is shorter."""
MIN_FAULT_MS = 20 * 60_000
MAX_FAULT_MS = 10 * 3_600_000
WHOLE_NODE = -1

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


class SimulatedFault(Struct, frozen=True):
    """`device` is NODE if the whole node is down. A node that is down and a GPU that is off the bus are `dark`: they
    report no samples."""

    node_index: int
    device: int
    from_at: int
    to_at: int
    message: str

    @property
    def is_unreadable(self) -> bool:
        return self.device == WHOLE_NODE or "bus" in self.message

    def affects(self, devices: Collection[int]) -> bool:
        return self.device == WHOLE_NODE or self.device in devices


class FaultSchedule:
    """`days` is the mean time between two faults of a node; 0 means no faults."""

    def __init__(self, fleet: SimulatedFleet, days: float) -> None:
        self._fleet = fleet
        self._probability = min(1.0, FAULT_EPOCH_MS / DAY_MS / days) if days else 0.0
        self._epochs: dict[int, list[SimulatedFault]] = {}
        self._by_node: dict[int, dict[int, SimulatedFault]] = {}

    def active_at(self, moment: int) -> list[SimulatedFault]:
        """The faults at this time."""
        return [fault for fault in self._recent(moment) if fault.from_at <= moment < fault.to_at]

    def starting_between(self, start: int, end: int) -> list[SimulatedFault]:
        """The faults that begin after `start` and not after `end`, in order."""
        found = [
            fault
            for epoch in range(start // FAULT_EPOCH_MS, end // FAULT_EPOCH_MS + 1)
            for fault in self._faults_of_epoch(epoch)
            if start < fault.from_at <= end
        ]
        return sorted(found, key=lambda fault: (fault.from_at, fault.node_index))

    def ending_between(self, start: int, end: int) -> list[SimulatedFault]:
        """The faults that end after `start` and not after `end`."""
        near = {
            fault
            for epoch in range(start // FAULT_EPOCH_MS - 1, end // FAULT_EPOCH_MS + 1)
            for fault in self._faults_of_epoch(epoch)
        }
        return sorted((fault for fault in near if start < fault.to_at <= end), key=lambda fault: fault.to_at)

    def first_affecting(self, node_index: int, devices: Collection[int], start: int, end: int) -> SimulatedFault | None:
        """The first fault that affects these devices of a node after `start` and not after `end`."""
        for epoch in range(start // FAULT_EPOCH_MS, end // FAULT_EPOCH_MS + 1):
            self._faults_of_epoch(epoch)
            fault = self._by_node[epoch].get(node_index)
            if fault is not None and start < fault.from_at <= end and fault.affects(devices):
                return fault
        return None

    def next_change(self, moment: int) -> int | None:
        """When the next fault begins or ends, as far as it is known."""
        later = [*self._recent(moment), *self._faults_of_epoch(moment // FAULT_EPOCH_MS + 1)]
        times = [at for fault in later for at in (fault.from_at, fault.to_at) if at > moment]
        return min(times, default=None)

    def node_at(self, node_index: int, moment: int) -> Node:
        """A node at this time."""
        node = self._fleet.nodes[node_index]
        for epoch in (moment // FAULT_EPOCH_MS - 1, moment // FAULT_EPOCH_MS):
            self._faults_of_epoch(epoch)
            fault = self._by_node[epoch].get(node_index)
            if fault is not None and fault.from_at <= moment < fault.to_at:
                node = _with_fault(node, fault)
        return node

    def _recent(self, moment: int) -> list[SimulatedFault]:
        epoch = moment // FAULT_EPOCH_MS
        return self._faults_of_epoch(epoch - 1) + self._faults_of_epoch(epoch)

    def _faults_of_epoch(self, number: int) -> list[SimulatedFault]:
        if number not in self._epochs:
            # the last nodes have no faults, so that a workload on two large nodes can always run
            node_indexes = range(len(self._fleet.nodes) - MIN_LARGE_NODES) if self._probability else ()
            drawn = [fault for node_index in node_indexes if (fault := self._draw_fault(number, node_index))]
            self._epochs[number] = drawn
            self._by_node[number] = {fault.node_index: fault for fault in drawn}
        return self._epochs[number]

    def _draw_fault(self, epoch: int, node_index: int) -> SimulatedFault | None:
        rolled = seeded_rng(self._fleet.seed, "fault", epoch, node_index)
        if rolled.random() >= self._probability:
            return None
        group = self._fleet.node_groups[node_index]
        from_at = epoch * FAULT_EPOCH_MS + rolled.randrange(FAULT_EPOCH_MS)
        lasts = min(MAX_FAULT_MS, MIN_FAULT_MS + int(rolled.expovariate(1 / 3.0) * HOUR_MS))
        if rolled.random() < 0.3:
            return SimulatedFault(node_index, WHOLE_NODE, from_at, from_at + lasts, rolled.choice(NODE_FAULTS))
        words = AMD_FAULTS if group.model.is_amd else NVIDIA_FAULTS
        return SimulatedFault(node_index, rolled.randrange(group.gpus), from_at, from_at + lasts, rolled.choice(words))


def _with_fault(node: Node, fault: SimulatedFault) -> Node:
    if fault.device == WHOLE_NODE:
        return structs.replace(node, ready=False, fault=fault.message)
    devices = tuple(
        structs.replace(device, fault=fault.message) if device.index == fault.device else device
        for device in node.devices
    )
    return structs.replace(node, devices=devices)
