"""The typed SDK: `Stoker` for sync code, `AsyncStoker` for coroutines, with the same methods.

Every failure is a `StokerError` with the server's message; `Unreachable` means that no server answered.
"""

from stoker.client.sdk import AsyncStoker, Stoker
from stoker.client.transport.request_flow import Unreachable
from stoker.client.transport.server_address import DEFAULT_SERVER
from stoker.domain.errors import ErrorCode, StokerError

__all__ = ["DEFAULT_SERVER", "AsyncStoker", "ErrorCode", "Stoker", "StokerError", "Unreachable"]
