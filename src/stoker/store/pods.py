"""Pods, and the GPUs each of them held from when to when."""

from collections.abc import Iterable

from msgspec import Struct, structs

from stoker.domain.resources import Resources
from stoker.domain.workload import Pod, PodPhase
from stoker.store.base import Row, Transaction

COLUMNS = """
uid, workload_uid, name, attempt, revision, rank, node, devices, phase, ready, exit_code, signal, message,
restarts, port, created_at, started_at, ended_at, gpu_milli, cpu_milli, memory_bytes
"""
OF_WORKLOAD = f"SELECT {COLUMNS} FROM pod WHERE workload_uid = :uid ORDER BY attempt, rank, created_at"
OF_ATTEMPT = f"""
SELECT {COLUMNS}
FROM pod
WHERE workload_uid = :uid
  AND attempt = :attempt
ORDER BY rank, created_at
"""
BY_UID = f"SELECT {COLUMNS} FROM pod WHERE uid = :uid"
BY_NAME = f"""
SELECT {COLUMNS}
FROM pod
WHERE workload_uid = :uid
  AND (name = :name OR uid = :name)
ORDER BY attempt DESC, created_at DESC
"""
HELD = f"SELECT {COLUMNS} FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
HELD_BY = f"{HELD} AND workload_uid = :workload_uid"
ADD = """
INSERT INTO pod (uid, workload_uid, cluster_id, name, attempt, revision, rank, node, devices, phase, ready,
                 exit_code, signal, message, restarts, gpu_milli, cpu_milli, memory_bytes, port, created_at,
                 started_at, ended_at, released_at)
VALUES (:uid, :workload_uid, :cluster_id, :name, :attempt, :revision, :rank, :node, :devices, :phase, :ready,
        :exit_code, :signal, :message, :restarts, :gpu_milli, :cpu_milli, :memory_bytes, :port, :created_at,
        :started_at, :ended_at, NULL)
"""
REPLACE = """
UPDATE pod
SET phase = :phase, ready = :ready, exit_code = :exit_code, signal = :signal, message = :message,
    restarts = :restarts, node = :node, port = :port, started_at = :started_at, ended_at = :ended_at
WHERE uid = :uid
"""
RELEASE = """
UPDATE pod
SET released_at = :at
WHERE uid = :uid
  AND released_at IS NULL
"""
ALLOCATE = """
INSERT INTO allocation (pod_uid, device, workload_uid, cluster_id, node, model, gpu_milli, from_at, to_at)
VALUES (:pod_uid, :device, :workload_uid, :cluster_id, :node, :model, :gpu_milli, :from_at, NULL)
"""
DEALLOCATE = """
UPDATE allocation
SET to_at = :at
WHERE pod_uid = :pod_uid
  AND to_at IS NULL
"""
OPEN_ALLOCATIONS = """
SELECT pod_uid, device, workload_uid, node, model, gpu_milli, from_at
FROM allocation
WHERE cluster_id = :cluster_id
  AND to_at IS NULL
"""
ALLOCATIONS_OF = """
SELECT pod_uid, device, workload_uid, node, model, gpu_milli, from_at
FROM allocation
WHERE workload_uid = :workload_uid
  AND to_at IS NULL
"""


class Allocation(Struct, frozen=True):
    """A GPU, or a part of one, that a pod holds."""

    pod_uid: str
    device: int
    workload_uid: str
    node: str
    model: str
    gpu_milli: int
    from_at: int


def build(row: Row) -> Pod:
    return Pod(
        uid=row[0],
        workload_uid=row[1],
        name=row[2],
        attempt=row[3],
        revision=row[4],
        rank=row[5],
        node=row[6],
        devices=tuple(int(device) for device in row[7].split(",") if device),
        phase=PodPhase(row[8]),
        ready=bool(row[9]),
        exit_code=row[10],
        signal=row[11],
        message=row[12],
        restarts=row[13],
        port=row[14],
        created_at=row[15],
        started_at=row[16],
        ended_at=row[17],
        resources=Resources(row[18], row[19], row[20]),
    )


def of_workload(transaction: Transaction, uid: str) -> list[Pod]:
    """Every pod it ever had, by attempt and rank."""
    return [build(row) for row in transaction.all(OF_WORKLOAD, {"uid": uid})]


def of_attempt(transaction: Transaction, uid: str, attempt: int) -> list[Pod]:
    return [build(row) for row in transaction.all(OF_ATTEMPT, {"uid": uid, "attempt": attempt})]


def get(transaction: Transaction, pod_uid: str) -> Pod | None:
    row = transaction.one(BY_UID, {"uid": pod_uid})
    return build(row) if row else None


def named(transaction: Transaction, uid: str, name: str) -> list[Pod]:
    """The pods of a workload that have this name or uid, newest first: a name is used once an attempt."""
    return [build(row) for row in transaction.all(BY_NAME, {"uid": uid, "name": name})]


def held(transaction: Transaction, cluster_id: str) -> list[Pod]:
    """The pods that still take up room."""
    return [build(row) for row in transaction.all(HELD, {"cluster_id": cluster_id})]


def add(transaction: Transaction, cluster_id: str, pod: Pod) -> None:
    transaction.run(ADD, {**_params(pod), "cluster_id": cluster_id})


def replace(transaction: Transaction, pod: Pod) -> None:
    transaction.run(REPLACE, _params(pod))


def release(transaction: Transaction, pod_uid: str, at: int) -> None:
    """The pod takes up no room any more."""
    transaction.run(RELEASE, {"uid": pod_uid, "at": at})
    transaction.run(DEALLOCATE, {"pod_uid": pod_uid, "at": at})


def allocate(transaction: Transaction, cluster_id: str, allocations: Iterable[Allocation]) -> None:
    transaction.many(ALLOCATE, [{**structs.asdict(each), "cluster_id": cluster_id} for each in allocations])


def open_allocations(transaction: Transaction, cluster_id: str) -> list[Allocation]:
    return [Allocation(*row) for row in transaction.all(OPEN_ALLOCATIONS, {"cluster_id": cluster_id})]


def held_by(transaction: Transaction, cluster_id: str, workload_uid: str) -> list[Pod]:
    """Those of one workload."""
    params = {"cluster_id": cluster_id, "workload_uid": workload_uid}
    return [build(row) for row in transaction.all(HELD_BY, params)]


def allocations_of(transaction: Transaction, workload_uid: str) -> list[Allocation]:
    """The GPUs that one workload holds now."""
    return [Allocation(*row) for row in transaction.all(ALLOCATIONS_OF, {"workload_uid": workload_uid})]


def _params(pod: Pod) -> dict[str, object]:
    devices = ",".join(str(device) for device in pod.devices)
    return {**structs.asdict(pod), **structs.asdict(pod.resources), "devices": devices, "ready": int(pod.ready)}
