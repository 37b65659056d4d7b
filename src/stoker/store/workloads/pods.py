"""Pods. A pod is released once it has finished; until then it occupies capacity of its node."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import structs

from stoker.domain.cluster.resources import Resources
from stoker.domain.names import natural_sort_key
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.placement import pod_precedence
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.select_in import select_in

COLUMNS = """
uid, workload_uid, name, attempt, revision, rank, node, devices, phase, ready, exit_code, signal, message,
restarts, port, created_at, started_at, ended_at, gpu_milli, cpu_milli, memory_bytes, engine_uid, owner_uid
"""
OF_WORKLOAD = f"SELECT {COLUMNS} FROM pod WHERE workload_uid = :uid ORDER BY attempt, rank, created_at"
OF_ATTEMPT = f"""
SELECT {COLUMNS}
FROM pod
WHERE workload_uid = :uid
  AND attempt = :attempt
ORDER BY rank, created_at
"""
OF_CURRENT_ATTEMPT = f"""
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
"""
NEWEST_CREATED_AT = "SELECT MAX(created_at) FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
UNRELEASED = f"SELECT {COLUMNS} FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
NODES_OF_UNRELEASED = "SELECT uid, node FROM pod WHERE cluster_id = :cluster_id AND released_at IS NULL"
UNRELEASED_VERSION = """
SELECT COUNT(*), COALESCE(MAX(uid), ''), COUNT(ended_at)
FROM pod
WHERE cluster_id = :cluster_id
  AND released_at IS NULL
"""
UNRELEASED_VERSION_OF_WORKSPACE = """
SELECT COUNT(*), COALESCE(MAX(pod.uid), '')
FROM workspace
JOIN workload ON workload.cluster_id = workspace.cluster_id AND workload.workspace_id = workspace.id
JOIN pod ON pod.workload_uid = workload.uid
WHERE workspace.id = :workspace_id
  AND workload.ended_at IS NULL
  AND pod.released_at IS NULL
"""
UNRELEASED_OF_WORKLOADS = f"{UNRELEASED} AND workload_uid IN (:keys)"
ADD = """
INSERT INTO pod (uid, workload_uid, cluster_id, name, attempt, revision, rank, node, node_key, devices, phase, ready,
                 exit_code, signal, message, restarts, gpu_milli, cpu_milli, memory_bytes, port, created_at,
                 started_at, ended_at, engine_uid, owner_uid, released_at)
VALUES (:uid, :workload_uid, :cluster_id, :name, :attempt, :revision, :rank, :node, :node_key, :devices, :phase, :ready,
        :exit_code, :signal, :message, :restarts, :gpu_milli, :cpu_milli, :memory_bytes, :port, :created_at,
        :started_at, :ended_at, :engine_uid, :owner_uid, NULL)
"""
UPDATE = """
UPDATE pod
SET phase = :phase, ready = :ready, exit_code = :exit_code, signal = :signal, message = :message,
    restarts = :restarts, node = :node, node_key = :node_key, port = :port, started_at = :started_at,
    ended_at = :ended_at, engine_uid = :engine_uid
WHERE uid = :uid
"""
SET_PENDING_MESSAGE = """
UPDATE pod
SET message = :message
WHERE uid = :uid
  AND started_at IS NULL
  AND ended_at IS NULL
"""
SET_DEVICES = """
UPDATE pod
SET devices = :devices
WHERE uid = :uid
"""
RELEASE = """
UPDATE pod
SET released_at = :at
WHERE uid = :uid
  AND released_at IS NULL
