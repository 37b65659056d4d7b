"""How many workloads there are and how many wait, without looking at those that have ended."""

from msgspec import Struct

from stoker.store.base import Transaction

PHASES = """
SELECT cluster_id, phase, SUM(workloads)
FROM workload_count
GROUP BY cluster_id, phase
HAVING SUM(workloads) > 0
ORDER BY cluster_id, phase
"""
QUEUES = """
SELECT workload.cluster_id, COALESCE(workspace.name, ''), COUNT(*), SUM(workload.gpu_milli * workload.replicas)
FROM workload
LEFT JOIN workspace ON workspace.id = workload.workspace_id
WHERE workload.phase IN ('Pending', 'Resuming')
GROUP BY workload.cluster_id, workspace.name
ORDER BY workload.cluster_id, workspace.name
"""  # index workload_queue


class PhaseTotal(Struct, frozen=True):
    cluster_id: str
    phase: str
    workloads: int


class QueueTotal(Struct, frozen=True):
    """What waits in a workspace, and the GPUs it asks for together."""

    cluster_id: str
    workspace: str
    workloads: int
    gpu_milli: int


def phases(transaction: Transaction) -> tuple[PhaseTotal, ...]:
    return tuple(PhaseTotal(cluster, phase, int(count)) for cluster, phase, count in transaction.all(PHASES))


def queues(transaction: Transaction) -> tuple[QueueTotal, ...]:
    rows = transaction.all(QUEUES)
    return tuple(QueueTotal(cluster, workspace, count, int(milli)) for cluster, workspace, count, milli in rows)
