"""Admin keys imported from data dirs. A key is imported at most once, so a revoked key stays revoked."""

from stoker.store.db.base import Transaction

CLAIM = """
INSERT INTO admin_key (sha256, imported_at)
VALUES (:sha256, :imported_at)
ON CONFLICT (sha256) DO NOTHING
RETURNING sha256
"""


def claim(transaction: Transaction, sha256: str, at: int) -> bool:
    """Record the import of a key; False if it was imported before."""
    return transaction.fetch_one(CLAIM, {"sha256": sha256, "imported_at": at}) is not None