"""


def pod_from_row(row: Row) -> Pod:
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
        engine_uid=row[21],
        owner_uid=row[22],
    )


def of_workload(transaction: Transaction, uid: str) -> list[Pod]:
    """All pods of a workload, of every attempt, by attempt and rank."""
    return [pod_from_row(row) for row in transaction.fetch_all(OF_WORKLOAD, {"uid": uid})]


def of_attempt(transaction: Transaction, uid: str, attempt: int) -> list[Pod]:
    return [pod_from_row(row) for row in transaction.fetch_all(OF_ATTEMPT, {"uid": uid, "attempt": attempt})]


def get(transaction: Transaction, pod_uid: str) -> Pod | None:
    row = transaction.fetch_one(BY_UID, {"uid": pod_uid})
    return pod_from_row(row) if row else None


def find_by_name(transaction: Transaction, uid: str, name: str) -> list[Pod]:
    """The pods of a workload with this name or uid; the current pod of the rank comes first."""
    found = [pod_from_row(row) for row in transaction.fetch_all(BY_NAME, {"uid": uid, "name": name})]
    return sorted(found, key=pod_precedence, reverse=True)


def by_uid(transaction: Transaction, uids: Collection[str]) -> dict[str, Pod]:
    """The pods with these uids, by uid; unknown uids are left out."""
    return {row[0]: pod_from_row(row) for row in select_in(transaction, BY_UIDS, uids)}


def of_current_attempt(transaction: Transaction, workload_uids: Collection[str]) -> dict[str, list[Pod]]:
    """The pods of the current attempt of each workload."""
    return _group_by_workload(select_in(transaction, OF_CURRENT_ATTEMPT, workload_uids))


def unreleased(transaction: Transaction, cluster_id: str) -> list[Pod]:
    """The pods of a cluster that still occupy capacity."""
    return [pod_from_row(row) for row in transaction.fetch_all(UNRELEASED, {"cluster_id": cluster_id})]


def unreleased_version(transaction: Transaction, cluster_id: str) -> Row:
    """A value that changes whenever a pod of the cluster is created, finishes or is released."""
    return transaction.fetch_one(UNRELEASED_VERSION, {"cluster_id": cluster_id}) or ()


def unreleased_version_of_workspace(transaction: Transaction, workspace_id: int) -> Row:
    """A value that changes whenever a pod of the workspace is created or released."""
    return transaction.fetch_one(UNRELEASED_VERSION_OF_WORKSPACE, {"workspace_id": workspace_id}) or ()


def nodes_of_unreleased(transaction: Transaction, cluster_id: str) -> dict[str, str]:
    """The node of each pod that still occupies capacity."""
    return dict(transaction.fetch_all(NODES_OF_UNRELEASED, {"cluster_id": cluster_id}))


def unreleased_of_workloads(
    transaction: Transaction, cluster_id: str, workload_uids: Collection[str]
) -> dict[str, list[Pod]]:
    """The pods of these workloads that still occupy capacity, by workload uid."""
    return _group_by_workload(
        select_in(transaction, UNRELEASED_OF_WORKLOADS, workload_uids, {"cluster_id": cluster_id})
    )


def newest_created_at(transaction: Transaction, cluster_id: str) -> int:
    """Creation time of the newest pod that occupies capacity; 0 if there is none."""
    row = transaction.fetch_one(NEWEST_CREATED_AT, {"cluster_id": cluster_id})
    return row[0] if row and row[0] is not None else 0


def add(transaction: Transaction, cluster_id: str, created: Iterable[Pod]) -> None:
    transaction.execute_many(ADD, [{**row_params(pod), "cluster_id": cluster_id} for pod in created])


def update(transaction: Transaction, changed: Iterable[Pod]) -> None:
    transaction.execute_many(UPDATE, [row_params(pod) for pod in changed])


def set_pending_message(transaction: Transaction, uids: Iterable[str], message: str) -> None:
    """Store why pods that have not started are pending."""
    transaction.execute_many(SET_PENDING_MESSAGE, [{"uid": uid, "message": message} for uid in uids])


def set_devices(transaction: Transaction, devices: Mapping[str, Sequence[int]]) -> None:
    """Store the device indexes of pods, by uid."""
    transaction.execute_many(
        SET_DEVICES, [{"uid": uid, "devices": _encode_devices(indexes)} for uid, indexes in devices.items()]
    )


def mark_released(transaction: Transaction, finished: Iterable[Pod]) -> None:
    """Mark finished pods as occupying no capacity; `allocations.release` also releases their GPUs."""
    transaction.execute_many(RELEASE, [{"uid": pod.uid, "at": pod.ended_at} for pod in finished])


def _group_by_workload(rows: Iterable[Row]) -> dict[str, list[Pod]]:
    pods: dict[str, list[Pod]] = defaultdict(list)
    for row in rows:
        pods[row[1]].append(pod_from_row(row))
    return pods


def row_params(pod: Pod) -> dict[str, object]:
    devices = _encode_devices(pod.devices)
    encoded = {"node_key": natural_sort_key(pod.node), "devices": devices, "ready": int(pod.ready)}
    return {**structs.asdict(pod), **structs.asdict(pod.resources), **encoded}


def _encode_devices(devices: Iterable[int]) -> str:
    return ",".join(str(device) for device in devices)
