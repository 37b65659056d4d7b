"""Rejects requests that can never start: larger than any node, the quota or the cluster.

Checks use the total capacity of all registered nodes, healthy or not. A cluster without nodes rejects nothing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler.capacity.node_free import NodeFree, fit_count
from stoker.scheduler.explain.reasons import ResourceName, reason_code
from stoker.scheduler.quota.usage import QuotaUsage


class LargerThanNode(Struct, frozen=True, tag_field="code", tag="larger_than_node"):
    """`largest` is the maximum of the resource on any node with enough of all `sufficient_resources`."""

    resource: ResourceName
    requested: int
    largest: int
    sufficient_resources: tuple[ResourceName, ...] = ()
    node: str = ""

    @property
    def code(self) -> str:
        return reason_code(self)

    def message(self) -> str:
        requested, largest = self.resource.format_with_unit(self.requested), self.resource.format_amount(self.largest)
        less = (
            "Ask for less."
            if self.largest
            else f"Ask for none, or use a workspace of a cluster with {self.resource.plural}."
        )
        if self.node:
            return f"The workload asks for {requested} on node {self.node}, which has {largest} in total. {less}"
        enough = (
            f" with enough {' and '.join(resource.plural for resource in self.sufficient_resources)}"
            if self.sufficient_resources
            else ""
        )
        return f"The workload asks for {requested} per replica; the largest node{enough} has {largest}. {less}"


class LargerThanQuota(Struct, frozen=True, tag_field="code", tag="larger_than_quota"):
    resource: ResourceName
    requested: int
    quota: int

    @property
    def code(self) -> str:
        return reason_code(self)

    def message(self) -> str:
        requested, quota = self.resource.format_with_unit(self.requested), self.resource.format_amount(self.quota)
        asked_for = f"The workload asks for {requested} in total; the quota of its workspace is {quota}."
        return f"{asked_for} Ask for less, or make it preemptible."


class LargerThanCluster(Struct, frozen=True, tag_field="code", tag="larger_than_cluster"):
    """The empty cluster has capacity for fewer replicas."""

    replicas: int
    fitting_replicas: int
    nodes: int

    @property
    def code(self) -> str:
        return reason_code(self)

    def message(self) -> str:
        nodes = f"{self.nodes} nodes of the cluster hold" if self.nodes > 1 else "only node of the cluster holds"
        requested = humanize_count(self.replicas, "replica")
        return (
            f"The workload asks for {requested}; the {nodes} {self.fitting_replicas} of them when empty. "
            "Ask for fewer, or for less per replica."
        )


Infeasible = LargerThanNode | LargerThanQuota | LargerThanCluster


class ClusterCapacity:
    """Total capacity of each node, grouped by size: a fleet has few distinct sizes, which keeps checks fast."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.node_count_by_capacity = Counter(node.capacity for node in self.nodes.values())


def check_feasibility(
    pod_request: Resources, replicas: int, specified_nodes: Sequence[str], capacity: ClusterCapacity, quota: Quota
) -> Infeasible | None:
    """Why a workload could not start even in an empty cluster. Pass no quota if it may borrow."""
    exceeded = QuotaUsage(quota).first_exceeded(pod_request * replicas)
    if exceeded is not None:
        resource, requested, _, quota_amount = exceeded
        return LargerThanQuota(resource, requested, quota_amount)
    if not capacity.nodes:
        return None
    for name in specified_nodes:
        node = capacity.nodes.get(name)
        if node is not None and (insufficient := _first_insufficient(pod_request, [node.capacity])):
            return LargerThanNode(*insufficient[:3], node=name)
    if insufficient := _first_insufficient(pod_request, list(capacity.node_count_by_capacity)):
        return LargerThanNode(*insufficient)
    fitting = sum(
        count * min(replicas, fit_count(_empty_node(size), pod_request))
        for size, count in capacity.node_count_by_capacity.items()
    )
    if fitting < replicas and not specified_nodes:
        return LargerThanCluster(replicas, fitting, len(capacity.nodes))
    return None


def _first_insufficient(
    pod_request: Resources, sizes: list[Resources]
) -> tuple[ResourceName, int, int, tuple[ResourceName, ...]] | None:
    """The first resource of which no node with enough of the earlier ones has enough."""
    sufficient: tuple[ResourceName, ...] = ()
    for resource in ResourceName:
        requested = resource.amount_in(pod_request)
        sufficient_sizes = [size for size in sizes if resource.amount_in(size) >= requested]
        if not sufficient_sizes:
            return resource, requested, max(resource.amount_in(size) for size in sizes), sufficient
        sizes, sufficient = sufficient_sizes, (*sufficient, resource) if requested else sufficient
    return None


def _empty_node(size: Resources) -> NodeFree:
    return NodeFree(size.gpu_milli // MILLI, size.cpu_milli, size.memory_bytes)
