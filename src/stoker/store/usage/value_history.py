"""Earlier GPU requests of workloads and earlier quotas of workspaces.

A row holds the value that was valid until a time. The current value is in the workload or workspace itself.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, structs

from stoker.domain.access.identity import Workspace
from stoker.store.db.base import Transaction
from stoker.store.sql.select_in import select_in

ADD_PAST_REQUEST = """
INSERT INTO workload_request_history (workload_uid, until_at, gpu_milli)
VALUES (:workload_uid, :until_at, :gpu_milli)
ON CONFLICT (workload_uid, until_at) DO NOTHING
"""
PAST_REQUESTS = """
SELECT workload_uid, until_at, gpu_milli
FROM workload_request_history
WHERE workload_uid IN (:keys)
ORDER BY workload_uid, until_at
"""
ADD_PAST_QUOTA = """
INSERT INTO quota_history (cluster_id, namespace, until_at, gpu_milli)
VALUES (:cluster_id, :namespace, :until_at, :gpu_milli)
ON CONFLICT (cluster_id, namespace, until_at) DO NOTHING
"""
PAST_QUOTAS = """
SELECT namespace, until_at, gpu_milli
FROM quota_history
WHERE cluster_id = :cluster_id
  AND until_at >= :from_at
ORDER BY until_at DESC
"""


class PastRequest(Struct, frozen=True):
    """The milli-GPUs that a workload requested until a time."""

    workload_uid: str
    until_at: int
    gpu_milli: int


def add_past_requests(transaction: Transaction, requests: Iterable[PastRequest]) -> None:
    """Store earlier requests. Of two changes in the same millisecond the first is kept: it holds the earlier value."""
    transaction.execute_many(ADD_PAST_REQUEST, [structs.asdict(request) for request in requests])


def past_requests(transaction: Transaction, uids: Collection[str]) -> Mapping[str, list[tuple[int, int]]]:
    """End time and milli-GPUs of earlier requests, oldest first, by workload uid."""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for uid, until_at, milli in select_in(transaction, PAST_REQUESTS, uids):
        found[uid].append((until_at, milli))
    return found


def max_request(past: Iterable[tuple[int, int]], current_milli: int, from_at: int, to_at: int) -> int:
    """The highest request in [from_at, to_at) of a workload that requests `current_milli` now."""
    valid_from, highest = 0, 0
    for until_at, milli in past:
        if until_at > from_at and valid_from < to_at:
            highest = max(highest, milli)
        valid_from = until_at
    return max(highest, current_milli) if valid_from < to_at else highest


def add_past_quota(transaction: Transaction, workspace: Workspace, until_at: int) -> None:
    """Record that the workspace had its quota until a time."""
    transaction.execute(
        ADD_PAST_QUOTA,
        {
            "cluster_id": workspace.cluster_id,
            "namespace": workspace.namespace,
            "until_at": until_at,
            "gpu_milli": workspace.quota.gpu_milli,
        },
    )


class QuotaHistory(Struct, frozen=True):
    """GPU quotas in milli-GPUs by namespace, None without a limit: current ones, and earlier ones, newest first."""

    current: Mapping[str, int | None]
    past: list[tuple[str, int, int | None]]

    def quotas_at(self, time: int) -> dict[str, int]:
        """The quotas of limited namespaces just before a time."""
        quotas = {**self.current, **{namespace: milli for namespace, until_at, milli in self.past if until_at >= time}}
        return {namespace: milli for namespace, milli in quotas.items() if milli is not None}


def quota_history(
    transaction: Transaction, workspaces: Iterable[Workspace], cluster_id: str, from_at: int
) -> QuotaHistory:
    """The quotas at any time since `from_at`."""
    rows = transaction.fetch_all(PAST_QUOTAS, {"cluster_id": cluster_id, "from_at": from_at})
    current = {workspace.namespace: workspace.quota.gpu_milli for workspace in workspaces}
    return QuotaHistory(current, [(row[0], row[1], row[2]) for row in rows])
