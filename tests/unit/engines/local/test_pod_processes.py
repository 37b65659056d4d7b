"""Whose a loopback connection is: found by the kernel's tables, over IPv4, IPv6 and both at once."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stoker.domain.access.peers import ProcessOwner, SocketAddress
from stoker.engines.local.node.pod_processes import (
    PodRoot,
    SocketEntry,
    find_socket,
    owner_of_connection,
    owner_of_process,
)

ELSEWHERE = PodRoot(shim_pid=2**22 + 1, cgroup_dirs=())
"""A pod of which nothing is left; the kernel gives no process such a number."""
WAYS = {
    "IPv4": (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
    "IPv6": (socket.AF_INET6, "::1", "::1"),
    "IPv4 to a socket of IPv6": (socket.AF_INET6, "::", "127.0.0.1"),
    "IPv4 from a socket of IPv6": (socket.AF_INET, "127.0.0.1", "::ffff:127.0.0.1"),
}


@contextmanager
def connected(way: str) -> Iterator[tuple[socket.socket, SocketAddress, SocketAddress]]:
    """The client's socket, and both ends as the server sees them."""
    family, host, target = WAYS[way]
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((host, 0))
        listening.listen()
        client = stack.enter_context(socket.create_connection((target, listening.getsockname()[1])))
        accepted, far = listening.accept()
        stack.enter_context(accepted)
        yield client, far[:2], accepted.getsockname()[:2]


@pytest.mark.parametrize("way", WAYS)
def test_the_far_end_is_found_however_it_is_spoken(way: str) -> None:
    with connected(way) as (client, far, near):
        inode = os.fstat(client.fileno()).st_ino
        assert find_socket(far, near) == SocketEntry(uid=os.geteuid(), inode=inode)
        assert owner_of_connection(far, near, [ELSEWHERE]) is ProcessOwner.MACHINE
        assert owner_of_connection(far, near, [ELSEWHERE, PodRoot(os.getpid(), ())]) is ProcessOwner.POD


def test_a_connection_that_nobody_holds_is_nobodys() -> None:
    with connected("IPv4") as (client, far, near):
        client.close()
        assert owner_of_connection(far, near, [ELSEWHERE]) is ProcessOwner.UNKNOWN
        assert owner_of_connection(far, near, []) is ProcessOwner.MACHINE


def test_a_process_in_the_control_group_of_a_pod_is_the_pods_wherever_its_parent_is(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    grouped = PodRoot(0, (str(tmp_path),))
    assert owner_of_process(os.getpid(), [grouped]) is ProcessOwner.POD
    with connected("IPv4") as (_, far, near):
        assert owner_of_connection(far, near, [grouped]) is ProcessOwner.POD


def test_a_process_is_of_the_pod_whose_shim_it_is_below() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert owner_of_process(child.pid, [PodRoot(os.getpid(), ())]) is ProcessOwner.POD
        assert owner_of_process(os.getpid(), [PodRoot(child.pid, ())]) is ProcessOwner.MACHINE
        child.kill()
    assert owner_of_process(child.pid, [ELSEWHERE]) is ProcessOwner.UNKNOWN
    assert owner_of_process(child.pid, []) is ProcessOwner.MACHINE
