"""Named sequences: short ids that grow, and progress marks; the same on both databases."""

from stoker.store.db.base import Transaction

ADVANCE = """
INSERT INTO sequence (name, value)
VALUES (:name, :count)
ON CONFLICT (name) DO UPDATE SET value = sequence.value + :count
RETURNING value
"""
CURRENT_VALUE = "SELECT value FROM sequence WHERE name = :name"
SET_VALUE = """
INSERT INTO sequence (name, value)
VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
DELETE_RANGE = "DELETE FROM sequence WHERE name >= :first AND name < :last"


def next_value(transaction: Transaction, name: str) -> int:
    """The next value of a sequence, starting at 1."""
    return next_values(transaction, name, 1)[0]


def next_values(transaction: Transaction, name: str, count: int) -> range:
    """The next `count` values of a sequence."""
    if not count:
        return range(0)
    row = transaction.fetch_one(ADVANCE, {"name": name, "count": count})
    if row is None:
        raise RuntimeError(f"sequence {name} returned no value")
    return range(row[0] - count + 1, row[0] + 1)


def current_value(transaction: Transaction, name: str) -> int:
    """The last value of a sequence; 0 if it was never used."""
    row = transaction.fetch_one(CURRENT_VALUE, {"name": name})
    return row[0] if row else 0


def set_mark(transaction: Transaction, name: str, value: int) -> None:
    """Set a sequence that records the progress of something."""
    transaction.execute(SET_VALUE, {"name": name, "value": value})


def delete_by_prefix(transaction: Transaction, prefix: str) -> None:
    """Delete the sequences whose names start with a prefix."""
    after = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    transaction.execute(DELETE_RANGE, {"first": prefix, "last": after})
