"""Results stored by idempotency key, so that a repeated request gets the first answer."""

from stoker.store.db.base import Transaction

FIND = """
SELECT request_sha256, answer
FROM idempotency_key
WHERE user_id = :user_id
  AND key_sha256 = :key_sha256
  AND created_at > :since
"""
ADD = """
INSERT INTO idempotency_key (user_id, key_sha256, request_sha256, answer, created_at)
VALUES (:user_id, :key_sha256, :request_sha256, :answer, :created_at)
ON CONFLICT (user_id, key_sha256) DO UPDATE
SET request_sha256 = excluded.request_sha256, answer = excluded.answer, created_at = excluded.created_at
"""


def find(transaction: Transaction, user_id: str, key_sha256: str, since: int) -> tuple[str, str] | None:
    """The hash of the request sent with this key, and its answer."""
    row = transaction.fetch_one(FIND, {"user_id": user_id, "key_sha256": key_sha256, "since": since})
    return (row[0], row[1]) if row else None


def add(
    transaction: Transaction, user_id: str, key_sha256: str, request_sha256: str, answer: str, created_at: int
) -> None:
    transaction.execute(
        ADD,
        {
            "user_id": user_id,
            "key_sha256": key_sha256,
            "request_sha256": request_sha256,
            "answer": answer,
            "created_at": created_at,
        },
    )
