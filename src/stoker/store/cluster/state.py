"""Everything of a cluster that has not ended: all of it in one view, or only what has moved since the last one."""

from collections.abc import Collection, Iterable

from msgspec import Struct

from stoker.domain.identity import Workspace
from stoker.domain.placement import Moved, UnderWay
from stoker.domain.workload import Phase, Pod, Workload
from stoker.store import nodes, pods, workloads, workspaces
from stoker.store.base import Row, Transaction
from stoker.store.nodes import NOTHING_KNOWN, Known


class Stand(Struct, frozen=True):
    """How nodes and workspaces stood when they were last read."""

    nodes: Known = NOTHING_KNOWN
    workspaces: Row = ()


NEVER_READ = Stand()


def read_cluster(transaction: Transaction, cluster_id: str) -> UnderWay:
    return read_all(transaction, cluster_id)[0]


def read_all(transaction: Transaction, cluster_id: str, stand: Stand = NEVER_READ) -> tuple[UnderWay, Stand]:
    """The whole of it, and how it stands."""
    active = {workload.uid: workload for workload in workloads.active(transaction, cluster_id)}
    held: dict[str, list[Pod]] = {}
    for pod in pods.held(transaction, cluster_id):
        held.setdefault(pod.workload_uid, []).append(pod)
    known = nodes.known(transaction, cluster_id, stand.nodes)
    cluster = UnderWay(
        active,
        held,
        known.nodes,
        tuple(workspaces.of_cluster(transaction, cluster_id)),
        _dependencies(transaction, active.values()),
    )
    return cluster, Stand(known, workspaces.stand(transaction, cluster_id))


def read_moved(
    transaction: Transaction, cluster_id: str, uids: Collection[str], awaited: Collection[str], stand: Stand
) -> tuple[Moved, Stand]:
    """These workloads as they are now, what is `awaited` by others, and nodes and workspaces if they changed."""
    live = {each.uid: each for each in workloads.live(transaction, uids) if each.cluster_id == cluster_id}
    states = _dependencies(transaction, live.values())
    states |= {ref: workloads.phase_of(transaction, ref) for ref in awaited if ref not in states}
    known = nodes.known(transaction, cluster_id, stand.nodes)
    spaces = workspaces.stand(transaction, cluster_id)
    found: tuple[Workspace, ...] | None = None
    if spaces != stand.workspaces:
        found = tuple(workspaces.of_cluster(transaction, cluster_id))
    moved = Moved(
        uids=frozenset(uids),
        workloads=live,
        pods=pods.held_of(transaction, cluster_id, uids),
        dependencies=states,
        nodes=known.nodes if known is not stand.nodes else None,
        workspaces=found,
    )
    return moved, Stand(known, spaces)


def _dependencies(transaction: Transaction, found: Iterable[Workload]) -> dict[str, tuple[str, Phase]]:
    refs = {ref for workload in found if workload.phase.queued for ref in workload.spec.dependencies}
    return {ref: workloads.phase_of(transaction, ref) for ref in refs}
