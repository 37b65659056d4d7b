"""Failed logins, counted per subject (a user name or an address) to throttle further attempts."""

from stoker.store.db.base import Transaction

COUNT = """
SELECT COUNT(*), MIN(at)
FROM login_attempt
WHERE subject = :subject
  AND at > :since
"""
ADD = "INSERT INTO login_attempt (id, subject, at) VALUES (:id, :subject, :at)"
CLEAR = "DELETE FROM login_attempt WHERE subject = :subject"


def count(transaction: Transaction, subject: str, since: int) -> tuple[int, int]:
    """The number of failed logins of a subject since a time, and the time of the oldest of them."""
    row = transaction.fetch_one(COUNT, {"subject": subject, "since": since})
    return (row[0], row[1] or 0) if row else (0, 0)


def add(transaction: Transaction, attempt_id: str, subject: str, at: int) -> None:
    transaction.execute(ADD, {"id": attempt_id, "subject": subject, "at": at})


def clear(transaction: Transaction, subject: str) -> None:
    transaction.execute(CLEAR, {"subject": subject})
