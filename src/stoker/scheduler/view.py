"""A cluster as the scheduler sees it: rooms, queues, who waits and who is placed."""

from collections.abc import Sequence

from stoker.domain.node import Node
from stoker.domain.placement import UnderWay, by_node, free_devices, holders, missing_ranks
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Phase, Pod, Workload
from stoker.scheduler.room import UNKNOWN
from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting


def snapshot(cluster: UnderWay, now: int) -> Snapshot:
    """The same, as the scheduler wants it."""
    on_node = by_node(pod for held in cluster.pods.values() for pod in held)
    return Snapshot(
        now=now,
        nodes=tuple(_room(node, on_node.get(node.name, ())) for node in cluster.nodes.values()),
        queues=tuple(
            Queue(each.id, each.name, each.quota, each.queue_policy, each.preemption) for each in cluster.workspaces
        ),
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


def _room(node: Node, held: Sequence[Pod]) -> NodeRoom:
    used = sum((pod.resources for pod in held), Resources())
    free = free_devices(node, held)
    shared = sorted((milli, index) for index, milli in free.items() if 0 < milli < MILLI)
    return NodeRoom(
        name=node.name,
        cpu_milli=max(0, node.cpu_milli - used.cpu_milli),
        memory_bytes=max(0, node.memory_bytes - used.memory_bytes),
        whole_gpus=sum(1 for milli in free.values() if milli == MILLI),
        shared_gpus=tuple(milli for milli, _ in shared),
        shared_on=tuple(index for _, index in shared),
        total=node.capacity,
        usable=node.ready and not node.fault and not node.cordoned,
        pool=node.pool,
    )


def _waiting(cluster: UnderWay, workload: Workload, replicas: int) -> Waiting:
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
        sizes=() if len({pod.resources for pod in held}) == 1 else tuple(pod.resources for pod in held),
        preemptible=workload.preemptible,
        leaving=workload.phase.leaving or workload.then is not None,
        devices=tuple(_shared_device(pod) for pod in held),
    )


def _shared_device(pod: Pod) -> int:
    return pod.devices[0] if pod.devices and pod.resources.gpu_milli < MILLI else UNKNOWN
