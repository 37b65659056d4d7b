"""Pods, and the GPUs each of them held from when to when."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from msgspec import Struct, structs

from stoker.domain.resources import Resources
from stoker.domain.workload import Pod, PodPhase
from stoker.store.base import Row, Transaction
from stoker.store.keys import by_keys

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
PRESENT = f"""
SELECT {", ".join("pod." + column.strip() for column in COLUMNS.split(","))}
FROM workload
JOIN pod ON pod.workload_uid = workload.uid
        AND pod.attempt = workload.attempt
WHERE workload.uid IN (:keys)
ORDER BY pod.rank, pod.created_at
"""
BY_UID = f"SELECT {COLUMNS} FROM pod WHERE uid = :uid"
BY_UIDS = f"SELECT {COLUMNS} FROM pod WHERE uid IN (:keys)"
BY_NAME = f"""
SELECT {COLUMNS}
FROM pod
WHERE workload_uid = :uid
  AND (name = :name OR uid = :name)
ORDER BY attempt DESC, created_at DESC
"""
NEWEST = "SELECT MAX(created_at) FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
HELD = f"SELECT {COLUMNS} FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
HELD_ON = "SELECT uid, node FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
HELD_OF = f"{HELD} AND workload_uid IN (:keys)"
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
REASON = """
UPDATE pod
SET message = :message
WHERE uid = :uid
  AND started_at IS NULL
  AND ended_at IS NULL
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
LET_GO_AFTER = """
SELECT node, device, MAX(to_at)
FROM allocation
WHERE cluster_id = :cluster_id
  AND to_at > :at
GROUP BY node, device
"""  # index allocation_time
DEALLOCATE = """
UPDATE allocation
SET to_at = :at
WHERE pod_uid = :pod_uid
  AND to_at IS NULL
"""
HOLD = """
INSERT INTO workload_use (workload_uid, cluster_id, allocated_milli)
SELECT workload_uid, cluster_id, SUM(gpu_milli)
FROM allocation
WHERE workload_uid = :uid
  AND to_at IS NULL
GROUP BY workload_uid, cluster_id
ON CONFLICT (workload_uid) DO UPDATE SET allocated_milli = excluded.allocated_milli
"""  # index allocation_of_workload
LET_GO = """
DELETE FROM workload_use
WHERE workload_uid = :uid
  AND NOT EXISTS (
      SELECT 1
      FROM allocation
      WHERE workload_uid = :uid
        AND to_at IS NULL
  )
"""
ALLOCATED = """
SELECT DISTINCT pod_uid
FROM allocation
WHERE pod_uid IN (:keys)
  AND to_at IS NULL
"""
OPEN_ALLOCATIONS = """
SELECT pod_uid, device, workload_uid, node, model, gpu_milli, from_at
FROM allocation
WHERE cluster_id = :cluster_id
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


def by_uid(transaction: Transaction, uids: Collection[str]) -> dict[str, Pod]:
    """Those that there are of them."""
    return {row[0]: build(row) for row in by_keys(transaction, BY_UIDS, uids)}


def present(transaction: Transaction, workload_uids: Collection[str]) -> dict[str, list[Pod]]:
    """The pods of the present attempt of each of these workloads."""
    return _by_workload(by_keys(transaction, PRESENT, workload_uids))


def held(transaction: Transaction, cluster_id: str) -> list[Pod]:
    """The pods that still take up room."""
    return [build(row) for row in transaction.all(HELD, {"cluster_id": cluster_id})]


def held_on(transaction: Transaction, cluster_id: str) -> dict[str, str]:
    """The nodes of the pods that still take up room."""
    return dict(transaction.all(HELD_ON, {"cluster_id": cluster_id}))


def held_of(transaction: Transaction, cluster_id: str, workload_uids: Collection[str]) -> dict[str, list[Pod]]:
    """The pods of each of these workloads that still take up room."""
    return _by_workload(by_keys(transaction, HELD_OF, workload_uids, {"cluster_id": cluster_id}))


def newest(transaction: Transaction, cluster_id: str) -> int:
    """When the youngest pod that takes up room was made; 0 without any."""
    row = transaction.one(NEWEST, {"cluster_id": cluster_id})
    return row[0] if row and row[0] is not None else 0


def add(transaction: Transaction, cluster_id: str, made: Iterable[Pod]) -> None:
    transaction.many(ADD, [{**params(pod), "cluster_id": cluster_id} for pod in made])


def replace(transaction: Transaction, changed: Iterable[Pod]) -> None:
    transaction.many(REPLACE, [params(pod) for pod in changed])


def set_reason(transaction: Transaction, uids: Iterable[str], message: str) -> None:
    """Why these have not begun."""
    transaction.many(REASON, [{"uid": uid, "message": message} for uid in uids])


def release(transaction: Transaction, ended: Collection[Pod]) -> None:
    """Pods that have ended take up no room any more."""
    rows = [{"uid": pod.uid, "pod_uid": pod.uid, "at": pod.ended_at, "devices": pod.devices} for pod in ended]
    transaction.many(RELEASE, rows)
    transaction.many(DEALLOCATE, [row for row in rows if row["devices"]])
    add_up(transaction, {pod.workload_uid for pod in ended if pod.devices})


def allocate(transaction: Transaction, cluster_id: str, allocations: Collection[Allocation]) -> None:
    transaction.many(ALLOCATE, [{**structs.asdict(each), "cluster_id": cluster_id} for each in allocations])
    add_up(transaction, {each.workload_uid for each in allocations})


def let_go_after(transaction: Transaction, cluster_id: str, at: int) -> dict[tuple[str, int], int]:
    """When GPUs, by node and device, were let go of after this moment; of now, only where the clock was set back."""
    rows = transaction.all(LET_GO_AFTER, {"cluster_id": cluster_id, "at": at})
    return {(node, device): to_at for node, device, to_at in rows}


def add_up(transaction: Transaction, workload_uids: Iterable[str]) -> None:
    """Keep how much each of these workloads, whose GPUs changed, holds now."""
    rows = [{"uid": uid} for uid in sorted(workload_uids)]
    transaction.many(HOLD, rows)
    transaction.many(LET_GO, rows)


def allocated(transaction: Transaction, uids: Collection[str]) -> set[str]:
    """Those of them that hold GPUs now."""
    return {row[0] for row in by_keys(transaction, ALLOCATED, uids)}


def open_allocations(transaction: Transaction, cluster_id: str) -> list[Allocation]:
    """Every GPU of a cluster that is held now."""
    return [Allocation(*row) for row in transaction.all(OPEN_ALLOCATIONS, {"cluster_id": cluster_id})]


def _by_workload(rows: Iterable[Row]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = defaultdict(list)
    for row in rows:
        found[row[1]].append(build(row))
    return found


def params(pod: Pod) -> dict[str, object]:
    devices = ",".join(str(device) for device in pod.devices)
    return {**structs.asdict(pod), **structs.asdict(pod.resources), "devices": devices, "ready": int(pod.ready)}
