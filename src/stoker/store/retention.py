"""Deletion of expired rows, in small batches.

The rows of a closed hour or day lie in several tables and are deleted in many transactions. Readers start at
`closed_hours.retained_from`, which moves by whole days before the first row is deleted, so no reader sees part of a
day.
"""

from stoker.store.db.base import Transaction

USAGE_TABLE_KEYS = {
    "ledger": ("hour_at", "cluster_id, hour_at, workload_uid, model"),
    "workload_hour": ("hour_at", "cluster_id, hour_at, uid"),
    "dimension_hour": ("hour_at", "cluster_id, hour_at, kind, key, value"),
    "namespace_hour": ("hour_at", "cluster_id, hour_at, namespace"),
    "cluster_hour": ("hour_at", "cluster_id, hour_at"),
    "workload_day": ("day_at", "cluster_id, day_at, workload_uid, model, workspace_id"),
    "usage_day": ("day_at", "cluster_id, day_at, workspace_id, namespace, user_id, model"),
    "usage_hour": ("hour_at", "cluster_id, hour_at"),
}
"""The time column and the primary key of each table."""
USAGE_TABLES = (
    *USAGE_TABLE_KEYS,
    "workload_hour_count",
    "gpu_availability",
    "workload_request_history",
    "quota_history",
)
"""The tables with the retention period of usage."""
DELETE_OLD_USAGE = """
DELETE FROM {table}
WHERE {time} < :before
  AND ({key}) IN (
    SELECT {key}
    FROM {table}
    WHERE cluster_id IN (SELECT id FROM cluster)
      AND {time} < :before
    LIMIT :limit
)
"""  # uses the primary key; the first condition prunes PostgreSQL's monthly partitions
DELETE_EXPIRED = {
    **{
        table: DELETE_OLD_USAGE.format(table=table, time=time, key=key)
        for table, (time, key) in USAGE_TABLE_KEYS.items()
    },
    "workload_hour_count": """
DELETE FROM workload_hour_count
WHERE (cluster_id, namespace, kind, hour_at) IN (
    SELECT cluster_id, namespace, kind, hour_at
    FROM workload_hour_count
    WHERE hour_at < :before
    LIMIT :limit
)
""",
    "gpu_availability": """
DELETE FROM gpu_availability
WHERE (cluster_id, gpu, state, from_at) IN (
    SELECT cluster_id, gpu, state, from_at
    FROM gpu_availability
    WHERE cluster_id IN (SELECT id FROM cluster)
      AND to_at < :before
    LIMIT :limit
)
""",
    "workload_request_history": """
DELETE FROM workload_request_history
WHERE (workload_uid, until_at) IN (
    SELECT workload_uid, until_at
    FROM workload_request_history
    WHERE until_at < :before
    LIMIT :limit
)
""",
    "quota_history": """
DELETE FROM quota_history
WHERE (cluster_id, namespace, until_at) IN (
    SELECT cluster_id, namespace, until_at
    FROM quota_history
    WHERE until_at < :before
    LIMIT :limit
)
""",
    "allocation_snapshot": """
DELETE FROM allocation_snapshot
WHERE id IN (SELECT id FROM allocation_snapshot WHERE at < :before LIMIT :limit)
""",
    "device_index": """
DELETE FROM device_index
WHERE id IN (
    SELECT id
    FROM device_index
    WHERE created_at < :before
      AND id NOT IN (SELECT device_index_id FROM sample_tick)
      AND id NOT IN (SELECT device_index_id FROM sample_block)
    LIMIT :limit
)
""",
    "session": """
DELETE FROM session
WHERE id IN (SELECT id FROM session WHERE expires_at < :before LIMIT :limit)
""",
    "login_attempt": """
DELETE FROM login_attempt
WHERE id IN (SELECT id FROM login_attempt WHERE at < :before LIMIT :limit)
""",
    "audit_log": """
DELETE FROM audit_log
WHERE id IN (SELECT id FROM audit_log WHERE at < :before LIMIT :limit)
""",
    "log_chunk": """
DELETE FROM log_chunk
WHERE (pod_uid, number) IN (
    SELECT pod_uid, number
    FROM log_chunk
    WHERE last_at < :before
    LIMIT :limit
)
""",
    "training_chunk": """
DELETE FROM training_chunk
WHERE (workload_uid, pod_uid, number) IN (
    SELECT workload_uid, pod_uid, number
    FROM training_chunk
    WHERE last_at < :before
    LIMIT :limit
)
""",
    "sample_chunk": """
DELETE FROM sample_chunk
WHERE (block_id, first_gpu) IN (
    SELECT block_id, first_gpu
    FROM sample_block
    JOIN sample_chunk ON block_id = id
    WHERE hour_at < :before
    LIMIT :limit
)
""",
    "sample_block": """
DELETE FROM sample_block
WHERE id IN (SELECT id FROM sample_block WHERE hour_at < :before LIMIT :limit)
""",
    "pod_sample_block": """
DELETE FROM pod_sample_block
WHERE (pod_uid, hour_at) IN (SELECT pod_uid, hour_at FROM pod_sample_block WHERE hour_at < :before LIMIT :limit)
""",
    "workload_event": """
DELETE FROM workload_event
WHERE seq IN (
    SELECT seq
    FROM (SELECT seq, at FROM workload_event ORDER BY seq LIMIT :limit) AS oldest
    WHERE at < :before
)
""",
    "webhook_delivery": """
DELETE FROM webhook_delivery
WHERE number IN (
    SELECT number
    FROM webhook_delivery
    WHERE state <> 'pending'
      AND at < :before
    LIMIT :limit
)
""",
    "idempotency_key": """
DELETE FROM idempotency_key
WHERE (user_id, key_sha256) IN (
    SELECT user_id, key_sha256
    FROM idempotency_key
    WHERE created_at < :before
    LIMIT :limit
)
""",
}


def purge(transaction: Transaction, table: str, before: int, limit: int = 500) -> int:
    """Delete up to `limit` rows from before a time; returns the number of deleted rows."""
    return transaction.execute(DELETE_EXPIRED[table], {"before": before, "limit": limit})
