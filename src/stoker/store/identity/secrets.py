"""Secrets of the installation, shared by every server on the same database."""

from stoker.store.db.base import Transaction

FIND = """
SELECT value
FROM secret
WHERE name = :name
"""
ADD = """
INSERT INTO secret (name, value, created_at)
VALUES (:name, :value, :created_at)
"""


def get_or_add(transaction: Transaction, name: str, candidate: str, at: int) -> str:
    """The secret of this name; the candidate is stored if there is none."""
    row = transaction.fetch_one(FIND, {"name": name})
    if row is not None:
        return row[0]
    transaction.execute(ADD, {"name": name, "value": candidate, "created_at": at})
    return candidate
