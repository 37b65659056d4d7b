"""Persistence: the same SQL statements on SQLite and PostgreSQL, one module per aggregate.

`open_store` opens the database and migrates its schema.
"""

from stoker.store.db.factory import open_store

__all__ = ["open_store"]
