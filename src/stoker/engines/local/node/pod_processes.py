"""Maps processes and loopback connections of this machine to pods.

The processes of a pod are all descendants of its shim and all members of its control groups. A connection is attributed
to the machine only if a process that holds it was found and no process of a pod holds it; otherwise its owner is
unknown.
"""

import contextlib
import ipaddress
import os
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from stoker.domain.access.peers import ProcessOwner, SocketAddress
from stoker.engines.local.isolation import cgroups
from stoker.engines.local.shim.process_tree import descendants, read_parents

_PROC = Path("/proc")
_SOCKET_TABLES = {4: "net/tcp", 6: "net/tcp6"}


class PodRoot(Struct, frozen=True):
    """Where the processes of a pod are found; a shim pid of 0 is not known yet."""

    shim_pid: int
    cgroup_dirs: tuple[str, ...]


class SocketEntry(Struct, frozen=True):
    """A TCP socket as the kernel lists it."""

    uid: int
    inode: int


def owner_of_process(pid: int, pods: Collection[PodRoot]) -> ProcessOwner:
    if not pods:
        return ProcessOwner.MACHINE
    running = read_parents()
    if pid not in running:
        return ProcessOwner.UNKNOWN
    return ProcessOwner.POD if pid in _pod_pids(pods, running) else ProcessOwner.MACHINE


def owner_of_connection(far: SocketAddress, near: SocketAddress, pods: Collection[PodRoot]) -> ProcessOwner:
    """The owner of the far end. Without pods it can only be the machine."""
    if not pods:
        return ProcessOwner.MACHINE
    entry = find_socket(far, near)
    if entry is None:
        return ProcessOwner.UNKNOWN
    if os.geteuid() not in {0, entry.uid}:
        return ProcessOwner.MACHINE  # pods of a server that is not root all run as its own user
    running = read_parents()
    inside = _pod_pids(pods, running)
    if any(_has_socket(pid, entry.inode) for pid in inside):
        return ProcessOwner.POD
    others = sorted(running.keys() - inside, reverse=True)  # newest first: a client has often just been started
    return ProcessOwner.MACHINE if any(_has_socket(pid, entry.inode) for pid in others) else ProcessOwner.UNKNOWN


def find_socket(far: SocketAddress, near: SocketAddress, proc: Path = _PROC) -> SocketEntry | None:
    """The socket at the far end of a connection: its local address is our remote one."""
    for (version, local), (_, remote) in zip(_kernel_addresses(far), _kernel_addresses(near), strict=True):
        with contextlib.suppress(OSError):
            for line in (proc / _SOCKET_TABLES[version]).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1] == local and fields[2] == remote and fields[9] != "0":
                    return SocketEntry(uid=int(fields[7]), inode=int(fields[9]))
    return None


def _kernel_addresses(end: SocketAddress) -> Iterator[tuple[int, str]]:
    """An address as the kernel's tables write it. An IPv4 address may belong to an IPv6 socket."""
    address = ipaddress.ip_address(end[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv4Address):
        yield 4, _hex_address(address.packed, end[1])
        address = ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed)
    yield 6, _hex_address(address.packed, end[1])


def _hex_address(packed: bytes, port: int) -> str:
    """Every four bytes are written as a number in the machine's byte order."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", packed)) + f":{port:04X}"


def _pod_pids(pods: Iterable[PodRoot], running: dict[int, int]) -> set[int]:
    found: set[int] = set()
    for pod in pods:
        if pod.shim_pid:
            found |= {pod.shim_pid, *descendants(running, pod.shim_pid)}
        found |= cgroups.list_pids(pod.cgroup_dirs)
    return found


def _has_socket(pid: int, inode: int) -> bool:
    """Whether a process has this socket open, as far as permissions allow to see."""
    wanted = f"socket:[{inode}]"
    with contextlib.suppress(OSError), os.scandir(_PROC / str(pid) / "fd") as held:
        for each in held:
            with contextlib.suppress(OSError):
                if os.readlink(each.path) == wanted:  # noqa: PTH115 - there are thousands
                    return True
    return False
