"""Workloads as monitoring shows them, with the GPUs they hold or held last."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from stoker.domain.metrics.series import DeviceAllocation
from stoker.domain.names import natural_sort_key
from stoker.domain.queries.workload_records import FleetWorkload, WorkloadFacets
from stoker.domain.workload.phase import Phase
from stoker.store.cluster import clusters
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import where_clause
from stoker.store.sql.select_in import select_in
from stoker.store.workloads.query.predicates import in_list

COLUMNS = """
workload.uid, workload.slug, workload.kind, workload.namespace, workload.cluster_id, workload.phase,
workload.attempt, workload.replicas, workload.started_at, workload.ended_at, workload.gpu_milli,
workload.name, workload.workspace_id, workload.api_version
"""
BY_REF = f"""
SELECT {COLUMNS}
FROM workload
WHERE (workload.uid = :ref OR workload.slug = :ref)
  AND workload.deleted_at IS NULL
"""
BY_UIDS = f"SELECT {COLUMNS} FROM workload WHERE workload.uid IN (:keys)"
NAMESPACES = """
SELECT namespace
FROM workload_count
{condition}
GROUP BY namespace
HAVING SUM(workloads) > 0
ORDER BY namespace
"""
KINDS = """
SELECT kind
FROM workload_count
{condition}
GROUP BY kind
HAVING SUM(workloads) > 0
ORDER BY kind
"""
SLUGS_WITH_GPUS = """
SELECT DISTINCT workload.slug
FROM workload
JOIN allocation ON allocation.workload_uid = workload.uid
WHERE workload.workspace_id IN (:keys)
  AND allocation.to_at IS NULL
"""
WORKSPACE_OF_WORKLOADS = "SELECT uid, workspace_id FROM workload WHERE uid IN (:keys)"
DELETED_SINCE = "SELECT uid FROM workload WHERE deleted_at >= :since"  # index workload_deleted_by_deleted_at
CURRENT_GPUS = """
SELECT workload_uid, model, SUM(gpu_milli)
FROM allocation
WHERE workload_uid IN (:keys)
  AND to_at IS NULL
GROUP BY workload_uid, model
ORDER BY workload_uid, model
"""  # index allocation_current_by_workload
# A replaced pod has the rank of its replacement; only the newest pod of a rank counts.
LAST_GPUS = """
SELECT allocation.workload_uid, allocation.model, SUM(allocation.gpu_milli)
FROM workload
JOIN allocation ON allocation.workload_uid = workload.uid
JOIN pod ON pod.uid = allocation.pod_uid
WHERE workload.uid IN (:keys)
  AND pod.attempt = workload.attempt
  AND pod.rank < workload.replicas
  AND NOT EXISTS (
      SELECT 1
      FROM pod AS newer
      WHERE newer.workload_uid = workload.uid
        AND newer.attempt = pod.attempt
        AND newer.rank = pod.rank
        AND newer.created_at > pod.created_at
  )
GROUP BY allocation.workload_uid, allocation.model
ORDER BY allocation.workload_uid, allocation.model
"""
ALLOCATIONS_OF_WORKLOAD = """
SELECT node, COALESCE(device, -1), from_at, to_at, gpu_uuid
FROM allocation
WHERE workload_uid = :uid
  AND (device IS NOT NULL OR gpu_uuid <> '')
  AND from_at <= :end
  AND (to_at IS NULL OR to_at > :start)
