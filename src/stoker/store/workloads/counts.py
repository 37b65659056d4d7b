"""How many workloads are alike: written in the transaction that adds or changes them, so it is always exact.

What is changed together is added up first, and each row is written once, in the order of its key. A row is split
into lanes, one for each connection that writes, so that connections do not wait for each other; one lane alone says
nothing, and may be below zero.
"""

from collections import Counter
from collections.abc import Iterable

from stoker.domain.workload import Phase, Workload
from stoker.store.base import Row, Transaction

COLUMNS = (
    "hidden",
    "cluster_id",
    "namespace",
    "kind",
    "phase",
    "workspace_id",
    "user_name",
    "user_id",
    "priority",
    "pools",
)
THERE, LEAVING, GONE = 0, 1, 2
"""`hidden`: what there is, what is deleted and whose pods still go, and what is gone."""
KEY = ", ".join((*COLUMNS, "lane"))
COUNT = f"""
INSERT INTO workload_count ({KEY}, workloads)
VALUES ({", ".join(f":{column}" for column in (*COLUMNS, "lane"))}, :workloads)
ON CONFLICT ({KEY}) DO UPDATE SET workloads = workload_count.workloads + excluded.workloads
"""
SPLIT = f"""
SELECT {", ".join(COLUMNS)}, CAST(SUM(workloads) AS BIGINT)
FROM workload_count
GROUP BY {", ".join(COLUMNS)}
HAVING COUNT(*) > 1 OR SUM(workloads) = 0
LIMIT :limit
"""
REMOVE = f"""
DELETE FROM workload_count
WHERE {" AND ".join(f"{column} = :{column}" for column in COLUMNS)}
"""


def key(workload: Workload) -> Row:
    """What a workload is counted by."""
    hidden = THERE if workload.deleted_at is None else LEAVING if workload.phase is Phase.DELETING else GONE
    return (
        hidden,
        workload.cluster_id,
        workload.namespace,
        workload.kind,
        workload.phase,
        workload.workspace_id,
        workload.user_name,
        workload.user_id,
        workload.priority,
        ",".join(workload.current_pools),
    )


def move(transaction: Transaction, before: Iterable[Workload], after: Iterable[Workload]) -> None:
    """Workloads that were as the first are now as the second."""
    difference = Counter(map(key, after))
    difference.subtract(map(key, before))
    transaction.many(
        COUNT,
        [
            dict(zip(COLUMNS, each, strict=True), lane=transaction.lane, workloads=workloads)
            for each, workloads in sorted(difference.items())
            if workloads
        ],
    )


def fold(transaction: Transaction, limit: int = 500) -> int:
    """Put the lanes of a few rows together, and leave out what there is none of; says how many rows there were."""
    rows = [dict(zip((*COLUMNS, "workloads"), row, strict=True)) for row in transaction.all(SPLIT, {"limit": limit})]
    transaction.many(REMOVE, rows)
    transaction.many(COUNT, [{**row, "lane": 0} for row in rows if row["workloads"]])
    return len(rows)
