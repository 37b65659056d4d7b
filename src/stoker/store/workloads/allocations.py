"""Who takes up room in a cluster now: workloads with the pods and the GPUs they hold."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.placement import holders
from stoker.domain.workload import Pod
from stoker.store import pods
from stoker.store.base import Row, Transaction
from stoker.store.keys import by_keys

COLUMNS = "uid, slug, name, kind, namespace, phase"
ALL = f"SELECT {COLUMNS} FROM workload WHERE cluster_id = :cluster_id AND ended_at IS NULL"
SOME = f"SELECT {COLUMNS} FROM workload WHERE uid IN (:keys) AND cluster_id = :cluster_id"
SOME_GPUS = """
SELECT workload_uid, node, device, gpu_milli
FROM allocation
WHERE workload_uid IN (:keys)
  AND to_at IS NULL
"""
HELD_SINCE = """
SELECT allocation.node, allocation.device, workload.slug, allocation.from_at, workload.running_since
FROM allocation
JOIN workload ON workload.uid = allocation.workload_uid
WHERE allocation.cluster_id = :cluster_id
  AND allocation.to_at IS NULL
  AND workload.running_since IS NOT NULL
"""  # index allocation_open


class HeldGpu(Struct, frozen=True, gc=False):
    node: str
    device: int
    gpu_milli: int


class HeldSince(Struct, frozen=True, gc=False):
    """A GPU, or a part of one, that a workload has held and could have used since a moment."""

    node: str
    device: int
    slug: str
    since: int


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
    gpus = [
        (each.workload_uid, each.node, each.device, each.gpu_milli)
        for each in pods.open_allocations(transaction, cluster_id)
    ]
    return _joined(transaction.all(ALL, {"cluster_id": cluster_id}), held, gpus)


def of_workloads(transaction: Transaction, cluster_id: str, uids: Collection[str]) -> list[Holder]:
    """Those of these workloads of the cluster that hold anything."""
    held = pods.held_of(transaction, cluster_id, uids)
    gpus = by_keys(transaction, SOME_GPUS, uids)
    holding = held.keys() | {row[0] for row in gpus}
    return _joined(by_keys(transaction, SOME, holding, {"cluster_id": cluster_id}), held, gpus)


def held_since(transaction: Transaction, cluster_id: str) -> list[HeldSince]:
    """Every GPU of the cluster in the hands of each workload that runs on it."""
    rows = transaction.all(HELD_SINCE, {"cluster_id": cluster_id})
    return [HeldSince(node, device, slug, max(held, running)) for node, device, slug, held, running in rows]


def _joined(rows: Iterable[Row], held: Mapping[str, Sequence[Pod]], allocated: Iterable[Row]) -> list[Holder]:
    gpus: dict[str, list[HeldGpu]] = defaultdict(list)
    for workload_uid, node, device, gpu_milli in allocated:
        gpus[workload_uid].append(HeldGpu(node, device, gpu_milli))
    return [
        Holder(uid, slug, name, kind, namespace, phase, holders(held.get(uid, ())), gpus.get(uid, ()))
        for uid, slug, name, kind, namespace, phase in rows
        if uid in held or uid in gpus
    ]
