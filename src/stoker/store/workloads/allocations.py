"""GPU allocations of pods, and the workloads that hold them.

`workload_allocation` always holds the sum of a workload's open allocations; every write here refreshes it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, structs

from stoker.domain.cluster.gpu_identity import GpuId, gpu_key
from stoker.domain.workload.placement import occupying_pods
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.select_in import select_in
from stoker.store.workloads import pods

ALLOCATE = """
INSERT INTO allocation (pod_uid, slot, workload_uid, cluster_id, node, device, gpu_uuid, model, gpu_milli, from_at,
    to_at)
VALUES (:pod_uid, :slot, :workload_uid, :cluster_id, :node, :device, :gpu_uuid, :model, :gpu_milli, :from_at, NULL)
"""
DEALLOCATE = """
UPDATE allocation
SET to_at = :at
WHERE pod_uid = :pod_uid
  AND to_at IS NULL
"""
UPSERT_WORKLOAD_ALLOCATION = """
INSERT INTO workload_allocation (workload_uid, cluster_id, allocated_milli)
SELECT workload_uid, cluster_id, SUM(gpu_milli)
FROM allocation
WHERE workload_uid = :uid
  AND to_at IS NULL
GROUP BY workload_uid, cluster_id
ON CONFLICT (workload_uid) DO UPDATE SET allocated_milli = excluded.allocated_milli
"""  # index allocation_by_workload
DELETE_WORKLOAD_ALLOCATION = """
DELETE FROM workload_allocation
WHERE workload_uid = :uid
  AND NOT EXISTS (
      SELECT 1
      FROM allocation
      WHERE workload_uid = :uid
        AND to_at IS NULL
  )
"""
RELEASED_AFTER = """
SELECT node, device, gpu_uuid, MAX(to_at)
FROM allocation
WHERE cluster_id = :cluster_id
  AND to_at > :at
GROUP BY node, device, gpu_uuid
"""  # index allocation_by_time
PODS_WITH_ALLOCATION = """
SELECT DISTINCT pod_uid
FROM allocation
WHERE pod_uid IN (:keys)
  AND to_at IS NULL
"""
ALLOCATED_BY_DEVICE = """
SELECT device, SUM(gpu_milli)
FROM allocation
WHERE cluster_id = :cluster_id
  AND node = :node
  AND to_at IS NULL
GROUP BY device
"""  # index allocation_current_by_device
OPEN_ALLOCATIONS = """
SELECT pod_uid, device, workload_uid, node, model, gpu_milli, from_at, gpu_uuid, slot
FROM allocation
WHERE cluster_id = :cluster_id
  AND to_at IS NULL
"""
OPEN_ALLOCATIONS_OF_WORKLOADS = """
SELECT workload_uid, node, device, gpu_milli, from_at, gpu_uuid
FROM allocation
WHERE workload_uid IN (:keys)
  AND to_at IS NULL
"""
RUNNING_ALLOCATIONS = """
SELECT allocation.node, COALESCE(allocation.device, -1), allocation.gpu_uuid, workload.slug, allocation.from_at,
       workload.running_since
FROM allocation
JOIN workload ON workload.uid = allocation.workload_uid
WHERE allocation.cluster_id = :cluster_id
  AND allocation.to_at IS NULL
  AND workload.running_since IS NOT NULL
  AND (allocation.device IS NOT NULL OR allocation.gpu_uuid <> '')
"""  # index allocation_current_by_device
ALLOCATIONS_BY_UUID = """
SELECT pod_uid, slot, workload_uid, node, device, gpu_uuid
FROM allocation
WHERE cluster_id = :cluster_id
  AND gpu_uuid IN (:keys)
  AND to_at IS NULL
"""  # index allocation_current_by_uuid
SET_DEVICE = """
UPDATE allocation
SET device = :device
WHERE pod_uid = :pod_uid
  AND slot = :slot
