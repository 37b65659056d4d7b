"""Answers that were given once to a request that may come again."""

from stoker.store.base import Transaction

FIND = """
SELECT request_sha256, answer
FROM idempotency
WHERE user_id = :user_id
  AND key_sha256 = :key_sha256
  AND created_at > :since
"""
ADD = """
INSERT INTO idempotency (user_id, key_sha256, request_sha256, answer, created_at)
VALUES (:user_id, :key_sha256, :request_sha256, :answer, :created_at)
ON CONFLICT (user_id, key_sha256) DO UPDATE
SET request_sha256 = excluded.request_sha256, answer = excluded.answer, created_at = excluded.created_at
"""


def find(transaction: Transaction, user_id: str, key_sha256: str, since: int) -> tuple[str, str] | None:
    """What was asked under this key, and what was answered."""
    row = transaction.one(FIND, {"user_id": user_id, "key_sha256": key_sha256, "since": since})
    return (row[0], row[1]) if row else None


def add(
    transaction: Transaction, user_id: str, key_sha256: str, request_sha256: str, answer: str, created_at: int
) -> None:
    transaction.run(
        ADD,
        {
            "user_id": user_id,
            "key_sha256": key_sha256,
            "request_sha256": request_sha256,
            "answer": answer,
            "created_at": created_at,
        },
    )
