"""What an hour is closed from: who held which GPU, when their pods began to work, and whose they were."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from stoker.domain.usage import Payer
from stoker.domain.workload import Phase
from stoker.store.base import Transaction
from stoker.store.keys import by_keys

HELD = """
SELECT allocation.node, allocation.device, allocation.workload_uid, allocation.pod_uid, allocation.gpu_milli,
       allocation.from_at, allocation.to_at, COALESCE(pod.started_at, :never)
FROM allocation
LEFT JOIN pod ON pod.uid = allocation.pod_uid
WHERE allocation.cluster_id = :cluster_id
  AND allocation.to_at > :from_at
  AND allocation.from_at < :to_at
UNION ALL
SELECT allocation.node, allocation.device, allocation.workload_uid, allocation.pod_uid, allocation.gpu_milli,
       allocation.from_at, :never, COALESCE(pod.started_at, :never)
FROM allocation
LEFT JOIN pod ON pod.uid = allocation.pod_uid
WHERE allocation.cluster_id = :cluster_id
  AND allocation.to_at IS NULL
  AND allocation.from_at < :to_at
"""
PAYERS = """
SELECT uid, slug, name, kind, namespace, workspace_id, user_id, phase, gpu_milli * replicas, phase_at
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
NEVER = 1 << 62


class Held(Struct, frozen=True, gc=False):
    """A GPU, or a part of one. `started_at` is when the pod began to work; NEVER if it has not."""

    node: str
    device: int
    workload_uid: str
    pod_uid: str
    gpu_milli: int
    from_at: int
    to_at: int
    started_at: int


class Workloads(Struct, frozen=True):
    """Whose workloads they are, and each one's phases with the moment from which each held."""

    payers: Mapping[str, Payer]
    phases: Mapping[str, list[tuple[int, str]]]

    def at(self, moment: int, uids: Iterable[str]) -> dict[str, Payer]:
        """These of them, as they stood at this moment."""
        found = {}
        for uid in uids:
            if (payer := self.payers.get(uid)) is None:
                continue
            earlier = [phase for from_at, phase in self.phases.get(uid, ()) if from_at < moment]
            found[uid] = structs.replace(payer, phase=earlier[-1]) if earlier else payer
        return found


def held(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[Held]:
    """Every allocation that reaches into this stretch of time."""
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at, "never": NEVER}
    return [Held(*row) for row in transaction.all(HELD, params)]


def workloads(transaction: Transaction, uids: Iterable[str]) -> Workloads:
    labels: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(lambda: {"label": {}, "annotation": {}})
    phases: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    payers = {}
    wanted = sorted(uids)
    for uid, kind, key, value in by_keys(transaction, LABELS, wanted):
        labels[uid][kind][key] = value
    for uid, phase, from_at, to_at in by_keys(transaction, PHASES, wanted):
        phases[uid].append((from_at, phase))
        if to_at is not None:  # an end is no interval; of those that are not the last, all are this one
            phases[uid].append((to_at, Phase.STOPPED))
    for *row, phase_at in by_keys(transaction, PAYERS, wanted):
        uid, phase = row[0], row[7]
        phases[uid].append((phase_at, phase))
        payers[uid] = Payer(*row, labels=labels[uid]["label"], annotations=labels[uid]["annotation"])
    return Workloads(payers, phases)
