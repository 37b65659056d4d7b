"""The cluster state that the scheduler and the reconciler read: as a whole, or as a delta since the last read."""

from collections.abc import Collection, Iterable

from msgspec import Struct

from stoker.domain.access.identity import Workspace
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.placement import ClusterDelta, ClusterState
from stoker.domain.workload.pod import Pod
from stoker.store.cluster import nodes
from stoker.store.cluster.nodes import EMPTY_NODE_CACHE, NodeCache
from stoker.store.db.base import Row, Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import events, pods, rows


class StateVersion(Struct, frozen=True):
    """The versions of nodes and workspaces at the last read."""

    node_cache: NodeCache = EMPTY_NODE_CACHE
    workspaces_version: Row = ()


UNREAD = StateVersion()


def read_state(transaction: Transaction, cluster_id: str) -> ClusterState:
    return read_state_with_version(transaction, cluster_id)[0]


def state_version(transaction: Transaction, cluster_id: str) -> Row:
    """A value, cheap to read, that changes whenever the scheduler's plan of the cluster may change."""
    return (
        *events.log_version(transaction),
        nodes.node_version(transaction, cluster_id),
        *workspaces.workspaces_version(transaction, cluster_id),
        *pods.unreleased_version(transaction, cluster_id),
    )


def read_state_with_version(
    transaction: Transaction, cluster_id: str, version: StateVersion = UNREAD
) -> tuple[ClusterState, StateVersion]:
    """The whole state and its version; nodes unchanged since `version` are not decoded again."""
    active = {workload.uid: workload for workload in rows.unfinished_of_cluster(transaction, cluster_id)}
    pods_by_workload: dict[str, list[Pod]] = {}
    for pod in pods.unreleased(transaction, cluster_id):
        pods_by_workload.setdefault(pod.workload_uid, []).append(pod)
    node_cache = nodes.refresh_cache(transaction, cluster_id, version.node_cache)
    cluster = ClusterState(
        active,
        pods_by_workload,
        node_cache.nodes,
        tuple(workspaces.of_cluster(transaction, cluster_id)),
        _dependency_phases(transaction, active.values()),
    )
    return cluster, StateVersion(node_cache, workspaces.workspaces_version(transaction, cluster_id))


def read_delta(
    transaction: Transaction, cluster_id: str, uids: Collection[str], awaited: Collection[str], version: StateVersion
) -> tuple[ClusterDelta, StateVersion]:
    """The current state of workloads and of `awaited` dependencies, and nodes and workspaces if they changed."""
    active = {
        workload.uid: workload
        for workload in rows.unfinished_by_uid(transaction, uids)
        if workload.cluster_id == cluster_id
    }
    dependencies = _dependency_phases(transaction, active.values())
    dependencies |= {ref: rows.phase_of(transaction, ref) for ref in awaited if ref not in dependencies}
    node_cache = nodes.refresh_cache(transaction, cluster_id, version.node_cache)
    workspaces_version = workspaces.workspaces_version(transaction, cluster_id)
    changed_workspaces: tuple[Workspace, ...] | None = None
    if workspaces_version != version.workspaces_version:
        changed_workspaces = tuple(workspaces.of_cluster(transaction, cluster_id))
    delta = ClusterDelta(
        changed_uids=frozenset(uids),
        workloads=active,
        pods=pods.unreleased_of_workloads(transaction, cluster_id, uids),
        dependencies=dependencies,
        nodes=node_cache.nodes if node_cache is not version.node_cache else None,
        workspaces=changed_workspaces,
    )
    return delta, StateVersion(node_cache, workspaces_version)


def _dependency_phases(transaction: Transaction, workloads: Iterable[Workload]) -> dict[str, tuple[str, Phase]]:
    refs = {ref for workload in workloads if workload.phase.is_pending for ref in workload.spec.dependencies}
    return {ref: rows.phase_of(transaction, ref) for ref in refs}
