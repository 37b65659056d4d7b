"""Checks the collectors of this machine by reading each once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from stoker.domain.clock import SystemClock
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.cluster.samples import Collector, GpuSamples
from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import Settings
from stoker.engines import gpu_devices
from stoker.engines.local.node.host import describe_node
from stoker.server.collectors import driver_collector, prometheus_collector
from stoker.telemetry.collectors.host import build_host_collector

CHECK_NAME = "readings"


def check_collectors(settings: Settings) -> Iterator[Finding]:
    """Check the collectors of the GPUs and of the host."""
    found = gpu_devices.detect() if settings.gpus < 0 else gpu_devices.pretend(settings.gpus)
    node = describe_node("", found)
    yield _check_gpu_collector(settings, node)
    yield _check_host_collector(settings, node)


def _check_gpu_collector(settings: Settings, node: Node) -> Finding:
    clock = SystemClock()
    source = prometheus_collector(settings, lambda: (node.name,), clock) or driver_collector(settings, node, clock)
    if source is None:
        return _no_collector(node)
    try:
        read = asyncio.run(_collect_once(source))
    except StokerError as error:
        return broken(CHECK_NAME, error.message, error.hint)
    message = f"The source {source.name} reads {humanize_count(len(read.device), 'GPU')} of this machine."
    if len(read.device) < len(node.devices):
        advice = "Check prometheus_prefix and prometheus_node_label." if settings.prometheus_url else "Look at dmesg."
        return warning(CHECK_NAME, f"{message[:-1]}, which has {len(node.devices)}.", advice)
    if read.faults:
        fault = read.faults[0]
        return warning(CHECK_NAME, f"{message} GPU {fault.device}: {fault.message}", "")
    return ok(CHECK_NAME, message)


def _no_collector(node: Node) -> Finding:
    if not node.devices:
        return ok(CHECK_NAME, "This machine has no GPUs to read.")
    if node.devices[0].pretend:
        return ok(
            CHECK_NAME,
            f"The {humanize_count(len(node.devices), 'GPU is', 'GPUs are')} pretended (gpus): "
            "there is nothing to read.",
        )
    return warning(
        CHECK_NAME, "Nothing reads the GPUs: the kernel's driver (KFD) shows none any more.", "Look at dmesg."
    )


def _check_host_collector(settings: Settings, node: Node) -> Finding:
    folder = Path(settings.data_dir)
    while not folder.exists():
        folder = folder.parent
    try:
        read = asyncio.run(_collect_once(build_host_collector(node.name, SystemClock(), folder, dict)))
    except (StokerError, OSError) as error:
        return broken(CHECK_NAME, f"This machine cannot be read: {error}", "")
    ports = sum(each.ports for each in read.rdma)
    (volume,) = read.volumes
    return ok(
        CHECK_NAME, f"The source host reads {ports} RDMA ports, the file system {volume.name}, and what pods take."
    )


async def _collect_once(source: Collector) -> GpuSamples:
    try:
        return await source.collect()
    finally:
        await source.close()
