"""What the names of hosts stand for, as this machine sees it. A name whose server is silent holds up nobody: each is
looked up in a thread of its own that the process can end without, and there are only so many of them."""

import asyncio
import socket
from collections.abc import Callable

from stoker.telemetry.aside import in_thread

AT_ONCE = 64


class Names:
    def __init__(self, look_up: Callable[..., list[tuple]] = socket.getaddrinfo) -> None:
        self._look_up = look_up
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def resolve(self, host: str, port: int) -> list[str]:
        """Every address of a host, the one to try first in front; OSError when it has none."""
        await self._turns.acquire()
        answer = in_thread(lambda: self._look_up(host, port, type=socket.SOCK_STREAM), "names")
        answer.add_done_callback(lambda _: self._turns.release())
        try:
            found = await asyncio.shield(answer)  # who does not wait for it does not end it
        except UnicodeError as error:  # a label of more than 63 characters
            raise OSError(str(error)) from error
        return [str(address[0]) for *_, address in found]
