"""Describes this machine as a node."""

import os

from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import MILLI
from stoker.engines.proxy.ports import host_name


def describe_node(name: str, devices: tuple[Device, ...]) -> Node:
    """The node with the CPUs that this process may use, the memory and the devices."""
    return Node(
        name=name or host_name(),
        cpu_milli=len(os.sched_getaffinity(0)) * MILLI,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        devices=devices,
        address="127.0.0.1",
    )
