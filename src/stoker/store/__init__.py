"""What Stoker remembers: SQL on SQLite or PostgreSQL, the same statements on both.

`open_store` is the door; one module per aggregate holds its statements.
"""

from stoker.store.open import open_store

__all__ = ["open_store"]
