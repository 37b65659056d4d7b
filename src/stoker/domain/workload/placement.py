"""Pods and their nodes: which pods a workload has or lacks, and which capacity of a node they occupy."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.access.identity import Workspace
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.pod import Pod


class ClusterState(Struct, frozen=True):
    """The unfinished workloads of a cluster, their pods, its nodes and workspaces. `dependencies` has slug and phase
    of each dependency."""

    workloads: Mapping[str, Workload]
    pods: Mapping[str, Sequence[Pod]]
    nodes: Mapping[str, Node]
    workspaces: tuple[Workspace, ...]
    dependencies: Mapping[str, tuple[str, Phase]]


class ClusterDelta(Struct, frozen=True, kw_only=True):
    """Changes of a cluster. A changed uid that is not in `workloads` has finished. `nodes` and `workspaces` are None if
    unchanged, else complete."""

    changed_uids: frozenset[str]
    workloads: Mapping[str, Workload]
    pods: Mapping[str, Sequence[Pod]]
    dependencies: Mapping[str, tuple[str, Phase]] = {}
    nodes: Mapping[str, Node] | None = None
    workspaces: tuple[Workspace, ...] | None = None


def latest_pods(pods: Sequence[Pod], revision: int) -> tuple[Pod, ...]:
    """The newest pod of each rank at this revision."""
    newest = {pod.rank: pod for pod in pods if pod.revision == revision}
    return tuple(newest[rank] for rank in sorted(newest))


NO_NODES: Mapping[str, Node] = {}


def replaceable_pods(workload: Workload, pods: Sequence[Pod], nodes: Mapping[str, Node] = NO_NODES) -> tuple[Pod, ...]:
    """With rolling updates, the pods of older revisions that new pods can replace in place. A pod with a faulty GPU
    cannot be replaced in place."""
    if not workload.uses_rolling_update:
        return ()
    replaced_ranks = {pod.rank for pod in pods if pod.revision == workload.revision}
    older = {pod.rank: pod for pod in pods if pod.revision < workload.revision and not pod.phase.is_finished}
    return tuple(
        pod
        for rank, pod in sorted(older.items())
        if rank < workload.spec.replicas
        and rank not in replaced_ranks
        and workload.spec.resources.fits_in(pod.resources)
        and not faulty_devices(pod, nodes)
    )


def missing_ranks(workload: Workload, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> tuple[int, ...]:
    """The ranks that need a node: all ranks of a pending workload, else the ranks without a pod."""
    if not workload.managed:
        return ()
    if workload.phase.is_pending:
        return tuple(range(workload.spec.replicas))
    if (
        not workload.uses_rolling_update
        or workload.phase.is_finished
        or workload.phase.is_terminating
        or workload.next_phase is not None
    ):
        return ()
    placed_ranks = {pod.rank for pod in latest_pods(pods, workload.revision) if not pod.phase.is_finished}
    placed_ranks |= {pod.rank for pod in replaceable_pods(workload, pods, nodes)}
    return tuple(rank for rank in range(workload.spec.replicas) if rank not in placed_ranks)


def occupying_pods(pods: Iterable[Pod]) -> list[Pod]:
    """The pods that occupy capacity. A pod that replaces another in place does not count until that one is gone."""
    by_rank: dict[tuple[str, int], list[Pod]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.revision, pod.created_at)):
        occupying = by_rank[pod.workload_uid, pod.rank]
        if not any(_replaces_in_place(pod, other) for other in occupying):
            occupying.append(pod)
    return [pod for occupying in by_rank.values() for pod in occupying]


def _replaces_in_place(pod: Pod, other: Pod) -> bool:
    same_devices = pod.node == other.node and set(pod.devices) <= set(other.devices)
    return same_devices and pod.resources.fits_in(other.resources)


def occupying_pods_by_node(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """The pods that occupy capacity on each node."""
    by_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in occupying_pods(pods):
        by_node[pod.node].append(pod)
    return by_node


def free_milli_by_device(node: Node, pods: Iterable[Pod]) -> dict[int, int]:
    """The free milli-GPUs of each healthy device of a node."""
    free = {device.index: MILLI for device in node.devices if not device.fault}
    for pod in pods:
        share = min(pod.resources.gpu_milli, MILLI)
        for index in pod.devices:
            if index in free:
                free[index] -= share
    return free


def faulty_devices(pod: Pod, nodes: Mapping[str, Node]) -> tuple[int, ...]:
    """Indexes of the pod's faulty GPUs."""
    node = nodes.get(pod.node)
    if node is None or not node.faulty_gpus:
        return ()
    return tuple(device.index for device in node.devices if device.fault and device.index in pod.devices)


def current_pods(pods: Iterable[Pod], replicas: int) -> list[Pod]:
    """The current pod of each rank of one attempt, without finished pods of ranks that were scaled away."""
    return current_pods_by_rank(pod for pod in pods if pod.rank < replicas or not pod.phase.is_finished)


def current_pods_by_rank(pods: Iterable[Pod]) -> list[Pod]:
    """The current pod of each rank of one attempt."""
    by_rank: dict[int, Pod] = {}
    for pod in pods:
        by_rank[pod.rank] = max(by_rank.get(pod.rank, pod), pod, key=pod_precedence)
    return [by_rank[rank] for rank in sorted(by_rank)]


def pod_precedence(pod: Pod) -> tuple[int, bool, bool, bool, int, int]:
    """The pod with the greatest key is the current one of its rank: an old pod stays current until its replacement is
    ready."""
    is_alive = not pod.phase.is_finished
    is_running = pod.phase is PodPhase.RUNNING
    return pod.attempt, is_alive and pod.ready, is_running, is_alive, pod.revision, pod.created_at
