"""What can never start: larger than any node, than the quota, or than the whole cluster.

Judged on what the registered nodes have in total, whatever their health. A cluster without nodes refuses nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.identity import Quota
from stoker.domain.node import Node
from stoker.domain.resources import MILLI, Resources
from stoker.scheduler.accounts import Account
from stoker.scheduler.reasons import Resource, coded
from stoker.scheduler.room import Room, slots


class LargerThanNode(Struct, frozen=True, tag_field="code", tag="larger_than_node"):
    """`largest` is the most that one of the nodes has which have enough of the resources in `beside`."""

    resource: Resource
    asked: int
    largest: int
    beside: tuple[Resource, ...] = ()
    node: str = ""

    @property
    def code(self) -> str:
        return coded(self)

    def sentence(self) -> str:
        asked, largest = self.resource.shown(self.asked), self.resource.figure(self.largest)
        less = (
            "Ask for less."
            if self.largest
            else f"Ask for none, or use a workspace of a cluster with {self.resource.plural}."
        )
        if self.node:
            return f"The workload asks for {asked} on node {self.node}, which has {largest} in all. {less}"
        enough = f" with enough {' and '.join(each.plural for each in self.beside)}" if self.beside else ""
        return f"The workload asks for {asked} per replica; the largest node{enough} has {largest}. {less}"


class LargerThanQuota(Struct, frozen=True, tag_field="code", tag="larger_than_quota"):
    resource: Resource
    asked: int
    quota: int

    @property
    def code(self) -> str:
        return coded(self)

    def sentence(self) -> str:
        asked, quota = self.resource.shown(self.asked), self.resource.figure(self.quota)
        asked_for = f"The workload asks for {asked} in all; the quota of its workspace is {quota}."
        return f"{asked_for} Ask for less, or make it preemptible."


class LargerThanCluster(Struct, frozen=True, tag_field="code", tag="larger_than_cluster"):
    """All nodes together, empty, hold fewer replicas."""

    replicas: int
    fitting: int
    nodes: int

    @property
    def code(self) -> str:
        return coded(self)

    def sentence(self) -> str:
        nodes = f"{self.nodes} nodes of the cluster hold" if self.nodes > 1 else "only node of the cluster holds"
        return (
            f"The workload asks for {self.replicas} replicas; the {nodes} {self.fitting} of them when empty. "
            "Ask for fewer, or for less per replica."
        )


NeverFits = LargerThanNode | LargerThanQuota | LargerThanCluster


class Capacity:
    """What the nodes of a cluster have in all. A fleet has few sizes of nodes, so it is asked about quickly."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.sizes = Counter(node.capacity for node in self.nodes.values())


def never_fits(
    each: Resources, replicas: int, specified_nodes: Sequence[str], capacity: Capacity, quota: Quota
) -> NeverFits | None:
    """Why a workload could not start even in an empty cluster. For one that may borrow, give no quota."""
    over = Account(quota).short_of(each * replicas)
    if over is not None:
        resource, asked, _, owed = over
        return LargerThanQuota(resource, asked, owed)
    if not capacity.nodes:
        return None
    for name in specified_nodes:
        node = capacity.nodes.get(name)
        if node is not None and (short := _short(each, [node.capacity])):
            return LargerThanNode(*short[:3], node=name)
    if short := _short(each, list(capacity.sizes)):
        return LargerThanNode(*short)
    fitting = sum(count * min(replicas, slots(_empty(size), each)) for size, count in capacity.sizes.items())
    if fitting < replicas and not specified_nodes:
        return LargerThanCluster(replicas, fitting, len(capacity.nodes))
    return None


def _short(each: Resources, sizes: list[Resources]) -> tuple[Resource, int, int, tuple[Resource, ...]] | None:
    """The first resource of which no node has enough beside those before it."""
    beside: tuple[Resource, ...] = ()
    for resource in Resource:
        asked = resource.of(each)
        enough = [size for size in sizes if resource.of(size) >= asked]
        if not enough:
            return resource, asked, max(resource.of(size) for size in sizes), beside
        sizes, beside = enough, (*beside, resource) if asked else beside
    return None


def _empty(size: Resources) -> Room:
    return Room(size.gpu_milli // MILLI, size.cpu_milli, size.memory_bytes)
