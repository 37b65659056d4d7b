"""From a place to pods: what is written before an engine is asked for anything.

The attempt, its pods and the GPUs they hold are durable first, so a crash at any point leaves either nothing
or all that is needed to go on.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from stoker.controller.settle import State
from stoker.domain.events import Placed
from stoker.domain.lifecycle import Change, transition
from stoker.domain.names import Randomness, ordered_uuid
from stoker.domain.node import Node
from stoker.domain.placement import free_devices
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Pod, Workload
from stoker.scheduler.view import View
from stoker.store import pods, workloads
from stoker.store.base import Transaction
from stoker.store.pods import Allocation


class Room:
    """Free GPUs of the nodes while a plan is written down: what is given out is no longer there for the next."""

    def __init__(self, view: View) -> None:
        self.nodes = view.nodes
        self._view = view
        self._free: dict[str, dict[int, int]] = {}

    def take(self, places: Sequence[str], each: Resources) -> list[tuple[int, ...]] | None:
        """Devices for one pod on each of these nodes; None, and nothing taken, when there are too few."""
        taken: list[tuple[int, ...]] = []
        for name in places:
            devices = self._take_on(name, each)
            if devices is None:
                for place, given in zip(places, taken, strict=False):
                    self._count(place, given, each, -1)
                return None
            taken.append(devices)
        return taken

    def _take_on(self, name: str, each: Resources) -> tuple[int, ...] | None:
        node = self.nodes.get(name)
        if node is None:
            return None
        if name not in self._free:
            self._free[name] = free_devices(node, self._view.on_node(name))
        devices = choose_devices(self._free[name], each)
        if devices is not None:
            self._count(name, devices, each, 1)
        return devices

    def _count(self, name: str, devices: Sequence[int], each: Resources, times: int) -> None:
        for index in devices:
            self._free[name][index] -= times * min(each.gpu_milli, MILLI)


class Start(Struct, frozen=True):
    """A workload as it was planned, the ranks that are to have pods, a node for each, and what it was promised."""

    workload: Workload
    ranks: Sequence[int]
    nodes: Sequence[str]
    guaranteed_until: int | None = None


def pod_name(workload: Workload, rank: int) -> str:
    """A PyTorchJob has a master and workers, but an only pod is worker 0; others count from 0."""
    if workload.kind is not Kind.PYTORCH_JOB:
        return f"{workload.slug}-{rank}"
    if workload.spec.replicas == 1:
        return f"{workload.slug}-worker-0"
    return f"{workload.slug}-master-0" if rank == 0 else f"{workload.slug}-worker-{rank - 1}"


def dispatch(
    transaction: Transaction, cluster_id: str, room: Room, starts: Sequence[Start], at: int, randomness: Randomness
) -> dict[str, State]:
    """Give planned workloads their pods; those that are no longer as they were planned get none. Gives each that
    begins an attempt as it is now."""
    present = workloads.by_uid(transaction, [start.workload.uid for start in starts])
    changes: list[tuple[Workload, Change]] = []
    made: list[Pod] = []
    begun: dict[str, State] = {}
    for start in starts:
        workload = present.get(start.workload.uid)
        if workload is None or workload.version != start.workload.version:
            continue
        devices = room.take(start.nodes, workload.spec.resources)
        if devices is None:
            continue
        pools = dict.fromkeys(room.nodes[name].pool for name in start.nodes)
        change = transition(workload, Placed(at, tuple(pools), start.guaranteed_until))
        after = change.workload if change else workload
        changes += [(workload, change)] if change else []
        given = _pods(after, start, devices, at, randomness)
        made += given
        begun[after.uid] = State(after, given if change else ())
    workloads.apply_all(transaction, changes)
    pods.add(transaction, cluster_id, made)
    held = [each for pod in made if pod.devices for each in allocations(pod, room.nodes[pod.node], at)]
    pods.allocate(transaction, cluster_id, _after_others(transaction, cluster_id, held, at))
    return begun


def _after_others(
    transaction: Transaction, cluster_id: str, held: Sequence[Allocation], at: int
) -> Sequence[Allocation]:
    """A GPU is held from no earlier than another let go of it, even if the clock was set back since: no moment of it is
    paid for twice."""
    later = pods.let_go_after(transaction, cluster_id, at) if held else {}
    return [structs.replace(each, from_at=max(at, later.get((each.node, each.device), at))) for each in held]


def _pods(
    workload: Workload, start: Start, devices: Sequence[tuple[int, ...]], at: int, randomness: Randomness
) -> list[Pod]:
    return [
        Pod(
            uid=ordered_uuid(at, randomness),
            workload_uid=workload.uid,
            name=pod_name(workload, rank),
            attempt=workload.attempt,
            revision=workload.revision,
            rank=rank,
            node=node,
            resources=workload.spec.resources,
            devices=given,
            created_at=at,
        )
        for rank, node, given in zip(start.ranks, start.nodes, devices, strict=True)
    ]


def choose_devices(free: Mapping[int, int], each: Resources) -> tuple[int, ...] | None:
    """Devices for one pod, of those with so many milli-GPUs free; None when there are too few."""
    if not each.gpu_milli:
        return ()
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
    made = [
        Pod(
            uid=ordered_uuid(at, randomness),
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
        for old in followed
    ]
    pods.add(transaction, workload.cluster_id, made)


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
