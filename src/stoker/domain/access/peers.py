"""The process at the other end of a local connection, as reported by the kernel."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class SocketPeer(Struct, frozen=True):
    """The process that connected to the Unix socket, with its IDs at that time."""

    uid: int
    gid: int
    pid: int


class ProcessOwner(StrEnum):
    """The owner of a process on this machine."""

    MACHINE = "machine"
    POD = "pod"
    UNKNOWN = "unknown"


SocketAddress = tuple[str, int]
"""The address and the port of one end of a TCP connection."""


class ProcessOwnerResolver(Protocol):
    """Distinguishes processes of pods from other processes of this machine."""

    async def owner_of_connection(self, far: SocketAddress, near: SocketAddress) -> ProcessOwner:
        """The owner of the local process that opened a TCP connection."""
        ...

    async def owner_of_process(self, pid: int) -> ProcessOwner: ...
