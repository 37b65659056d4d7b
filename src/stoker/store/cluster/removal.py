"""Deletes a cluster with its workloads, samples, usage and workspaces.

Users, departments and the audit log do not belong to a cluster and stay.
"""

from stoker.store.db.base import Transaction

TABLES_BY_WORKLOAD = ("workload_event", "log_chunk", "workload_request_history", "training_chunk")
"""Tables with a column `workload_uid` that no foreign key deletes together with the workload."""
TABLES_BY_POD = ("pod_sample_block",)
TABLES_BY_CLUSTER = (
    "allocation",
    "cluster_hour",
    "dimension_hour",
    "gpu_availability",
    "idle_tracker",
    "lease",
    "ledger",
    "live_view",
    "namespace_hour",
    "node",
    "quota_history",
    "pod_sample_tick",
    "sample_block",
    "sample_stripe",
    "sample_tick",
    "device_index",
    "allocation_snapshot",
    "usage_day",
    "usage_hour",
    "workload_count",
    "workload_day",
    "workload_hour",
    "workload_hour_count",
    "workload_allocation",
    "workload",
    "workspace",
)
"""Tables with a column `cluster_id`, in an order that satisfies the foreign keys."""


def remove_cluster(transaction: Transaction, cluster_id: str) -> dict[str, int]:
    """Delete a cluster; returns the number of deleted rows by table."""
    params = {"cluster_id": cluster_id}
    workloads = "workload_uid IN (SELECT uid FROM workload WHERE cluster_id = :cluster_id)"
    pods = "pod_uid IN (SELECT uid FROM pod WHERE cluster_id = :cluster_id)"
    conditions = {
        **dict.fromkeys(TABLES_BY_WORKLOAD, workloads),
        **dict.fromkeys(TABLES_BY_POD, pods),
        **dict.fromkeys(TABLES_BY_CLUSTER, "cluster_id = :cluster_id"),
        "cluster": "id = :cluster_id",
    }
    return {
        table: transaction.execute(f"DELETE FROM {table} WHERE {where}", params) for table, where in conditions.items()
    }