"""
DEVICES_OF_PODS = """
SELECT pod_uid, device
FROM allocation
WHERE pod_uid IN (:keys)
ORDER BY pod_uid, slot
"""
WORKLOAD_COLUMNS = "uid, slug, name, kind, namespace, phase"
UNFINISHED_WORKLOADS = f"SELECT {WORKLOAD_COLUMNS} FROM workload WHERE cluster_id = :cluster_id AND ended_at IS NULL"
WORKLOADS_BY_UID = f"SELECT {WORKLOAD_COLUMNS} FROM workload WHERE uid IN (:keys) AND cluster_id = :cluster_id"


class Allocation(Struct, frozen=True):
    """A GPU, or a fraction of one, allocated to a pod. `slot` numbers the GPUs of the pod; `device` is None if the
    engine chose a GPU and has not told which one."""

    pod_uid: str
    device: int | None
    workload_uid: str
    node: str
    model: str
    gpu_milli: int
    from_at: int
    gpu_uuid: str = ""
    slot: int = 0

    @property
    def gpu_key(self) -> str:
        return gpu_key(self.node, self.device, self.gpu_uuid)


class GpuAllocation(Struct, frozen=True, gc=False):
    """A GPU, or a fraction of one; samples from before `from_at` belong to another workload."""

    node: str
    device: int | None
    gpu_milli: int
    from_at: int = 0
    uuid: str = ""


class RunningAllocation(Struct, frozen=True, gc=False):
    """A GPU, or a fraction of one, that a running workload could use since `since`."""

    gpu: GpuId
    slug: str
    since: int


class WorkloadAllocation(Struct, frozen=True):
    """A workload that occupies capacity, with the pods and GPUs that do."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    phase: str
    pods: Sequence[Pod]
    gpus: Sequence[GpuAllocation]


def allocate(transaction: Transaction, cluster_id: str, allocations: Collection[Allocation]) -> None:
    rows = [{**structs.asdict(allocation), "cluster_id": cluster_id} for allocation in allocations]
    transaction.execute_many(ALLOCATE, rows)
    refresh_workload_allocations(transaction, {allocation.workload_uid for allocation in allocations})


def allocated_milli_by_device(transaction: Transaction, cluster_id: str, node: str) -> dict[int | None, int]:
    """The milli-GPUs that are allocated now on each device of a node; None is for unknown devices."""
    rows = transaction.fetch_all(ALLOCATED_BY_DEVICE, {"cluster_id": cluster_id, "node": node})
    return {device: int(milli) for device, milli in rows}


def release(transaction: Transaction, finished: Collection[Pod]) -> None:
    """Release the capacity and the GPUs of finished pods."""
    pods.mark_released(transaction, finished)
    with_gpus = [pod for pod in finished if pod.devices]
    transaction.execute_many(DEALLOCATE, [{"pod_uid": pod.uid, "at": pod.ended_at} for pod in with_gpus])
    refresh_workload_allocations(transaction, {pod.workload_uid for pod in with_gpus})


def refresh_workload_allocations(transaction: Transaction, workload_uids: Iterable[str]) -> None:
    """Recompute the allocated milli-GPUs of workloads whose allocations have changed."""
    rows = [{"uid": uid} for uid in sorted(workload_uids)]
    transaction.execute_many(UPSERT_WORKLOAD_ALLOCATION, rows)
    transaction.execute_many(DELETE_WORKLOAD_ALLOCATION, rows)


def open_allocations(transaction: Transaction, cluster_id: str) -> list[Allocation]:
    """Every current allocation of a cluster."""
    return [Allocation(*row) for row in transaction.fetch_all(OPEN_ALLOCATIONS, {"cluster_id": cluster_id})]


def pods_with_allocation(transaction: Transaction, uids: Collection[str]) -> set[str]:
    """The uids of those pods that hold a GPU now."""
    return {row[0] for row in select_in(transaction, PODS_WITH_ALLOCATION, uids)}


def released_after(transaction: Transaction, cluster_id: str, at: int) -> dict[str, int]:
    """Release times after `at`, by key of the GPU. With `at` = now there are some only if the clock was set back."""
    released: dict[str, int] = {}
    for node, device, uuid, to_at in transaction.fetch_all(RELEASED_AFTER, {"cluster_id": cluster_id, "at": at}):
        key = gpu_key(node, device, uuid)
        released[key] = max(to_at, released.get(key, 0))
    return released


