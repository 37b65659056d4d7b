"""Changes to a pending workload that could start it, ordered by how much they change.

Suggestions that keep the request come first; reductions follow, the smallest first.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, structs

from stoker.domain.cluster.quantity import GIB
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler.capacity.node_free import fit_count
from stoker.scheduler.capacity.node_index import NodeIndex
from stoker.scheduler.explain.reasons import ResourceName
from stoker.scheduler.model import PendingWorkload
from stoker.scheduler.placement.packing import count_fits, pack
from stoker.scheduler.quota.usage import QuotaUsage


class AnyNode(Struct, frozen=True, tag_field="edit", tag="any_node"):
    def apply_to(self, workload: PendingWorkload) -> PendingWorkload:
        return structs.replace(workload, specified_nodes=())

    def message(self) -> str:
        return "Do not specify nodes."


class OtherPool(Struct, frozen=True, tag_field="edit", tag="other_pool"):
    pool: str

    def apply_to(self, workload: PendingWorkload) -> PendingWorkload:
        return structs.replace(workload, node_pools=(self.pool,))

    def message(self) -> str:
        return f"Use node pool {self.pool}."


class MakePreemptible(Struct, frozen=True, tag_field="edit", tag="make_preemptible"):
    """Use idle capacity beyond the quota until an in-quota workload needs it."""

    def apply_to(self, workload: PendingWorkload) -> PendingWorkload:
        return structs.replace(workload, preemptible=True)

    def message(self) -> str:
        return "Make it preemptible, so that it may borrow idle capacity beyond the quota."


class RaisePriority(Struct, frozen=True, tag_field="edit", tag="raise_priority"):
    priority: int

    def apply_to(self, workload: PendingWorkload) -> PendingWorkload:
        return structs.replace(workload, priority=self.priority)

    def message(self) -> str:
        return f"Raise its priority to {self.priority}."


class FewerReplicas(Struct, frozen=True, tag_field="edit", tag="fewer_replicas"):
    replicas: int

    def apply_to(self, workload: PendingWorkload) -> PendingWorkload:
        return structs.replace(workload, replicas=self.replicas)

    def message(self) -> str:
        return f"Ask for {self.replicas} {'replicas' if self.replicas > 1 else 'replica'}."


class ReduceRequest(Struct, frozen=True, tag_field="edit", tag="ask_less"):
    """Request less of one resource per replica."""

    resource: ResourceName
    per_pod: int

    def apply_to(self, workload: PendingWorkload) -> PendingWorkload:
        return structs.replace(workload, pod_request=replace_amount(workload.pod_request, self.resource, self.per_pod))

    def message(self) -> str:
        return f"Ask for {self.resource.format_with_unit(self.per_pod)} per replica."


Suggestion = AnyNode | OtherPool | MakePreemptible | RaisePriority | FewerReplicas | ReduceRequest


def change_cost(suggestion: Suggestion, workload: PendingWorkload) -> tuple[float, int, str]:
    """The size of a change: below 1 if the request stays the same, else 1 plus the fraction removed."""
    match suggestion:
        case AnyNode():
            return 0.1, 0, ""
        case OtherPool(pool):
            return 0.2, 0, pool
        case MakePreemptible():
            return 0.3, 0, ""
        case RaisePriority(priority):
            return 0.4, priority, ""
        case FewerReplicas(replicas):
            return 2 - replicas / workload.replicas, 0, ""
        case ReduceRequest(resource, pod_request):
            return 2 - pod_request / resource.amount_in(workload.pod_request), 1, resource


def relaxations(workload: PendingWorkload, pools: Iterable[str]) -> Iterator[Suggestion]:
    """Suggestions that keep the request but relax its constraints."""
    if workload.specified_nodes:
        yield AnyNode()
    else:
        yield from (OtherPool(pool) for pool in pools if pool not in workload.node_pools)
    if not workload.preemptible:
        yield MakePreemptible()


def replace_amount(pod_request: Resources, resource: ResourceName, amount: int) -> Resources:
    match resource:
        case ResourceName.GPU:
            return structs.replace(pod_request, gpu_milli=amount)
        case ResourceName.CPU:
            return structs.replace(pod_request, cpu_milli=amount)
        case ResourceName.MEMORY:
            return structs.replace(pod_request, memory_bytes=amount)


def reductions(workload: PendingWorkload, nodes: NodeIndex, usage: QuotaUsage) -> Iterator[Suggestion]:
    """The smallest reduction of each kind that fits these nodes and this quota."""

    def fits(edited: PendingWorkload) -> bool:
        within_quota = edited.preemptible or usage.fits(edited.pod_request * edited.replicas)
        return within_quota and has_capacity(edited, nodes)

    if not workload.specified_nodes:
        largest = _largest_fitting(
            workload.replicas - 1, lambda number: fits(structs.replace(workload, replicas=number))
        )
        if largest:
            yield FewerReplicas(largest)
    for resource, unit in ((ResourceName.GPU, MILLI), (ResourceName.CPU, MILLI), (ResourceName.MEMORY, GIB)):
        requested = resource.amount_in(workload.pod_request)

        def with_units(units: int, resource: ResourceName = resource, unit: int = unit) -> PendingWorkload:
            return structs.replace(workload, pod_request=replace_amount(workload.pod_request, resource, units * unit))

        largest = _largest_fitting(
            (requested - 1) // unit, lambda units, with_units=with_units: fits(with_units(units))
        )
        if largest:
            yield ReduceRequest(resource, largest * unit)


def has_capacity(workload: PendingWorkload, nodes: NodeIndex) -> bool:
    if workload.specified_nodes:
        return all(_fits_on_node(workload, nodes, name) for name in workload.specified_nodes)
    for pool in workload.node_pools:
        buckets = nodes.buckets_of_pool(pool, workload.tolerate_all)
        if workload.replicas == 1:
            if pack(nodes, buckets, workload.pod_request, 1) is not None:
                return True
        elif count_fits(nodes, buckets, workload.pod_request, workload.replicas) >= workload.replicas:
            return True
    return False


def _fits_on_node(workload: PendingWorkload, nodes: NodeIndex, name: str) -> bool:
    group = nodes.group_by_node.get(name)
    return (
        group is not None
        and (group[1] or workload.tolerate_all)
        and fit_count(nodes.free_by_node[name], workload.pod_request) > 0
    )


def _largest_fitting(top: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `top` that fits, or 0. Smaller numbers fit whenever a larger one does."""
    low, high = 0, top
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
