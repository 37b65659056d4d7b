"""How many workloads there are and how many wait, without looking at those that have ended."""

from msgspec import Struct

from stoker.domain.resources import Resources
from stoker.store.base import Transaction

PHASES = """
SELECT cluster_id, phase, SUM(workloads)
FROM workload_count
WHERE hidden = 0
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

HELD = """
SELECT workload.workspace_id, COUNT(*), SUM(pod.gpu_milli), SUM(pod.cpu_milli), SUM(pod.memory_bytes)
FROM pod
JOIN workload ON workload.uid = pod.workload_uid
WHERE pod.released_at IS NULL
GROUP BY workload.workspace_id
"""  # index pod_held


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


class HeldTotal(Struct, frozen=True):
    """The pods of a workspace that take up room, and what they take together."""

    pods: int
    resources: Resources


def held(transaction: Transaction) -> dict[int, HeldTotal]:
    """By workspace, what is given out to it."""
    rows = transaction.all(HELD)
    return {row[0]: HeldTotal(row[1], Resources(int(row[2]), int(row[3]), int(row[4]))) for row in rows}


def phases(transaction: Transaction) -> tuple[PhaseTotal, ...]:
    return tuple(PhaseTotal(cluster, phase, int(count)) for cluster, phase, count in transaction.all(PHASES))


def queues(transaction: Transaction) -> tuple[QueueTotal, ...]:
    rows = transaction.all(QUEUES)
    return tuple(QueueTotal(cluster, workspace, count, int(milli)) for cluster, workspace, count, milli in rows)
