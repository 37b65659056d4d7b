"""Collects what a machine has beside GPUs: RDMA ports, the file system of the data directory, and the usage of pods."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from stoker.domain.clock import Clock
from stoker.domain.cluster.samples import GpuSamples, VolumeUsage, empty_samples
from stoker.telemetry.collectors.blocking import BlockingCollector
from stoker.telemetry.collectors.infiniband import InfinibandPorts
from stoker.telemetry.collectors.proc import ProcessTreeMeter

COLLECTOR_NAME = "host"


def build_host_collector(
    node: str, clock: Clock, data_dir: Path, pod_roots: Callable[[], Mapping[str, int]], root: Path = Path("/")
) -> BlockingCollector:
    """`pod_roots` returns the root process of each running pod; it is called from a thread."""
    ports, meter = InfinibandPorts(node, root), ProcessTreeMeter()

    def read() -> GpuSamples:
        samples = empty_samples(clock.now(), (node,), meter.read(pod_roots()))
        return structs.replace(samples, rdma=ports.read(), volumes=(read_volume(data_dir),))

    return BlockingCollector(COLLECTOR_NAME, read)


def read_volume(folder: Path) -> VolumeUsage:
    """The usage of the file system that holds a folder; its name is the mount point."""
    stats = os.statvfs(folder)
    mount = folder.resolve()
    while not mount.is_mount():
        mount = mount.parent
    return VolumeUsage(str(mount), stats.f_blocks * stats.f_frsize, (stats.f_blocks - stats.f_bfree) * stats.f_frsize)
