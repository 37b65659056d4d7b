"""The typed SDK: `Stoker` for ordinary code, `AsyncStoker` for coroutines, the same methods on both.

Every failure is a `StokerError` in the server's words; `Unreachable` is the one where no server answered.
"""

from stoker.client.address import DEFAULT_SERVER
from stoker.client.client import AsyncStoker, Stoker
from stoker.client.exchange import Unreachable
from stoker.domain.errors import ErrorCode, StokerError

__all__ = ["DEFAULT_SERVER", "AsyncStoker", "ErrorCode", "Stoker", "StokerError", "Unreachable"]
