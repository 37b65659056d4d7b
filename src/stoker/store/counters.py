"""Small numbers that only grow: ids that people read, the same on both databases."""

from stoker.store.base import Transaction

NEXT = """
INSERT INTO counter (name, value)
VALUES (:name, 1)
ON CONFLICT (name) DO UPDATE SET value = counter.value + 1
RETURNING value
"""


def advance(transaction: Transaction, name: str) -> int:
    """The next number of this counter, from 1."""
    row = transaction.one(NEXT, {"name": name})
    if row is None:
        raise RuntimeError(f"counter {name} gave no value")
    return row[0]
