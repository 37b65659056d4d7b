"""This machine beside its GPUs: its RDMA ports, the file system of the data dir, and what its pods take."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from stoker.domain.clock import Clock
from stoker.domain.readings import Readings, Volume, no_gpus
from stoker.telemetry.aside import Aside
from stoker.telemetry.processes import Meter
from stoker.telemetry.rdma import Ports

NAME = "host"


def host(
    node: str, clock: Clock, data_dir: Path, pod_roots: Callable[[], Mapping[str, int]], root: Path = Path("/")
) -> Aside:
    """`pod_roots` gives the process above each running pod, and is called from a thread."""
    ports, meter = Ports(node, root), Meter()

    def read() -> Readings:
        beside = no_gpus(clock.now(), (node,), meter.read(pod_roots()))
        return structs.replace(beside, rdma=ports.read(), volumes=(volume(data_dir),))

    return Aside(NAME, read)


def volume(folder: Path) -> Volume:
    """The file system that holds a folder, by the place where it is mounted."""
    found = os.statvfs(folder)
    top = folder.resolve()
    while not top.is_mount():
        top = top.parent
    return Volume(str(top), found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize)
