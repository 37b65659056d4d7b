"""Resolves host names with this machine's resolver. A DNS server that does not answer blocks nobody: each lookup has a
daemon thread of its own, and the number of threads is limited."""

import asyncio
import socket
from collections.abc import Callable

from stoker.concurrency.daemon_thread import run_in_daemon_thread

MAX_CONCURRENT_LOOKUPS = 64


class Resolver:
    def __init__(self, look_up: Callable[..., list[tuple]] = socket.getaddrinfo) -> None:
        self._getaddrinfo = look_up
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_LOOKUPS)

    async def resolve(self, host: str, port: int) -> list[str]:
        """All addresses of a host, the preferred one first; OSError if it has none."""
        await self._semaphore.acquire()
        answer = run_in_daemon_thread(lambda: self._getaddrinfo(host, port, type=socket.SOCK_STREAM), "resolver")
        answer.add_done_callback(lambda _: self._semaphore.release())
        try:
            found = await asyncio.shield(answer)  # a caller that stops waiting does not cancel the lookup
        except UnicodeError as error:  # a label of more than 63 characters
            raise OSError(str(error)) from error
        return [str(address[0]) for *_, address in found]