ORDER BY node, device, from_at
"""
ALLOCATIONS_OF_POD = ALLOCATIONS_OF_WORKLOAD.replace("workload_uid = :uid", "pod_uid = :uid")


def find(transaction: Transaction, ref: str) -> FleetWorkload | None:
    """A workload without its GPUs, by uid or slug; None when it is absent or deleted."""
    row = transaction.fetch_one(BY_REF, {"ref": ref})
    return _workload_from_row(row, _engine_by_cluster(transaction), {}) if row else None


def deleted_since(transaction: Transaction, since: int) -> set[str]:
    """The uids of workloads deleted at or after a time."""
    return {row[0] for row in transaction.fetch_all(DELETED_SINCE, {"since": since})}


def read_fleet_workloads(transaction: Transaction, uids: Sequence[str]) -> list[FleetWorkload]:
    """The projection of a page, in the order of the uids."""
    found = {row[0]: row for row in select_in(transaction, BY_UIDS, uids)}
    rows = [found[uid] for uid in uids]
    # Only workloads that request GPUs and were dispatched at least once can hold any.
    ended_by_uid = {row[0]: row[9] is not None for row in rows if row[10] and row[6]}
    gpus = gpus_by_model(transaction, ended_by_uid)
    engines = _engine_by_cluster(transaction)
    return [_workload_from_row(row, engines, gpus.get(row[0], {})) for row in rows]


def gpus_by_model(transaction: Transaction, ended_by_uid: Mapping[str, bool]) -> dict[str, dict[str, int]]:
    """Milli-GPUs by workload and GPU model: the current allocation, or the last one of a workload that has ended."""
    gpus: dict[str, dict[str, int]] = defaultdict(dict)
    for sql, has_ended in ((CURRENT_GPUS, False), (LAST_GPUS, True)):
        uids = [uid for uid, ended in ended_by_uid.items() if ended is has_ended]
        for uid, model, gpu_milli in select_in(transaction, sql, uids):
            gpus[uid][model] = int(gpu_milli)
    return gpus


def facets(transaction: Transaction, cluster_id: str, workspace_ids: tuple[int, ...] | None) -> WorkloadFacets:
    """The namespaces and kinds of the workloads in a cluster, or in all if `cluster_id` is empty."""
    visible = None if workspace_ids is None else in_list("workspace_id", workspace_ids, "visible")
    condition = where_clause(
        "visibility = 0",
        "cluster_id = :cluster_id" if cluster_id else None,
        visible.on_table("workload_count") if visible else None,
    )
    params = {"cluster_id": cluster_id, **(visible.params if visible else {})}
    return WorkloadFacets(
        [row[0] for row in transaction.fetch_all(NAMESPACES.format(condition=condition), params)],
        [row[0] for row in transaction.fetch_all(KINDS.format(condition=condition), params)],
    )


def allocations_of_workload(transaction: Transaction, uid: str, start: int, end: int) -> list[DeviceAllocation]:
    """The GPUs that a workload held at some time in a range."""
    return _sort_by_gpu(transaction.fetch_all(ALLOCATIONS_OF_WORKLOAD, {"uid": uid, "start": start, "end": end}))


def allocations_of_pod(transaction: Transaction, uid: str, start: int, end: int) -> list[DeviceAllocation]:
    return _sort_by_gpu(transaction.fetch_all(ALLOCATIONS_OF_POD, {"uid": uid, "start": start, "end": end}))


def _sort_by_gpu(rows: Iterable[Row]) -> list[DeviceAllocation]:
    """Sorted by node in natural order; rows of one node keep their order by device and time."""
    return sorted(
        (DeviceAllocation(*row) for row in rows),
        key=lambda allocation: (natural_sort_key(allocation.node), allocation.node),
    )


def slugs_with_gpus(transaction: Transaction, workspace_ids: tuple[int, ...]) -> set[str]:
    """The slugs of the workloads in these workspaces that hold GPUs now."""
    return {row[0] for row in select_in(transaction, SLUGS_WITH_GPUS, workspace_ids)}


def filter_by_workspace(transaction: Transaction, uids: Collection[str], workspace_ids: tuple[int, ...]) -> set[str]:
    """The uids whose workloads belong to these workspaces, deleted ones included."""
    return {row[0] for row in select_in(transaction, WORKSPACE_OF_WORKLOADS, uids) if row[1] in workspace_ids}


def _engine_by_cluster(transaction: Transaction) -> dict[str, str]:
    return {cluster.id: cluster.engine for cluster in clusters.all_clusters(transaction)}


def _workload_from_row(row: Row, engines: dict[str, str], gpus: dict[str, int]) -> FleetWorkload:
    return FleetWorkload(
        uid=row[0],
        slug=row[1],
        name=row[11],
        kind=row[2],
        namespace=row[3],
        cluster_id=row[4],
        workspace_id=row[12],
        engine=engines.get(row[4], ""),
        phase=Phase(row[5]),
        attempt=row[6],
        replicas=row[7],
        started_at=row[8],
        ended_at=row[9],
        gpus=gpus,
        api_version=row[13],
    )