def follow_gpus(transaction: Transaction, cluster_id: str, gpus: Iterable[GpuId]) -> set[str]:
    """Store the new indexes of GPUs that were renumbered, in their current allocations and in the pods that hold them.
    Returns the workloads of these pods. A pod does not follow a GPU that was moved to another node."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    renumbered = [
        (pod_uid, slot, workload_uid, by_uuid[uuid].device)
        for pod_uid, slot, workload_uid, node, device, uuid in select_in(
            transaction, ALLOCATIONS_BY_UUID, by_uuid, {"cluster_id": cluster_id}
        )
        if node == by_uuid[uuid].node and device != by_uuid[uuid].device
    ]
    if not renumbered:
        return set()
    transaction.execute_many(
        SET_DEVICE, [{"pod_uid": pod_uid, "slot": slot, "device": device} for pod_uid, slot, _, device in renumbered]
    )
    devices: defaultdict[str, list[int | None]] = defaultdict(list)
    for pod_uid, device in select_in(transaction, DEVICES_OF_PODS, {pod_uid for pod_uid, *_ in renumbered}):
        devices[pod_uid].append(device)
    known = {uid: [device for device in indexes if device is not None] for uid, indexes in devices.items()}
    pods.set_devices(transaction, {uid: found for uid, found in known.items() if len(found) == len(devices[uid])})
    return {workload_uid for _, _, workload_uid, _ in renumbered}


def of_cluster(transaction: Transaction, cluster_id: str) -> list[WorkloadAllocation]:
    """The workloads of a cluster that occupy capacity."""
    pods_by_uid: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods.unreleased(transaction, cluster_id):
        pods_by_uid[pod.workload_uid].append(pod)
    gpus = [
        (each.workload_uid, each.node, each.device, each.gpu_milli, each.from_at, each.gpu_uuid)
        for each in open_allocations(transaction, cluster_id)
    ]
    workloads = transaction.fetch_all(UNFINISHED_WORKLOADS, {"cluster_id": cluster_id})
    return _build_allocations(workloads, pods_by_uid, gpus)


def of_workloads(transaction: Transaction, cluster_id: str, uids: Collection[str]) -> list[WorkloadAllocation]:
    """The given workloads of a cluster that occupy capacity."""
    pods_by_uid = pods.unreleased_of_workloads(transaction, cluster_id, uids)
    gpus = select_in(transaction, OPEN_ALLOCATIONS_OF_WORKLOADS, uids)
    occupying = pods_by_uid.keys() | {row[0] for row in gpus}
    workloads = select_in(transaction, WORKLOADS_BY_UID, occupying, {"cluster_id": cluster_id})
    return _build_allocations(workloads, pods_by_uid, gpus)


def running_allocations(transaction: Transaction, cluster_id: str) -> list[RunningAllocation]:
    """The GPUs of every running workload of a cluster."""
    rows = transaction.fetch_all(RUNNING_ALLOCATIONS, {"cluster_id": cluster_id})
    return [
        RunningAllocation(GpuId(node, device, uuid), slug, max(from_at, running_since))
        for node, device, uuid, slug, from_at, running_since in rows
    ]


def _build_allocations(
    workloads: Iterable[Row], pods_by_uid: Mapping[str, Sequence[Pod]], gpu_rows: Iterable[Row]
) -> list[WorkloadAllocation]:
    gpus: dict[str, list[GpuAllocation]] = defaultdict(list)
    for workload_uid, *gpu in gpu_rows:
        gpus[workload_uid].append(GpuAllocation(*gpu))
    return [
        WorkloadAllocation(
            uid, slug, name, kind, namespace, phase, occupying_pods(pods_by_uid.get(uid, ())), gpus.get(uid, ())
        )
        for uid, slug, name, kind, namespace, phase in workloads
        if uid in pods_by_uid or uid in gpus
    ]
