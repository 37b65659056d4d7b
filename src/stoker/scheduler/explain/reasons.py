"""Why a workload waits, or can never start: a closed set of reasons with numbers, and a sentence for each.

They are tried in the order in which `Reason` lists them, and the first that holds is given.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

from stoker.domain.quantity import spoken_bytes, spoken_number
from stoker.domain.resources import MILLI, Resources

NO_NAMES: Mapping[str, str] = {}


class Resource(StrEnum):
    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"

    def of(self, amounts: Resources) -> int:
        match self:
            case Resource.GPU:
                return amounts.gpu_milli
            case Resource.CPU:
                return amounts.cpu_milli
            case Resource.MEMORY:
                return amounts.memory_bytes

    @property
    def plural(self) -> str:
        return "memory" if self is Resource.MEMORY else f"{self.name}s"

    def shown(self, amount: int) -> str:
        """8 GPUs, 0.5 GPU, 64 CPUs, 256 GiB of memory."""
        if self is Resource.MEMORY:
            return f"{spoken_bytes(amount)} of memory"
        return f"{spoken_number(amount / MILLI)} {self.name}{'s' if amount > MILLI or amount == 0 else ''}"

    def figure(self, amount: int) -> str:
        """The same without the words."""
        return spoken_bytes(amount) if self is Resource.MEMORY else spoken_number(amount / MILLI)

    def free(self, amount: int) -> str:
        """What is left of it: `5 free`, or `none free`."""
        return f"{self.figure(amount)} free" if amount else "none free"


def coded(reason: Struct) -> str:
    """The word that machines know a reason by."""
    return str(reason.__struct_config__.tag)


class _Reason(Struct, frozen=True, tag_field="code"):
    @property
    def code(self) -> str:
        return coded(self)


class NotYet(_Reason, frozen=True, tag="not_yet"):
    """Its start time, or the end of its pause after a failure, is still to come."""

    until: int

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        moment = datetime.fromtimestamp(self.until / 1000, UTC)
        return f"Starts no earlier than {moment.isoformat(timespec='seconds').replace('+00:00', 'Z')}."


class WaitsFor(_Reason, frozen=True, tag="waits_for"):
    """Dependencies have not ended."""

    uids: tuple[str, ...]

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        return f"Waits for {_listed(self.uids, names)} to succeed."


class BehindHead(_Reason, frozen=True, tag="behind_head"):
    """The queue is first in, first out, and its head cannot start."""

    uid: str
    ahead: int

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        many = f"{self.ahead} workloads are" if self.ahead > 1 else "1 workload is"
        return f"Waits behind {names.get(self.uid, self.uid)}, the head of the queue; {many} ahead of it."


class BehindPriority(_Reason, frozen=True, tag="behind_priority"):
    """A workload of higher priority could not start, and is not passed."""

    uid: str
    priority: int

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        return f"Waits until {names.get(self.uid, self.uid)} has started, which has a higher priority."


class Preempting(_Reason, frozen=True, tag="preempting"):
    """Room is on its way: others are leaving, and what they leave is kept for it."""

    victims: tuple[str, ...]

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        return f"Room is being made: waits for {_listed(self.victims, names)} to leave."


class OverQuota(_Reason, frozen=True, tag="over_quota"):
    resource: Resource
    asked: int
    used: int
    quota: int

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        used, quota = self.resource.figure(self.used), self.resource.shown(self.quota)
        return f"Needs {self.resource.shown(self.asked)}; the workspace uses {used} of its quota of {quota}."


class NodeUnusable(_Reason, frozen=True, tag="node_unusable"):
    """A node it named is cordoned, faulty or not ready, or there is no such node."""

    node: str
    known: bool

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        why = "takes nothing new: it is cordoned, faulty or not ready" if self.known else "is not in the cluster"
        return f"Asks for node {self.node}, which {why}."


class NodeTaken(_Reason, frozen=True, tag="node_taken"):
    """A node it named has too little free."""

    node: str
    resource: Resource
    asked: int
    free: int

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        free = self.resource.free(self.free)
        return f"Needs {self.resource.shown(self.asked)} on node {self.node}, which has {free}."


class NoRoom(_Reason, frozen=True, tag="no_room"):
    """No node has enough, or too few have. `fitting` replicas would find room; `best_free` is what the freest of
    `nodes` has of the resource that runs short. Nodes that are short of the resources in `beside` do not count."""

    resource: Resource
    asked_each: int
    replicas: int
    fitting: int
    best_free: int
    nodes: int
    beside: tuple[Resource, ...] = ()

    def sentence(self, names: Mapping[str, str] = NO_NAMES) -> str:
        asked = self.resource.shown(self.asked_each)
        if self.nodes == 0:
            return f"Needs {asked}; there is no usable node in its pools."
        if self.fitting:
            return f"Needs {self.replicas} x {asked}; {self.fitting} of {self.replicas} fit on {_nodes(self.nodes)}."
        many = f"{self.replicas} x {asked}" if self.replicas > 1 else f"{asked} on one node"
        enough = f" with enough {' and '.join(each.plural for each in self.beside)}" if self.beside else ""
        best = self.resource.free(self.best_free)
        freest = f"the freest of {self.nodes} nodes" if self.nodes > 1 else "the only node"
        return f"Needs {many}; {freest}{enough} has {best}."


Reason = NotYet | WaitsFor | BehindHead | BehindPriority | Preempting | OverQuota | NodeUnusable | NodeTaken | NoRoom


def _nodes(number: int) -> str:
    return f"{number} nodes" if number > 1 else "1 node"


def _listed(uids: tuple[str, ...], names: Mapping[str, str], most: int = 3) -> str:
    shown = [names.get(uid, uid) for uid in uids]
    if len(shown) > most:
        return f"{', '.join(shown[:most])} and {len(shown) - most} more"
    return ", ".join(shown)
