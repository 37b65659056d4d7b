"""A cluster as the scheduler sees it, read from the store: rooms, queues, who waits and who is placed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.controller.judge import latest, predecessors
from stoker.domain.node import Node
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Phase, Pod, Workload
from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting
from stoker.store import nodes, pods, workloads, workspaces
from stoker.store.base import Transaction


class Cluster(Struct, frozen=True):
    """Everything of a cluster that is under way."""

    workloads: Mapping[str, Workload]
    pods: Mapping[str, Sequence[Pod]]
    nodes: Mapping[str, Node]
    queues: tuple[Queue, ...]
    dependencies: Mapping[str, tuple[str, Phase]]


def read_cluster(transaction: Transaction, cluster_id: str) -> Cluster:
    active = {workload.uid: workload for workload in workloads.active(transaction, cluster_id)}
    held: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods.held(transaction, cluster_id):
        held[pod.workload_uid].append(pod)
    refs = {ref for workload in active.values() if workload.phase.queued for ref in workload.spec.dependencies}
    return Cluster(
        active,
        held,
        {node.name: node for node in nodes.of_cluster(transaction, cluster_id)},
        tuple(
            Queue(each.id, each.name, each.quota, each.queue_policy, each.preemption)
            for each in workspaces.of_cluster(transaction, cluster_id)
        ),
        {ref: workloads.phase_of(transaction, ref) for ref in refs},
    )


def snapshot(cluster: Cluster, now: int) -> Snapshot:
    """The same, as the scheduler wants it."""
    on_node = by_node(pod for held in cluster.pods.values() for pod in held)
    return Snapshot(
        now=now,
        nodes=tuple(_room(node, on_node.get(node.name, ())) for node in cluster.nodes.values()),
        queues=cluster.queues,
        waiting=tuple(
            _waiting(cluster, workload, len(ranks))
            for workload in cluster.workloads.values()
            if (ranks := missing_ranks(workload, cluster.pods.get(workload.uid, ())))
        ),
        placed=tuple(
            _placed(cluster.workloads[uid], holders(held))
            for uid, held in cluster.pods.items()
            if uid in cluster.workloads
        ),
    )


def missing_ranks(workload: Workload, held: Sequence[Pod]) -> tuple[int, ...]:
    """The ranks that want a place: all of a queued workload, of one that is kept up those that have none."""
    if workload.phase.queued:
        return tuple(range(workload.spec.replicas))
    if not workload.kind.rolls or workload.phase.ended or workload.phase.leaving or workload.then is not None:
        return ()
    there = {pod.rank for pod in latest(held, workload.revision) if not pod.phase.ended}
    there |= {pod.rank for pod in predecessors(workload, held)}
    return tuple(rank for rank in range(workload.spec.replicas) if rank not in there)


def holders(held: Iterable[Pod]) -> list[Pod]:
    """The pods that take up room: a successor does so only when the one it follows has gone."""
    first: dict[tuple[str, int], Pod] = {}
    for pod in sorted(held, key=lambda pod: (pod.revision, pod.created_at)):
        first.setdefault((pod.workload_uid, pod.rank), pod)
    return list(first.values())


def by_node(held: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """The pods that take up room on each node."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in holders(held):
        found[pod.node].append(pod)
    return found


def free_devices(node: Node, held: Iterable[Pod]) -> dict[int, int]:
    """The free milli-GPUs of each healthy device of a node."""
    free = {device.index: MILLI for device in node.devices if not device.fault}
    for pod in held:
        share = min(pod.resources.gpu_milli, MILLI)
        for index in pod.devices:
            if index in free:
                free[index] -= share
    return free


def _room(node: Node, held: Sequence[Pod]) -> NodeRoom:
    used = sum((pod.resources for pod in held), Resources())
    free = free_devices(node, held)
    return NodeRoom(
        name=node.name,
        cpu_milli=max(0, node.cpu_milli - used.cpu_milli),
        memory_bytes=max(0, node.memory_bytes - used.memory_bytes),
        whole_gpus=sum(1 for milli in free.values() if milli == MILLI),
        shared_gpus=tuple(sorted(milli for milli in free.values() if 0 < milli < MILLI)),
        total=node.capacity,
        usable=node.ready and not node.fault and not node.cordoned,
        pool=node.pool,
    )


def _waiting(cluster: Cluster, workload: Workload, replicas: int) -> Waiting:
    states = [cluster.dependencies[ref] for ref in workload.spec.dependencies if ref in cluster.dependencies]
    known = dict(states)
    bad = next((slug for slug, phase in states if phase.ended and phase is not Phase.COMPLETED), "")
    due = [at for at in (workload.not_before, workload.spec.start_after) if at is not None]
    return Waiting(
        uid=workload.uid,
        workspace_id=workload.workspace_id,
        priority=workload.priority,
        submitted_at=workload.submitted_at,
        replicas=replicas,
        each=workload.spec.resources,
        preemptible=workload.preemptible,
        requeued=workload.requeued or not workload.phase.queued,
        specified_nodes=workload.spec.specified_nodes,
        pools=workload.spec.node_pools,
        tolerate_all=workload.spec.tolerate_all,
        not_before=max(due) if due else None,
        waits_for=tuple(sorted(slug for slug, phase in known.items() if not phase.ended)),
        failed_dependency=bad,
    )


def _placed(workload: Workload, held: Sequence[Pod]) -> Placed:
    return Placed(
        uid=workload.uid,
        workspace_id=workload.workspace_id,
        priority=workload.priority,
        placed_at=min(pod.created_at for pod in held),
        nodes=tuple(pod.node for pod in held),
        each=held[0].resources,
        preemptible=workload.preemptible,
        leaving=workload.phase.leaving or workload.then is not None,
    )
