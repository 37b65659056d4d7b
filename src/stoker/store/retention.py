"""What is forgotten, and when."""

from stoker.store.base import Transaction

EXPIRED = {
    "session": """
DELETE FROM session
WHERE id IN (SELECT id FROM session WHERE expires_at < :before LIMIT :limit)
""",
    "login_attempt": """
DELETE FROM login_attempt
WHERE id IN (SELECT id FROM login_attempt WHERE at < :before LIMIT :limit)
""",
    "audit": """
DELETE FROM audit
WHERE id IN (SELECT id FROM audit WHERE at < :before LIMIT :limit)
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
WHERE (segment_id, first_gpu) IN (
    SELECT segment_id, first_gpu
    FROM sample_segment
    JOIN sample_chunk ON segment_id = id
    WHERE hour_at < :before
    LIMIT :limit
)
""",
    "sample_segment": """
DELETE FROM sample_segment
WHERE id IN (SELECT id FROM sample_segment WHERE hour_at < :before LIMIT :limit)
""",
    "pod_hour": """
DELETE FROM pod_hour
WHERE (pod_uid, hour_at) IN (SELECT pod_uid, hour_at FROM pod_hour WHERE hour_at < :before LIMIT :limit)
""",
    "change": """
DELETE FROM change
WHERE seq IN (
    SELECT seq
    FROM (SELECT seq, at FROM change ORDER BY seq LIMIT :limit) AS oldest
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
    "idempotency": """
DELETE FROM idempotency
WHERE (user_id, key_sha256) IN (
    SELECT user_id, key_sha256
    FROM idempotency
    WHERE created_at < :before
    LIMIT :limit
)
""",
}


def forget(transaction: Transaction, table: str, before: int, limit: int = 500) -> int:
    """Delete a few of the rows that are older than this; says how many went."""
    return transaction.run(EXPIRED[table], {"before": before, "limit": limit})
