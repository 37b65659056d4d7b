"""Dispatch: stores the attempt, the pods and the GPU allocations of workloads that the planner has placed.

All of it is stored before an engine is asked for anything, so a crash at any point leaves either nothing or all that
is needed to continue.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from stoker.controller.reconcile.status import WorkloadState
from stoker.controller.scheduling.devices import DeviceAllocator
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.names import RandomBytes, new_uuid7
from stoker.domain.workload.events import Dispatched, NodesReserved
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.placement import missing_ranks, replaceable_pods
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind
from stoker.store.cluster import nodes
from stoker.store.db.base import Transaction
from stoker.store.workloads import allocations, pods, rows, transitions
from stoker.store.workloads.allocations import Allocation


class Assignment(Struct, frozen=True):
    """A placement: the workload as it was planned, the ranks that get pods, and a node for each of them."""

    workload: Workload
    ranks: Sequence[int]
    nodes: Sequence[str]
    guaranteed_until: int | None = None


def pod_name(workload: Workload, rank: int) -> str:
    """The pods of a PyTorchJob are a master and workers, a single one is worker 0; others are numbered by rank."""
    if workload.kind != Kind.PYTORCH_JOB:
        return f"{workload.slug}-{rank}"
    if workload.spec.replicas == 1:
        return f"{workload.slug}-worker-0"
    return f"{workload.slug}-master-0" if rank == 0 else f"{workload.slug}-worker-{rank - 1}"


def dispatch(
    transaction: Transaction,
    cluster_id: str,
    allocator: DeviceAllocator,
    assignments: Sequence[Assignment],
    at: int,
    randomness: RandomBytes,
) -> dict[str, WorkloadState]:
    """Create the pods of planned workloads; a workload that has changed since it was planned is skipped. Returns the
    new state of those that were dispatched, with pods if a new attempt has begun."""
    current = rows.by_uid(transaction, [assignment.workload.uid for assignment in assignments])
    running = [uid for uid, workload in current.items() if not workload.phase.is_pending]
    unreleased = pods.unreleased_of_workloads(transaction, cluster_id, running) if running else {}
    changes: list[tuple[Workload, Transition]] = []
    new_pods: list[Pod] = []
    dispatched: dict[str, WorkloadState] = {}
    for assignment in assignments:
        workload = current.get(assignment.workload.uid)
        if workload is None or workload.version != assignment.workload.version:
            continue
        if missing_ranks(workload, unreleased.get(workload.uid, ()), allocator.nodes) != tuple(assignment.ranks):
            continue  # pods are created and end without a new version of the workload
        devices = allocator.allocate(assignment.nodes, workload.spec.resources)
        if devices is None:
            continue
        pools = dict.fromkeys(allocator.nodes[name].pool for name in assignment.nodes)
        new_attempt = transition(workload, Dispatched(at, tuple(pools), assignment.guaranteed_until))
        change = new_attempt or transition(workload, NodesReserved(at, ()))
        after = change.workload if change else workload
        changes += [(workload, change)] if change else []
        workload_pods = _build_pods(after, assignment, devices, at, randomness)
        new_pods += workload_pods
        dispatched[after.uid] = WorkloadState(after, workload_pods if new_attempt else ())
    transitions.apply_all(transaction, changes)
    pods.add(transaction, cluster_id, new_pods)
    new_allocations = [
        allocation
        for pod in new_pods
        if pod.devices
        for allocation in build_allocations(pod, allocator.nodes[pod.node], at)
    ]
    allocations.allocate(transaction, cluster_id, _not_before_release(transaction, cluster_id, new_allocations, at))
    return dispatched


def _not_before_release(
    transaction: Transaction, cluster_id: str, new_allocations: Sequence[Allocation], at: int
) -> Sequence[Allocation]:
    """Allocations that begin no earlier than the last release of their GPU, even if the clock was set back since: no
    GPU time is charged twice."""
    released_at = allocations.released_after(transaction, cluster_id, at) if new_allocations else {}
    return [
        structs.replace(allocation, from_at=max(at, released_at.get(allocation.gpu_key, at)))
        for allocation in new_allocations
    ]


def _build_pods(
    workload: Workload, assignment: Assignment, devices: Sequence[tuple[int, ...]], at: int, randomness: RandomBytes
) -> list[Pod]:
    return [
        Pod(
            uid=new_uuid7(at, randomness),
            workload_uid=workload.uid,
            name=pod_name(workload, rank),
            attempt=workload.attempt,
            revision=workload.revision,
            rank=rank,
            node=node,
            resources=workload.spec.resources,
            devices=pod_devices,
            created_at=at,
        )
        for rank, node, pod_devices in zip(assignment.ranks, assignment.nodes, devices, strict=True)
    ]


def create_replacements(transaction: Transaction, planned: Workload, at: int, randomness: RandomBytes) -> bool:
    """Create pods of the current revision on the nodes and devices of older ones; the GPUs are transferred when the
    older pod has ended. The store decides which pods are replaced: one that has ended meanwhile is not, and one with a
    faulty GPU is left to the scheduler. Returns False if only the scheduler has something left to do."""
    workload = rows.find(transaction, planned.uid)
    if workload is None or workload.version != planned.version:
        return True
    attempt_pods = pods.of_current_attempt(transaction, [workload.uid]).get(workload.uid, [])
    alive = [pod for pod in attempt_pods if not pod.phase.is_finished]
    pod_nodes = nodes.by_name(transaction, workload.cluster_id, {pod.node for pod in alive})
    replacements = [
        Pod(
            uid=new_uuid7(at, randomness),
            workload_uid=workload.uid,
            name=pod_name(workload, old.rank),
            attempt=workload.attempt,
            revision=workload.revision,
            rank=old.rank,
            node=old.node,
            resources=workload.spec.resources,
            devices=old.devices[: -(-workload.spec.resources.gpu_milli // MILLI)],
            created_at=at,
        )
        for old in replaceable_pods(workload, alive, pod_nodes)
    ]
    pods.add(transaction, workload.cluster_id, replacements)
    return bool(replacements) or not replaceable_pods(workload, alive)


def build_allocations(pod: Pod, node: Node | None, at: int) -> list[Allocation]:
    """The GPU allocations of a pod from `at` on."""
    devices = {device.index: device for device in node.devices} if node else {}
    return [
        Allocation(
            pod_uid=pod.uid,
            device=index,
            workload_uid=pod.workload_uid,
            node=pod.node,
            model=devices[index].model if index in devices else "",
            gpu_milli=min(pod.resources.gpu_milli, MILLI),
            from_at=at,
            gpu_uuid=devices[index].uuid if index in devices else "",
            slot=slot,
        )
        for slot, index in enumerate(pod.devices)
    ]
