"""From a place to pods: what is written before an engine is asked for anything.

The attempt, its pods and the GPUs they hold are durable first, so a crash at any point leaves either nothing
or all that is needed to go on.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from stoker.domain.lifecycle import Placed, transition
from stoker.domain.names import Randomness, new_uuid
from stoker.domain.node import Node
from stoker.domain.placement import free_devices, holders
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Pod, Workload
from stoker.store import nodes, pods, workloads
from stoker.store.base import Transaction
from stoker.store.pods import Allocation


class Rooms(Struct, frozen=True):
    """The nodes of a cluster and the pods that take up room on them; grows while a plan is written down."""

    cluster_id: str
    nodes: Mapping[str, Node]
    held: list[Pod]


def read_rooms(transaction: Transaction, cluster_id: str) -> Rooms:
    known = {node.name: node for node in nodes.of_cluster(transaction, cluster_id)}
    return Rooms(cluster_id, known, holders(pods.held(transaction, cluster_id)))


def pod_name(workload: Workload, rank: int) -> str:
    """A PyTorchJob has a master and workers, but an only pod is worker 0; others count from 0."""
    if workload.kind is not Kind.PYTORCH_JOB:
        return f"{workload.slug}-{rank}"
    if workload.spec.replicas == 1:
        return f"{workload.slug}-worker-0"
    return f"{workload.slug}-master-0" if rank == 0 else f"{workload.slug}-worker-{rank - 1}"


def dispatch(
    transaction: Transaction,
    rooms: Rooms,
    uid: str,
    version: int,
    ranks: Sequence[int],
    places: Sequence[str],
    at: int,
    randomness: Randomness,
) -> bool:
    """Give the ranks of a workload their pods on these nodes; False when it is no longer as it was planned."""
    workload = workloads.find(transaction, uid)
    if workload is None or workload.version != version:
        return False
    change = transition(workload, Placed(at))
    after = change.workload if change else workload
    before = len(rooms.held)
    for rank, name in zip(ranks, places, strict=True):
        devices = choose_devices(rooms.nodes.get(name), rooms.held, after.spec.resources)
        if devices is None:
            del rooms.held[before:]
            return False
        pod = Pod(
            uid=new_uuid(randomness),
            workload_uid=uid,
            name=pod_name(after, rank),
            attempt=after.attempt,
            revision=after.revision,
            rank=rank,
            node=name,
            resources=after.spec.resources,
            devices=devices,
            created_at=at,
        )
        rooms.held.append(pod)
    if change is not None:
        workloads.apply(transaction, workload, change)
    for pod in rooms.held[before:]:
        pods.add(transaction, rooms.cluster_id, pod)
        pods.allocate(transaction, rooms.cluster_id, allocations(pod, rooms.nodes[pod.node], at))
    return True


def choose_devices(node: Node | None, held: Sequence[Pod], each: Resources) -> tuple[int, ...] | None:
    """Free devices of the node for one pod; None when there are too few."""
    if node is None:
        return None
    if not each.gpu_milli:
        return ()
    free = free_devices(node, [pod for pod in held if pod.node == node.name])
    if each.gpu_milli < MILLI:
        fitting = sorted((milli, index) for index, milli in free.items() if milli >= each.gpu_milli)
        return (fitting[0][1],) if fitting else None
    whole = sorted(index for index, milli in free.items() if milli == MILLI)
    wanted = each.gpu_milli // MILLI
    return tuple(whole[:wanted]) if len(whole) >= wanted else None


def succeed(
    transaction: Transaction, workload: Workload, followed: Sequence[Pod], at: int, randomness: Randomness
) -> None:
    """Pods of the present revision in the places of older ones; each holds its GPUs once the older one has gone."""
    for old in followed:
        pods.add(
            transaction,
            workload.cluster_id,
            Pod(
                uid=new_uuid(randomness),
                workload_uid=workload.uid,
                name=pod_name(workload, old.rank),
                attempt=workload.attempt,
                revision=workload.revision,
                rank=old.rank,
                node=old.node,
                resources=workload.spec.resources,
                devices=old.devices[: -(-workload.spec.resources.gpu_milli // MILLI)],
                created_at=at,
            ),
        )


def allocations(pod: Pod, node: Node | None, at: int) -> list[Allocation]:
    """What a pod holds from now on."""
    models = {device.index: device.model for device in node.devices} if node else {}
    return [
        Allocation(
            pod_uid=pod.uid,
            device=index,
            workload_uid=pod.workload_uid,
            node=pod.node,
            model=models.get(index, ""),
            gpu_milli=min(pod.resources.gpu_milli, MILLI),
            from_at=at,
        )
        for index in pod.devices
    ]
