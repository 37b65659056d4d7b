"""The pending reason of each workload, computed on access.

Reasons are derived from the end of the cycle. Free capacity only shrinks during a cycle, so a workload that could not
start when the cycle reached it cannot start at the end either.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler.capacity.node_free import NodeFree
from stoker.scheduler.capacity.node_index import Bucket, NodeIndex
from stoker.scheduler.cycle.queue_cursor import QueueCursor
from stoker.scheduler.cycle.scheduling_cycle import SchedulingCycle
from stoker.scheduler.cycle.state import CycleState
from stoker.scheduler.explain.reasons import (
    BehindHigherPriority,
    BehindQueueHead,
    DependencyPending,
    InsufficientCapacity,
    InsufficientOnNode,
    NodeUnschedulable,
    OverQuota,
    PendingReason,
    Preempting,
    ResourceName,
    StartTimeNotReached,
)
from stoker.scheduler.model import Pending, PendingWorkload
from stoker.scheduler.placement.packing import count_fits, feasible_nodes


class PendingReasons(Mapping[str, Pending]):
    def __init__(self, cycle: SchedulingCycle, now: int) -> None:
        self._state = cycle.state
        self._cursors = cycle.cursors
        self._now = now
        self._diagnosis_by_request: dict[object, InsufficientCapacity] = {}

    def __len__(self) -> int:
        return sum(
            len(cursor.pending_queue.sort_keys) - len(cursor.started_indexes) for cursor in self._cursors.values()
        )

    def __iter__(self) -> Iterator[str]:
        started = self._state.started
        for cursor in self._cursors.values():
            yield from (uid for uid in cursor.pending_queue.sort_key_by_uid if uid not in started)

    def __getitem__(self, uid: str) -> Pending:
        for cursor in self._cursors.values():
            if uid in cursor.pending_queue.sort_key_by_uid and uid not in self._state.started:
                position = cursor.pending_queue.index_of(uid)
                order = position + 1 - bisect_left(cursor.started_indexes, position)
                return Pending(self._find_reason(cursor, position, order), order)
        raise KeyError(uid)

    def _find_reason(self, cursor: QueueCursor, position: int, order: int) -> PendingReason:
        workload = cursor.pending_queue.workloads[position]
        if workload.not_before is not None and workload.not_before > self._now:
            return StartTimeNotReached(workload.not_before)
        if workload.unfinished_dependencies:
            return DependencyPending(workload.unfinished_dependencies)
        if cursor.blocked_at is not None and position > cursor.blocked_at:
            return BehindQueueHead(cursor.pending_queue.sort_keys[cursor.blocked_at][4], order - 1)
        for at, priority, uid in cursor.priority_floors:
            if at < position and priority > workload.priority:
                return BehindHigherPriority(uid, priority)
        if workload.uid in self._state.new_reservations:
            return Preempting(self._state.awaited_victims(workload))
        return self._diagnose(cursor, workload)

    def _diagnose(self, cursor: QueueCursor, workload: PendingWorkload) -> PendingReason:
        exceeded = cursor.quota_usage.first_exceeded(workload.pod_request * workload.replicas)
        if exceeded is not None and (cursor.has_reservation or not workload.preemptible):
            return OverQuota(*exceeded)
        if workload.specified_nodes:
            return diagnose_required_nodes(self._state, workload)
        key = (workload.node_pools, workload.tolerate_all, workload.pod_request, workload.replicas)
        if key not in self._diagnosis_by_request:
            self._diagnosis_by_request[key] = diagnose_pools(self._state.idle, workload)
        return self._diagnosis_by_request[key]


def diagnose_required_nodes(state: CycleState, workload: PendingWorkload) -> NodeUnschedulable | InsufficientOnNode:
    """The first specified node that does not accept the workload, and why."""
    names = state.required_nodes(workload)
    for name in names:
        group = state.idle.group_by_node.get(name)
        if group is None or not (group[1] or workload.tolerate_all):
            return NodeUnschedulable(name, group is not None)
    insufficient = [
        (name, state.idle.free_by_node[name])
        for name in names
        if _insufficient_resources(state.idle.free_by_node[name], workload.pod_request)
    ]
    name, node_free = insufficient[0]
    resource = _insufficient_resources(node_free, workload.pod_request)[0]
    faulty = state.idle.faulty_gpus_by_node.get(name, 0) if resource is ResourceName.GPU else 0
    return InsufficientOnNode(
        name,
        resource,
        resource.amount_in(workload.pod_request),
        free_amount(node_free, resource, workload.pod_request),
        faulty,
    )


def diagnose_pools(nodes: NodeIndex, workload: PendingWorkload) -> InsufficientCapacity:
    """The first resource of which no node of its pools has enough, or how many replicas fit."""
    pod_request, replicas = workload.pod_request, workload.replicas
    pools = [nodes.buckets_of_pool(pool, workload.tolerate_all) for pool in workload.node_pools]
    buckets = [bucket for pool in pools for bucket in pool]
    node_count = sum(len(row) for bucket in buckets for row in bucket.rows)
    max_free = max((_max_free_gpu_milli(bucket, pod_request) for bucket in buckets), default=0)
    faulty = nodes.count_faulty_gpus(workload.node_pools, workload.tolerate_all)
    if max_free < pod_request.gpu_milli:
        return InsufficientCapacity(
            ResourceName.GPU, pod_request.gpu_milli, replicas, 0, max_free, node_count, faulty_gpus=faulty
        )
    only_gpus = Resources(pod_request.gpu_milli)
    candidates = [nodes.free_by_node[name] for bucket in buckets for name in feasible_nodes(bucket, only_gpus)]
    sufficient = (ResourceName.GPU,) if pod_request.gpu_milli else ()
    for resource in (ResourceName.CPU, ResourceName.MEMORY):
        requested = resource.amount_in(pod_request)
        enough = [node_free for node_free in candidates if free_amount(node_free, resource, pod_request) >= requested]
        if requested and not enough:
            max_free = max((free_amount(node_free, resource, pod_request) for node_free in candidates), default=0)
            return InsufficientCapacity(resource, requested, replicas, 0, max_free, len(candidates), sufficient)
        candidates, sufficient = enough, (*sufficient, resource) if requested else sufficient
    fitting = max((count_fits(nodes, pool, pod_request, replicas) for pool in pools), default=0)
    first_requested = next((resource for resource in ResourceName if resource.amount_in(pod_request)), ResourceName.GPU)
    faulty = faulty if first_requested is ResourceName.GPU else 0
    return InsufficientCapacity(
        first_requested,
        first_requested.amount_in(pod_request),
        replicas,
        fitting,
        max_free,
        node_count,
        faulty_gpus=faulty,
    )


def free_amount(node_free: NodeFree, resource: ResourceName, pod_request: Resources) -> int:
    """The free amount of a resource that one pod could use on a node."""
    match resource:
        case ResourceName.GPU if 0 < pod_request.gpu_milli < MILLI:
            return MILLI if node_free.whole_gpus else max((part for part, _ in node_free.shared_devices), default=0)
        case ResourceName.GPU:
            return node_free.whole_gpus * MILLI
        case ResourceName.CPU:
            return node_free.cpu_milli
        case ResourceName.MEMORY:
            return node_free.memory_bytes


def _insufficient_resources(node_free: NodeFree, pod_request: Resources) -> list[ResourceName]:
    return [
        resource
        for resource in ResourceName
        if free_amount(node_free, resource, pod_request) < resource.amount_in(pod_request)
    ]


def _max_free_gpu_milli(bucket: Bucket, pod_request: Resources) -> int:
    whole = max((node_count for node_count, row in enumerate(bucket.rows) if row), default=0)
    if 0 < pod_request.gpu_milli < MILLI and not whole:
        return bucket.shared_devices[-1][0] if bucket.shared_devices else 0
    return whole * MILLI
