"""Derives the scheduler's snapshot from the state of a cluster, incrementally.

A cache updated by deltas always equals a cache built from the whole state.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from stoker.domain.access.identity import Workspace
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI, NO_RESOURCES, Resources
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.placement import (
    ClusterDelta,
    ClusterState,
    faulty_devices,
    free_milli_by_device,
    missing_ranks,
    occupying_pods,
)
from stoker.domain.workload.pod import Pod
from stoker.scheduler.capacity.node_free import UNKNOWN_DEVICE
from stoker.scheduler.model import AdmittedWorkload, NodeInfo, PendingWorkload, Queue, Snapshot, SnapshotDelta

DEPENDENCY_CACHE_SLACK = 1000
"""Number of phases of former dependencies that are kept."""


def build_snapshot(cluster: ClusterState, now: int) -> Snapshot:
    """A snapshot of the whole cluster."""
    return ClusterCache(cluster).snapshot(now)


class ClusterCache:
    """The cached scheduler input. `strays` are pods that still run although they should not: until they have ended,
    their capacity stays allocated and their workloads are not scheduled."""

    def __init__(self, cluster: ClusterState, strays: Iterable[Pod] = ()) -> None:
        self._strays_by_node: dict[str, list[Pod]] = defaultdict(list)
        for pod in strays:
            self._strays_by_node[pod.node].append(pod)
        self.uids_with_strays = {pod.workload_uid for pods in self._strays_by_node.values() for pod in pods}
        self.workloads: dict[str, Workload] = {}
        self.pods: dict[str, Sequence[Pod]] = {}
        self.nodes: Mapping[str, Node] = {}
        self.pending: dict[str, PendingWorkload] = {}
        self._admitted: dict[str, AdmittedWorkload] = {}
        self._node_infos: dict[str, NodeInfo] = {}
        self._queues: dict[int, Queue] = {}
        self._pods_by_node: dict[str, dict[str, list[Pod]]] = defaultdict(dict)
        self._dependency_phases: dict[str, tuple[str, Phase]] = {}
        self._dependents: dict[str, set[str]] = defaultdict(set)
        delta = ClusterDelta(
            changed_uids=frozenset(cluster.workloads) | frozenset(cluster.pods),
            workloads=cluster.workloads,
            pods=cluster.pods,
            dependencies=cluster.dependencies,
            nodes=cluster.nodes,
            workspaces=cluster.workspaces,
        )
        self.update(delta, 0)

    def snapshot(self, now: int) -> Snapshot:
        return Snapshot(
            now=now,
            nodes=tuple(self._node_infos.values()),
            queues=tuple(self._queues.values()),
            pending=tuple(self.pending.values()),
            admitted=tuple(self._admitted.values()),
        )

    def awaited_dependencies(self, slug_by_uid: Mapping[str, str]) -> set[str]:
        """The uids and slugs of changed workloads that pending workloads name as dependencies."""
        names = {name for pair in slug_by_uid.items() for name in pair}
        names |= {workload.slug for uid in slug_by_uid if (workload := self.workloads.get(uid))}
        return {name for name in names if self._dependents.get(name)}

    def pods_on_node(self, name: str) -> list[Pod]:
        """The pods with allocations on a node."""
        allocated = [pod for pods in self._pods_by_node.get(name, {}).values() for pod in pods]
        return [*allocated, *self._strays_by_node.get(name, ())]

    def update(self, delta: ClusterDelta, now: int) -> SnapshotDelta:
        """Apply a delta of the cluster; returns the resulting delta of the snapshot."""
        nodes = self._update_nodes(delta.nodes)
        queues, removed_queues = self._update_queues(delta.workspaces)
        dependents = {uid for ref in delta.dependencies for uid in self._dependents.get(ref, ())} - delta.changed_uids
        on_changed_nodes = {uid for name in nodes for uid in self._pods_by_node.get(name, ())} - delta.changed_uids
        self._dependency_phases |= delta.dependencies
        if len(self._dependency_phases) > 2 * len(self._dependents) + len(delta.dependencies) + DEPENDENCY_CACHE_SLACK:
            referenced = self._dependents.keys() | delta.dependencies.keys()
            self._dependency_phases = {
                ref: phase for ref, phase in self._dependency_phases.items() if ref in referenced
            }
        touched_nodes = {name for uid in delta.changed_uids for name in self._replace_workload(uid, delta)}
        admitted = [self._admitted[uid] for uid in delta.changed_uids if uid in self._admitted]
        admitted += [after for uid in on_changed_nodes if (after := self._refresh_admitted(uid)) is not None]
        pending = {uid: self._compute_pending(uid) for uid in (*delta.changed_uids, *dependents)}
        pending |= self._refresh_pending(on_changed_nodes - dependents)
        node_infos, removed_nodes = self._refresh_nodes(nodes | touched_nodes)
        return SnapshotDelta(
            now=now,
            pending=tuple(workload for workload in pending.values() if workload is not None),
            no_longer_pending=tuple(uid for uid, workload in pending.items() if workload is None),
            admitted=tuple(admitted),
            no_longer_admitted=tuple(uid for uid in delta.changed_uids if uid not in self._admitted),
            nodes=node_infos,
            removed_nodes=removed_nodes,
            queues=queues,
            removed_queues=removed_queues,
        )

    def _update_nodes(self, nodes: Mapping[str, Node] | None) -> set[str]:
        """Names of added, changed and removed nodes."""
        if nodes is None:
            return set()
        before, self.nodes = self.nodes, nodes
        changed = {name for name, node in nodes.items() if before.get(name) is not node}
        return changed | {name for name in before if name not in nodes}

    def _update_queues(self, workspaces: Iterable[Workspace] | None) -> tuple[tuple[Queue, ...], tuple[int, ...]]:
        if workspaces is None:
            return (), ()
        before = self._queues
        self._queues = {
            workspace.id: Queue(
                workspace.id,
                workspace.name,
                workspace.quota,
                workspace.queue_policy,
                workspace.preemption,
                workspace.guaranteed_seconds,
            )
            for workspace in workspaces
        }
        changed = tuple(queue for workspace_id, queue in self._queues.items() if before.get(workspace_id) != queue)
        return changed, tuple(workspace_id for workspace_id in before if workspace_id not in self._queues)

    def _replace_workload(self, uid: str, delta: ClusterDelta) -> set[str]:
        """Replace one workload and its pods; returns the nodes whose free capacity may change."""
        touched_nodes = {pod.node for pod in self.pods.pop(uid, ())}
        for name in touched_nodes:
            self._pods_by_node[name].pop(uid, None)
        self._remove_dependent(self.workloads.pop(uid, None))
        workload, pods = delta.workloads.get(uid), delta.pods.get(uid, ())
        if workload is not None:
            self.workloads[uid] = workload
            self._add_dependent(workload)
        if pods:
            self.pods[uid] = pods
        occupying = occupying_pods(pods)
        for pod in occupying:
            self._pods_by_node[pod.node].setdefault(uid, []).append(pod)
        self._admitted.pop(uid, None)
        if workload is not None and occupying:
            self._admitted[uid] = _admitted_workload(workload, occupying, self.nodes)
        return touched_nodes | {pod.node for pod in pods}

    def _refresh_admitted(self, uid: str) -> AdmittedWorkload | None:
        """Recompute the allocation of a workload on a changed node; None if it is unchanged."""
        workload, before = self.workloads.get(uid), self._admitted.get(uid)
        if workload is None or before is None:
            return None
        after = self._admitted[uid] = _admitted_workload(workload, occupying_pods(self.pods.get(uid, ())), self.nodes)
        return after if after != before else None

    def _refresh_pending(self, uids: Iterable[str]) -> dict[str, PendingWorkload | None]:
        """Recompute pending pods of workloads on changed nodes; returns only what differs."""
        before = {uid: self.pending.get(uid) for uid in uids}
        after = {uid: self._compute_pending(uid) for uid in before}
        return {uid: pending for uid, pending in after.items() if pending != before[uid]}

    def _remove_dependent(self, workload: Workload | None) -> None:
        if workload is not None and workload.phase.is_pending:
            for ref in workload.spec.dependencies:
                self._dependents[ref].discard(workload.uid)
                if not self._dependents[ref]:
                    del self._dependents[ref]

    def _add_dependent(self, workload: Workload) -> None:
        if workload.phase.is_pending:
            for ref in workload.spec.dependencies:
                self._dependents[ref].add(workload.uid)

    def _compute_pending(self, uid: str) -> PendingWorkload | None:
        workload = self.workloads.get(uid)
        ranks = missing_ranks(workload, self.pods.get(uid, ()), self.nodes) if workload else ()
        self.pending.pop(uid, None)
        if workload is None or not ranks or uid in self.uids_with_strays:
            return None
        refs = (
            workload.spec.dependencies if workload.phase.is_pending else ()
        )  # dependencies delay only the first start
        dependencies = [self._dependency_phases[ref] for ref in refs if ref in self._dependency_phases]
        self.pending[uid] = _pending_workload(workload, len(ranks), dependencies)
        return self.pending[uid]

    def _refresh_nodes(self, names: Iterable[str]) -> tuple[tuple[NodeInfo, ...], tuple[str, ...]]:
        """Recompute the free capacity of these nodes; returns the changed nodes and the names of removed ones."""
        changed, removed = [], []
        for name in names:
            node, before = self.nodes.get(name), self._node_infos.pop(name, None)
            if node is None:
                removed += [name] if before else []
                continue
            info = self._node_infos[name] = _node_info(node, self.pods_on_node(name))
            if info != before:
                changed.append(info)
        return tuple(changed), tuple(removed)


def _node_info(node: Node, pods: Sequence[Pod]) -> NodeInfo:
    used = sum((pod.resources for pod in pods), NO_RESOURCES)
    free = free_milli_by_device(node, pods)
    shared = sorted((milli, index) for index, milli in free.items() if 0 < milli < MILLI)
    return NodeInfo(
        name=node.name,
        free_cpu_milli=max(0, node.cpu_milli - used.cpu_milli),
        free_memory_bytes=max(0, node.memory_bytes - used.memory_bytes),
        free_whole_gpus=sum(1 for milli in free.values() if milli == MILLI),
        shared_free_milli=tuple(milli for milli, _ in shared),
        shared_devices=tuple(index for _, index in shared),
        capacity=node.capacity,
        is_schedulable=node.is_schedulable,
        pool=node.pool,
        model=node.devices[0].model if node.devices else "",
        faulty_gpus=node.faulty_gpus,
    )


def _pending_workload(workload: Workload, replicas: int, dependencies: Sequence[tuple[str, Phase]]) -> PendingWorkload:
    failed = next((slug for slug, phase in dependencies if phase.is_finished and phase is not Phase.COMPLETED), "")
    start_times = [at for at in (workload.not_before, workload.spec.start_after) if at is not None]
    return PendingWorkload(
        uid=workload.uid,
        workspace_id=workload.workspace_id,
        priority=workload.priority,
        submitted_at=workload.submitted_at,
        replicas=replicas,
        pod_request=workload.spec.resources,
        preemptible=workload.preemptible,
        requeued=workload.requeued or not workload.phase.is_pending,
        reserved_nodes=workload.reserved_nodes,
        specified_nodes=workload.spec.specified_nodes,
        node_pools=workload.spec.node_pools,
        tolerate_all=workload.spec.tolerate_all,
        not_before=max(start_times) if start_times else None,
        unfinished_dependencies=tuple(sorted({slug for slug, phase in dependencies if not phase.is_finished})),
        failed_dependency=failed,
    )


def _admitted_workload(workload: Workload, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> AdmittedWorkload:
    faulty = [len(faulty_devices(pod, nodes)) for pod in pods]
    return AdmittedWorkload(
        uid=workload.uid,
        workspace_id=workload.workspace_id,
        priority=workload.priority,
        admitted_at=min(pod.created_at for pod in pods),
        nodes=tuple(pod.node for pod in pods),
        pod_request=pods[0].resources,
        pod_requests=() if len({pod.resources for pod in pods}) == 1 else tuple(pod.resources for pod in pods),
        preemptible=workload.preemptible,
        is_terminating=workload.phase.is_terminating or workload.next_phase is not None,
        devices=tuple(_shared_device(pod) for pod in pods),
        guaranteed_until=workload.guaranteed_until if workload.preemptible else None,
        released_by_pod=tuple(map(_released_by, pods, faulty)) if any(faulty) else (),
    )


def _released_by(pod: Pod, faulty: int) -> Resources:
    """Capacity that is free once a pod with this many faulty GPUs has terminated."""
    return structs.replace(pod.resources, gpu_milli=max(0, pod.resources.gpu_milli - faulty * MILLI))


def _shared_device(pod: Pod) -> int:
    return pod.devices[0] if pod.devices and pod.resources.gpu_milli < MILLI else UNKNOWN_DEVICE
