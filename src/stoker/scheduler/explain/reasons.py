"""Pending reasons: a closed set of structs with numbers and a sentence for each.

`PendingReason` lists them in order of precedence: the first that applies is reported.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.quantity import humanize_bytes, humanize_count, humanize_number
from stoker.domain.cluster.resources import MILLI, Resources

NO_DISPLAY_NAMES: Mapping[str, str] = {}


class ResourceName(StrEnum):
    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"

    def amount_in(self, amounts: Resources) -> int:
        match self:
            case ResourceName.GPU:
                return amounts.gpu_milli
            case ResourceName.CPU:
                return amounts.cpu_milli
            case ResourceName.MEMORY:
                return amounts.memory_bytes

    @property
    def plural(self) -> str:
        return "memory" if self is ResourceName.MEMORY else f"{self.name}s"

    def format_with_unit(self, amount: int) -> str:
        """8 GPUs, 0.5 GPU, 64 CPUs, 256 GiB of memory."""
        if self is ResourceName.MEMORY:
            return f"{humanize_bytes(amount)} of memory"
        return humanize_count(amount / MILLI, self.name)

    def format_amount(self, amount: int) -> str:
        """The amount without the noun."""
        return humanize_bytes(amount) if self is ResourceName.MEMORY else humanize_number(amount / MILLI)

    def format_free(self, amount: int) -> str:
        """`5 free`, or `none free`."""
        return f"{self.format_amount(amount)} free" if amount else "none free"


def reason_code(reason: Struct) -> str:
    """The stable code of a reason: its msgspec tag."""
    return str(reason.__struct_config__.tag)


class _BaseReason(Struct, frozen=True, tag_field="code"):
    @property
    def code(self) -> str:
        return reason_code(self)


class StartTimeNotReached(_BaseReason, frozen=True, tag="not_yet"):
    """Its start time, or the end of its retry delay, has not come."""

    until: int

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        moment = datetime.fromtimestamp(self.until / 1000, UTC)
        return f"Starts no earlier than {moment.isoformat(timespec='seconds').replace('+00:00', 'Z')}."


class DependencyPending(_BaseReason, frozen=True, tag="waits_for"):
    """Dependencies have not finished."""

    uids: tuple[str, ...]

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        return f"Waits for {_join_names(self.uids, names)} to succeed."


class BehindQueueHead(_BaseReason, frozen=True, tag="behind_head"):
    """The queue is first in, first out, and its head cannot start."""

    uid: str
    workloads_ahead: int

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        ahead = humanize_count(self.workloads_ahead, "workload is", "workloads are")
        return f"Waits behind {names.get(self.uid, self.uid)}, the head of the queue; {ahead} ahead of it."


class BehindHigherPriority(_BaseReason, frozen=True, tag="behind_priority"):
    """A workload of higher priority cannot start and blocks lower priorities."""

    uid: str
    priority: int

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        return f"Waits until {names.get(self.uid, self.uid)} has started, which has a higher priority."


class Preempting(_BaseReason, frozen=True, tag="preempting"):
    """Other workloads are terminating, and their capacity is reserved for it."""

    victims: tuple[str, ...]

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        return f"Capacity is being freed: waits for {_join_names(self.victims, names)} to terminate."


class OverQuota(_BaseReason, frozen=True, tag="over_quota"):
    resource: ResourceName
    requested: int
    used: int
    quota: int

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        used, quota = self.resource.format_amount(self.used), self.resource.format_with_unit(self.quota)
        requested = self.resource.format_with_unit(self.requested)
        return f"Needs {requested}; the workspace uses {used} of its quota of {quota}."


class NodeUnschedulable(_BaseReason, frozen=True, tag="node_unusable"):
    """A specified node is cordoned, faulty, not ready or unknown."""

    node: str
    exists: bool

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        why = "is cordoned, faulty or not ready" if self.exists else "is not in the cluster"
        return f"Asks for node {self.node}, which {why}."


class InsufficientOnNode(_BaseReason, frozen=True, tag="node_taken"):
    """A specified node has too little free capacity. `faulty_gpus` of its GPUs are unavailable."""

    node: str
    resource: ResourceName
    requested: int
    free: int
    faulty_gpus: int = 0

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        free = self.resource.format_free(self.free)
        needs = f"Needs {self.resource.format_with_unit(self.requested)} on node {self.node}, which has {free}."
        return needs + _describe_faulty_gpus(self.faulty_gpus)


class InsufficientCapacity(_BaseReason, frozen=True, tag="no_room"):
    """No node has enough free capacity, or too few nodes have. `fitting_replicas` would fit; `max_free` is the most
    that one of `nodes` has free of the insufficient resource. Only nodes with enough of all `sufficient_resources`
    count. `faulty_gpus` of its node pools are unavailable."""

    resource: ResourceName
    requested_per_pod: int
    replicas: int
    fitting_replicas: int
    max_free: int
    nodes: int
    sufficient_resources: tuple[ResourceName, ...] = ()
    faulty_gpus: int = 0

    def message(self, names: Mapping[str, str] = NO_DISPLAY_NAMES) -> str:
        return self._describe_request() + _describe_faulty_gpus(self.faulty_gpus)

    def _describe_request(self) -> str:
        requested = self.resource.format_with_unit(self.requested_per_pod)
        if self.nodes == 0:
            return f"Needs {requested}; there is no schedulable node in its node pools."
        if self.fitting_replicas:
            nodes = humanize_count(self.nodes, "node")
            return f"Needs {self.replicas} x {requested}; {self.fitting_replicas} of {self.replicas} fit on {nodes}."
        needed = f"{self.replicas} x {requested}" if self.replicas > 1 else f"{requested} on one node"
        enough = (
            f" with enough {' and '.join(resource.plural for resource in self.sufficient_resources)}"
            if self.sufficient_resources
            else ""
        )
        best = self.resource.format_free(self.max_free)
        best_node = f"the best of {self.nodes} nodes" if self.nodes > 1 else "the only node"
        return f"Needs {needed}; {best_node}{enough} has {best}."


PendingReason = (
    StartTimeNotReached
    | DependencyPending
    | BehindQueueHead
    | BehindHigherPriority
    | Preempting
    | OverQuota
    | NodeUnschedulable
    | InsufficientOnNode
    | InsufficientCapacity
)


def _describe_faulty_gpus(gpus: int) -> str:
    if not gpus:
        return ""
    return f" {gpus} GPUs are faulty and unavailable." if gpus > 1 else " 1 GPU is faulty and unavailable."


def _join_names(uids: tuple[str, ...], names: Mapping[str, str], limit: int = 3) -> str:
    shown = [names.get(uid, uid) for uid in uids]
    if len(shown) > limit:
        return f"{', '.join(shown[:limit])} and {len(shown) - limit} more"
    return ", ".join(shown)
