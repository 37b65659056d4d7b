"""Everything of a cluster that has not ended, read in one view."""

from collections import defaultdict

from stoker.domain.placement import UnderWay
from stoker.domain.workload import Pod
from stoker.store import nodes, pods, workloads, workspaces
from stoker.store.base import Transaction


def read_cluster(transaction: Transaction, cluster_id: str) -> UnderWay:
    active = {workload.uid: workload for workload in workloads.active(transaction, cluster_id)}
    held: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods.held(transaction, cluster_id):
        held[pod.workload_uid].append(pod)
    refs = {ref for workload in active.values() if workload.phase.queued for ref in workload.spec.dependencies}
    return UnderWay(
        active,
        held,
        {node.name: node for node in nodes.of_cluster(transaction, cluster_id)},
        tuple(workspaces.of_cluster(transaction, cluster_id)),
        {ref: workloads.phase_of(transaction, ref) for ref in refs},
    )
