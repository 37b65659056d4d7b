"""Bin packing of gangs: all replicas are placed, or none.

A gang uses as few nodes as possible, its last replicas go to the tightest fit, and whole nodes stay free. All GPUs are
of one model if one model has capacity for the gang. Pods without GPUs prefer nodes without free GPUs. The replicas are
identical, so a gang fits if and only if the per-node counts add up.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence, Set

from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler.capacity.node_free import NodeFree, fit_count, whole_gpus_per_pod
from stoker.scheduler.capacity.node_index import Bucket, NodeIndex
from stoker.scheduler.cycle.pending_queue import EquivalenceClass
from stoker.scheduler.cycle.state import CycleState, Horizon
from stoker.scheduler.model import PendingWorkload

NO_EXCLUSIONS: frozenset[str] = frozenset()


def pack(nodes: NodeIndex, buckets: Sequence[Bucket], pod_request: Resources, replicas: int) -> list[str] | None:
    """The node of each replica; None if they do not all fit."""
    free_by_node = nodes.free_by_node
    if 0 < pod_request.gpu_milli < MILLI:
        return _pack_shared_gpus(free_by_node, buckets, pod_request, replicas)
    found = _best_fit(buckets, whole_gpus_per_pod(pod_request), pod_request * replicas, NO_EXCLUSIONS, replicas)
    if found is not None:
        return [found] * replicas
    if replicas == 1:
        return None
    if not pod_request.gpu_milli:
        return _pack_cpu_gang(free_by_node, buckets, pod_request, replicas)
    for others in (*nodes.nodes_of_other_models.values(), NO_EXCLUSIONS):
        found = _pack_gpu_gang(free_by_node, buckets, pod_request, replicas, others)
        if found is not None:
            return found
    return None


def count_fits(
    nodes: NodeIndex, buckets: Sequence[Bucket], pod_request: Resources, limit: int, excluded: Set[str] = NO_EXCLUSIONS
) -> int:
    """How many such pods fit, at most `limit`, without the `excluded` nodes."""
    found = 0
    for bucket in buckets:
        for name in feasible_nodes(bucket, pod_request):
            if name not in excluded:
                found += fit_count(nodes.free_by_node[name], pod_request)
                if found >= limit:
                    return limit
    return found


def feasible_nodes(bucket: Bucket, pod_request: Resources) -> Iterator[str]:
    """The nodes with enough GPUs and CPUs for one such pod, each once."""
    share = 0 < pod_request.gpu_milli < MILLI
    for row in bucket.rows[1 if share else whole_gpus_per_pod(pod_request) :]:
        for index in range(bisect_left(row, (pod_request.cpu_milli,)), len(row)):
            yield row[index][2]
    if share and bucket.rows:
        sharing = {
            name for _, name in bucket.shared_devices[bisect_left(bucket.shared_devices, (pod_request.gpu_milli,)) :]
        }
        yield from (name for cpu, _, name in bucket.rows[0] if name in sharing and cpu >= pod_request.cpu_milli)


def _best_fit(
    buckets: Sequence[Bucket], gpus: int, request: Resources, used: Set[str], multiple: int = 1
) -> str | None:
    """The fullest node with capacity for the whole request."""
    cpu, memory = request.cpu_milli, request.memory_bytes
    for bucket in buckets:
        for row in bucket.rows[gpus * multiple :]:
            for index in range(bisect_left(row, (cpu,)), len(row)):
                entry = row[index]
                if entry[1] >= memory and entry[2] not in used:
                    return entry[2]
    return None


def _pack_gpu_gang(
    free_by_node: dict[str, NodeFree],
    buckets: Sequence[Bucket],
    pod_request: Resources,
    replicas: int,
    excluded: Set[str],
) -> list[str] | None:
    """Nodes that fit the most replicas first, among them those with the fewest free GPUs."""
    gpus = whole_gpus_per_pod(pod_request)
    if _max_pods(buckets, gpus) < replicas:
        return None
    top = max(len(bucket.rows) for bucket in buckets) - 1
    chosen: list[str] = []
    used = set(excluded)
    short: dict[int, list[str]] = {}  # nodes that fit fewer pods than their GPUs allow, for lack of CPU or memory
    for level in range(top // gpus, 0, -1):
        for name in _nodes_with_capacity_for(buckets, gpus, level, short):
            if name in excluded:
                continue
            fits = fit_count(free_by_node[name], pod_request)
            if fits < level:
                short.setdefault(fits, []).append(name)
                continue
            left = replicas - len(chosen)
            if left <= level:
                last = _best_fit(buckets, gpus, pod_request * left, used, left)
                return [*chosen, *[last or name] * left]
            chosen += [name] * level
            used.add(name)
    return None


def _max_pods(buckets: Sequence[Bucket], gpus: int) -> int:
    return sum(len(row) * (free // gpus) for bucket in buckets for free, row in enumerate(bucket.rows))


def _nodes_with_capacity_for(
    buckets: Sequence[Bucket], gpus: int, level: int, short: dict[int, list[str]]
) -> Iterator[str]:
    for free in range(level * gpus, (level + 1) * gpus):
        for bucket in buckets:
            if free < len(bucket.rows):
                yield from (entry[2] for entry in bucket.rows[free])
    yield from short.get(level, ())


def _pack_cpu_gang(
    free_by_node: dict[str, NodeFree], buckets: Sequence[Bucket], pod_request: Resources, replicas: int
) -> list[str] | None:
    chosen: list[str] = []
    used: set[str] = set()
    for bucket in buckets:
        for row in bucket.rows:
            for cpu, _, name in reversed(row):
                if cpu < pod_request.cpu_milli:
                    break
                fits = fit_count(free_by_node[name], pod_request)
                left = replicas - len(chosen)
                if left <= fits:
                    last = _best_fit(buckets, 0, pod_request * left, used)
                    return [*chosen, *[last or name] * left]
                chosen += [name] * fits
                used.add(name)
    return None


def _pack_shared_gpus(
    free_by_node: dict[str, NodeFree], buckets: Sequence[Bucket], pod_request: Resources, replicas: int
) -> list[str] | None:
    """Fractions of GPUs: already shared devices first, and each node is filled before the next."""
    chosen: list[str] = []
    used: set[str] = set()
    while len(chosen) < replicas:
        name = _best_shared_node(free_by_node, buckets, pod_request, used)
        if name is None:
            return None
        chosen += [name] * min(fit_count(free_by_node[name], pod_request), replicas - len(chosen))
        used.add(name)
    return chosen


def _best_shared_node(
    free_by_node: dict[str, NodeFree], buckets: Sequence[Bucket], pod_request: Resources, used: Set[str]
) -> str | None:
    for bucket in buckets:
        for index in range(bisect_left(bucket.shared_devices, (pod_request.gpu_milli,)), len(bucket.shared_devices)):
            name = bucket.shared_devices[index][1]
            node_free = free_by_node[name]
            if (
                name not in used
                and node_free.cpu_milli >= pod_request.cpu_milli
                and node_free.memory_bytes >= pod_request.memory_bytes
            ):
                return name
        if found := _best_fit((bucket,), 1, pod_request, used):
            return found
    return None


def find_placement(
    state: CycleState, horizon: Horizon, workload: PendingWorkload, equivalence_class: EquivalenceClass
) -> Sequence[str] | None:
    """The node of each replica: the specified nodes, or nodes of the first pool that fits all replicas."""
    nodes = state.nodes_at(horizon)
    if equivalence_class.specified_nodes:
        names = state.required_nodes(workload)
        return names if all(_fits_on_node(nodes, equivalence_class, name) for name in names) else None
    where = (equivalence_class.node_pools, equivalence_class.tolerate_all)
    if state.unschedulable.covers(horizon, where, equivalence_class.request_vector):
        return None
    for pool in equivalence_class.node_pools:
        found = pack(
            nodes,
            nodes.buckets_of_pool(pool, equivalence_class.tolerate_all),
            equivalence_class.pod_request,
            equivalence_class.replicas,
        )
        if found is not None:
            return sorted(found)
    state.unschedulable.add(horizon, where, equivalence_class.request_vector)
    return None


def fits_reserved_nodes(
    state: CycleState, horizon: Horizon, workload: PendingWorkload, equivalence_class: EquivalenceClass
) -> bool:
    """Whether the reserved nodes are still eligible and have capacity for all replicas."""
    nodes, reserved = state.nodes_at(horizon), workload.reserved_nodes
    if len(reserved) != equivalence_class.replicas:
        return False
    if equivalence_class.specified_nodes:
        is_eligible = sorted(state.required_nodes(workload)) == sorted(reserved)
    else:
        is_eligible = any(
            all(nodes.is_eligible(name, pool, equivalence_class.tolerate_all) for name in reserved)
            for pool in equivalence_class.node_pools
        )
    return is_eligible and all(
        _fits_on_node(nodes, equivalence_class, name, pods) for name, pods in Counter(reserved).items()
    )


def _fits_on_node(nodes: NodeIndex, equivalence_class: EquivalenceClass, name: str, pods: int = 1) -> bool:
    group = nodes.group_by_node.get(name)
    if group is None or not (group[1] or equivalence_class.tolerate_all):
        return False
    return fit_count(nodes.free_by_node[name], equivalence_class.pod_request) >= pods
