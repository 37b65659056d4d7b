"""Ports for pods: below the range from which the kernel takes ports by itself, and below Kubernetes' node ports."""

import random
import socket
from collections.abc import Collection

from stoker.domain.errors import ErrorCode, StokerError

FIRST, LAST = 20_000, 29_999


def free_ports(count: int, taken: Collection[int] = (), chance: random.Random | None = None) -> list[int]:
    """Different ports on which nothing listens and that are not in `taken`."""
    ports = range(FIRST, LAST + 1)
    first = (chance or random.SystemRandom()).randrange(len(ports))
    found: list[int] = []
    for step in range(len(ports)):
        if len(found) == count:
            break
        port = ports[(first + step) % len(ports)]
        if port not in taken and is_free(port):
            found.append(port)
    if len(found) < count:
        raise StokerError(
            ErrorCode.BACKEND_DOWN,
            f"No port between {FIRST} and {LAST} is free on this machine.",
            hint="Stop workloads that have a service, or other programs that listen there.",
        )
    return found


def is_free(port: int) -> bool:
    """Whether something could listen here now."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as trial:
            if kind is socket.SOCK_STREAM:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError:
                return False
    return True
