"""Which pods a workload has, which it lacks, and what is left of a node: pure questions about who is where."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.identity import Workspace
from stoker.domain.node import Node
from stoker.domain.resources import MILLI
from stoker.domain.workload import Phase, Pod, Workload


class UnderWay(Struct, frozen=True):
    """Everything of a cluster that has not ended. `dependencies` are slug and phase of what is waited for."""

    workloads: Mapping[str, Workload]
    pods: Mapping[str, Sequence[Pod]]
    nodes: Mapping[str, Node]
    workspaces: tuple[Workspace, ...]
    dependencies: Mapping[str, tuple[str, Phase]]


class Moved(Struct, frozen=True, kw_only=True):
    """What is different in a cluster: workloads that were touched, as they are now. One that is not among
    `workloads` has ended. Nodes and workspaces are None when none of them has changed, else all of them."""

    uids: frozenset[str]
    workloads: Mapping[str, Workload]
    pods: Mapping[str, Sequence[Pod]]
    dependencies: Mapping[str, tuple[str, Phase]] = {}
    nodes: Mapping[str, Node] | None = None
    workspaces: tuple[Workspace, ...] | None = None


def latest(pods: Sequence[Pod], revision: int) -> tuple[Pod, ...]:
    """The newest pod of each rank at this revision."""
    newest = {pod.rank: pod for pod in pods if pod.revision == revision}
    return tuple(newest[rank] for rank in sorted(newest))


def predecessors(workload: Workload, held: Sequence[Pod]) -> tuple[Pod, ...]:
    """Of something that rolls, the older pods whose places the present revision can take and has not taken yet."""
    if not workload.kind.rolls:
        return ()
    taken = {pod.rank for pod in held if pod.revision == workload.revision}
    older = {pod.rank: pod for pod in held if pod.revision < workload.revision and not pod.phase.ended}
    return tuple(
        pod
        for rank, pod in sorted(older.items())
        if rank < workload.spec.replicas and rank not in taken and workload.spec.resources.fits(pod.resources)
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
    """The pods that take up room: what takes the place of another does so only when that one has gone."""
    found: dict[tuple[str, int], list[Pod]] = defaultdict(list)
    for pod in sorted(held, key=lambda pod: (pod.revision, pod.created_at)):
        before = found[pod.workload_uid, pod.rank]
        if not any(_in_place_of(pod, other) for other in before):
            before.append(pod)
    return [pod for each in found.values() for pod in each]


def _in_place_of(pod: Pod, other: Pod) -> bool:
    same = pod.node == other.node and set(pod.devices) <= set(other.devices)
    return same and pod.resources.fits(other.resources)


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


def carriers(pods: Iterable[Pod], replicas: int) -> list[Pod]:
    """By rank, the pods of one attempt that carry a workload: of one that was replaced the newest, and none that went
    because fewer replicas were asked for. They come oldest first."""
    newest = {pod.rank: pod for pod in pods if pod.rank < replicas or not pod.phase.ended}
    return [newest[rank] for rank in sorted(newest)]
