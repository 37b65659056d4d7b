"""Ports for pods, below the kernel's ephemeral range and below the node ports of Kubernetes."""

import random
import socket
from collections.abc import Collection, Iterable
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.pod_env import RENDEZVOUS_PORTS

FIRST_SERVICE_PORT, LAST_SERVICE_PORT = 20_000, 24_999
"""The ports of services; the rendezvous ports follow them."""
LOOPBACK = "127.0.0.1"
"""The address replicas should listen on: they are reached through their service."""
_LISTEN_STATE = "0A"
_TCP_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOOPBACK_ADDRESSES = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


def find_free_ports(count: int, taken: Collection[int] = (), chance: random.Random | None = None) -> list[int]:
    """Distinct ports on which nothing listens and that are not in `taken`."""
    ports = range(FIRST_SERVICE_PORT, LAST_SERVICE_PORT + 1)
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
            ErrorCode.UNAVAILABLE,
            f"No port between {FIRST_SERVICE_PORT} and {LAST_SERVICE_PORT} is free on this machine.",
            hint="Stop workloads that have a service, or other programs that listen there.",
        )
    return found


def find_rendezvous_port(proposed: int, taken: Collection[int]) -> int:
    """The proposed port, or the next one of the range on which nothing listens and that is not in `taken`."""
    ports = RENDEZVOUS_PORTS
    first = ports.index(proposed) if proposed in ports else 0
    for step in range(len(ports)):
        port = ports[(first + step) % len(ports)]
        if port not in taken and is_free(port):
            return port
    raise StokerError(
        ErrorCode.UNAVAILABLE,
        f"No port between {ports[0]} and {ports[-1]}, where ranks meet, is free on this machine.",
        hint="Stop workloads, or other programs that listen there.",
    )


def is_free(port: int) -> bool:
    """Whether a socket can be bound to this port now."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as trial:
            if kind is socket.SOCK_STREAM:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("", port))
            except OSError:
                return False
    return True


def is_exposed(port: int, tables: Iterable[str] | None = None) -> bool:
    """Whether something listens on this TCP port at an address other than loopback. `tables` are the kernel's socket
    tables."""
    shown = tables if tables is not None else (path.read_text() for path in _TCP_TABLES if path.exists())
    for table in shown:
        for line in table.splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            address, _, number = local.partition(":")
            if state == _LISTEN_STATE and int(number, 16) == port and address not in _LOOPBACK_ADDRESSES:
                return True
    return False


def host_name() -> str:
    """The name of this machine."""
    return socket.gethostname().lower() or "localhost"
