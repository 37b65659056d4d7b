"""The input of closing an hour: GPU allocations, and the owners, phases and requests of their workloads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.usage.ledger import CostOwner
from stoker.domain.workload.phase import Phase
from stoker.store.db.base import Transaction
from stoker.store.sql.select_in import select_in
from stoker.store.usage import value_history

ALLOCATIONS_IN_RANGE = """
SELECT allocation.node, allocation.device, allocation.workload_uid, allocation.pod_uid, allocation.gpu_milli,
       allocation.from_at, allocation.to_at, COALESCE(pod.started_at, :never), allocation.gpu_uuid
FROM allocation
LEFT JOIN pod ON pod.uid = allocation.pod_uid
WHERE allocation.cluster_id = :cluster_id
  AND allocation.to_at > :from_at
  AND allocation.from_at < :to_at
UNION ALL
SELECT allocation.node, allocation.device, allocation.workload_uid, allocation.pod_uid, allocation.gpu_milli,
       allocation.from_at, :never, COALESCE(pod.started_at, :never), allocation.gpu_uuid
FROM allocation
LEFT JOIN pod ON pod.uid = allocation.pod_uid
WHERE allocation.cluster_id = :cluster_id
  AND allocation.to_at IS NULL
  AND allocation.from_at < :to_at
"""
COST_OWNERS = """
SELECT uid, CASE WHEN managed = 1 THEN slug ELSE name END, name,
       kind, namespace, workspace_id, user_id, phase, gpu_milli * replicas, phase_at
FROM workload
WHERE uid IN (:keys)
"""
LABELS = """
SELECT workload_uid, kind, key, value
FROM workload_label
WHERE workload_uid IN (:keys)
ORDER BY workload_uid, kind, key
"""
PHASES = """
SELECT workload_uid, phase, from_at, to_at
FROM phase_interval
WHERE workload_uid IN (:keys)
ORDER BY workload_uid, version
"""
FAR_FUTURE = 1 << 62


class AllocationRecord(Struct, frozen=True, gc=False):
    """A GPU, or a fraction of one, held by a pod. Open ends and unknown start times are FAR_FUTURE."""

    node: str
    device: int | None
    workload_uid: str
    pod_uid: str
    gpu_milli: int
    from_at: int
    to_at: int
    started_at: int
    uuid: str = ""

    @property
    def gpu(self) -> GpuId:
        """With index -1 if the device is unknown."""
        return GpuId(self.node, -1 if self.device is None else self.device, self.uuid)


class WorkloadFacts(Struct, frozen=True):
    """Owners of workloads, their phases with start times, and their earlier GPU requests with end times."""

    cost_owners: Mapping[str, CostOwner]
    phases: Mapping[str, list[tuple[int, str]]]
    requests: Mapping[str, list[tuple[int, int]]]

    def cost_owners_of_hour(self, hour_at: int, uids: Iterable[str]) -> dict[str, CostOwner]:
        """The owners with their phase at the end of an hour and their highest GPU request in it."""
        owners, end = {}, hour_at + HOUR_MS
        for uid in uids:
            if (owner := self.cost_owners.get(uid)) is None:
                continue
            earlier = [phase for from_at, phase in self.phases.get(uid, ()) if from_at < end]
            requested = value_history.max_request(self.requests.get(uid, ()), owner.requested_milli, hour_at, end)
            phase = earlier[-1] if earlier else owner.phase
            owners[uid] = structs.replace(owner, phase=phase, requested_milli=requested)
        return owners


def allocations_in_range(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[AllocationRecord]:
    """The allocations that overlap [from_at, to_at)."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at, "never": FAR_FUTURE}
    return [AllocationRecord(*row) for row in transaction.fetch_all(ALLOCATIONS_IN_RANGE, params)]


def read_workload_facts(transaction: Transaction, uids: Iterable[str]) -> WorkloadFacts:
    labels: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(lambda: {"label": {}, "annotation": {}})
    phases: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    owners = {}
    sorted_uids = sorted(uids)
    for uid, kind, key, value in select_in(transaction, LABELS, sorted_uids):
        labels[uid][kind][key] = value
    for uid, phase, from_at, to_at in select_in(transaction, PHASES, sorted_uids):
        phases[uid].append((from_at, phase))
        if to_at is not None:  # a finished phase has no interval; a workload that went on after one was Stopped
            phases[uid].append((to_at, Phase.STOPPED))
    for *row, phase_at in select_in(transaction, COST_OWNERS, sorted_uids):
        uid, phase = row[0], row[7]
        phases[uid].append((phase_at, phase))
        owners[uid] = CostOwner(*row, labels=labels[uid]["label"], annotations=labels[uid]["annotation"])
    return WorkloadFacts(owners, phases, value_history.past_requests(transaction, sorted_uids))
