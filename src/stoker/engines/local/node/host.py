"""This machine as a node."""

import os
import socket

from stoker.domain.node import Device, Node
from stoker.domain.resources import MILLI


def this_machine(name: str, devices: tuple[Device, ...]) -> Node:
    """The node that pods run on: all of its processors that we may use, and its memory."""
    return Node(
        name=name or host_name(),
        cpu_milli=len(os.sched_getaffinity(0)) * MILLI,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        devices=devices,
        address="127.0.0.1",
    )


def host_name() -> str:
    return socket.gethostname().lower() or "localhost"
