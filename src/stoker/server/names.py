"""What the names of hosts stand for, as this machine sees it."""

import asyncio
import socket


async def resolve(host: str, port: int) -> list[str]:
    """Every address of a host, the one to try first in front; OSError when it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label of more than 63 characters
        raise OSError(str(error)) from error
    return [str(address[0]) for *_, address in found]
