"""Counts of workloads by group, updated in the transaction that adds or changes them, so they are always exact.

A transaction writes each changed row once, in key order, so that writers cannot deadlock. A count is sharded by
connection so that writers do not wait for each other; only the sum of the shards is meaningful, and a single shard
may be negative.
"""

from collections import Counter
from collections.abc import Iterable

from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.store.db.base import Row, Transaction

GROUP_COLUMNS = (
    "visibility",
    "cluster_id",
    "namespace",
    "kind",
    "phase",
    "workspace_id",
    "user_name",
    "user_id",
    "priority",
    "node_pools",
)
VISIBLE, DELETING, DELETED = 0, 1, 2
"""Values of `visibility`: not deleted; deleted with pods still terminating; deleted."""
PRIMARY_KEY = ", ".join((*GROUP_COLUMNS, "shard"))
ADD_TO_COUNT = f"""
INSERT INTO workload_count ({PRIMARY_KEY}, workloads)
VALUES ({", ".join(f":{column}" for column in (*GROUP_COLUMNS, "shard"))}, :workloads)
ON CONFLICT ({PRIMARY_KEY}) DO UPDATE SET workloads = workload_count.workloads + excluded.workloads
"""
SHARDED_GROUPS = f"""
SELECT {", ".join(GROUP_COLUMNS)}, CAST(SUM(workloads) AS BIGINT)
FROM workload_count
GROUP BY {", ".join(GROUP_COLUMNS)}
HAVING COUNT(*) > 1 OR SUM(workloads) = 0
LIMIT :limit
"""
DELETE_GROUP = f"""
DELETE FROM workload_count
WHERE {" AND ".join(f"{column} = :{column}" for column in GROUP_COLUMNS)}
"""


def group_key(workload: Workload) -> Row:
    """The group that a workload is counted in: values of GROUP_COLUMNS."""
    visibility = VISIBLE if workload.deleted_at is None else DELETING if workload.phase is Phase.DELETING else DELETED
    return (
        visibility,
        workload.cluster_id,
        workload.namespace,
        workload.kind,
        workload.phase,
        workload.workspace_id,
        workload.user_name,
        workload.user_id,
        workload.priority,
        ",".join(workload.current_node_pools),
    )


def adjust(transaction: Transaction, before: Iterable[Workload], after: Iterable[Workload]) -> None:
    """Move workloads from their groups `before` a change to their groups `after` it."""
    difference = Counter(map(group_key, after))
    difference.subtract(map(group_key, before))
    transaction.execute_many(
        ADD_TO_COUNT,
        [
            dict(zip(GROUP_COLUMNS, group, strict=True), shard=transaction.shard, workloads=workloads)
            for group, workloads in sorted(difference.items())
            if workloads
        ],
    )


def compact(transaction: Transaction, limit: int = 500) -> int:
    """Merge the shards of up to `limit` groups and delete zero counts; returns the number of groups."""
    rows = [
        dict(zip((*GROUP_COLUMNS, "workloads"), row, strict=True))
        for row in transaction.fetch_all(SHARDED_GROUPS, {"limit": limit})
    ]
    transaction.execute_many(DELETE_GROUP, rows)
    transaction.execute_many(ADD_TO_COUNT, [{**row, "shard": 0} for row in rows if row["workloads"]])
    return len(rows)
