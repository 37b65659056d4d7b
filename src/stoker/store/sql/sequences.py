"""Small numbers that only grow: ids that people read, the same on both databases."""

from stoker.store.base import Transaction

NEXT = """
INSERT INTO counter (name, value)
VALUES (:name, :count)
ON CONFLICT (name) DO UPDATE SET value = counter.value + :count
RETURNING value
"""
VALUE = "SELECT value FROM counter WHERE name = :name"
PUT = """
INSERT INTO counter (name, value)
VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def advance(transaction: Transaction, name: str) -> int:
    """The next number of this counter, from 1."""
    return advance_by(transaction, name, 1)[0]


def advance_by(transaction: Transaction, name: str, count: int) -> range:
    """The next numbers of this counter."""
    if not count:
        return range(0)
    row = transaction.one(NEXT, {"name": name, "count": count})
    if row is None:
        raise RuntimeError(f"counter {name} gave no value")
    return range(row[0] - count + 1, row[0] + 1)


def value(transaction: Transaction, name: str) -> int:
    """Where this counter stands; 0 before it was ever used."""
    row = transaction.one(VALUE, {"name": name})
    return row[0] if row else 0


def put(transaction: Transaction, name: str, number: int) -> None:
    """Set a counter that is a mark: how far something has come."""
    transaction.run(PUT, {"name": name, "value": number})
