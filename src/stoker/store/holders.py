"""Who takes up room in a cluster now: workloads with the pods and the GPUs they hold."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.placement import holders
from stoker.domain.workload import Pod
from stoker.store import pods
from stoker.store.base import Row, Transaction

ALL = """
SELECT uid, slug, name, kind, namespace, phase
FROM workload
WHERE cluster_id = :cluster_id
  AND ended_at IS NULL
"""
ONE = """
SELECT uid, slug, name, kind, namespace, phase
FROM workload
WHERE uid = :uid
  AND cluster_id = :cluster_id
"""


class HeldGpu(Struct, frozen=True):
    node: str
    device: int
    gpu_milli: int


class Holder(Struct, frozen=True):
    """A workload that takes up room; `pods` are those that do, on whatever node."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    phase: str
    pods: Sequence[Pod]
    gpus: Sequence[HeldGpu]


def of_cluster(transaction: Transaction, cluster_id: str) -> list[Holder]:
    """Every workload of the cluster that holds anything."""
    held: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods.held(transaction, cluster_id):
        held[pod.workload_uid].append(pod)
    gpus: dict[str, list[HeldGpu]] = defaultdict(list)
    for each in pods.open_allocations(transaction, cluster_id):
        gpus[each.workload_uid].append(HeldGpu(each.node, each.device, each.gpu_milli))
    rows = transaction.all(ALL, {"cluster_id": cluster_id})
    return [_holder(row, held[row[0]], gpus[row[0]]) for row in rows if row[0] in held or row[0] in gpus]


def of_workloads(transaction: Transaction, cluster_id: str, uids: Iterable[str]) -> list[Holder]:
    """Those of these workloads of the cluster that hold anything."""
    found = []
    for uid in uids:
        held = pods.held_by(transaction, cluster_id, uid)
        allocated = pods.allocations_of(transaction, uid)
        row = transaction.one(ONE, {"uid": uid, "cluster_id": cluster_id}) if held or allocated else None
        if row:
            gpus = [HeldGpu(each.node, each.device, each.gpu_milli) for each in allocated]
            found.append(_holder(row, held, gpus))
    return found


def _holder(row: Row, held: Sequence[Pod], gpus: Sequence[HeldGpu]) -> Holder:
    uid, slug, name, kind, namespace, phase = row
    return Holder(uid, slug, name, kind, namespace, phase, holders(held), gpus)
