"""Where the readings of this machine would come from, tried once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from stoker.domain.clock import SystemClock
from stoker.domain.errors import StokerError
from stoker.domain.node import Node
from stoker.domain.readings import Readings, Source
from stoker.domain.settings import Settings
from stoker.engines.local import devices
from stoker.engines.local.machine import this_machine
from stoker.server.checks.finding import Finding, broken, ok, warning
from stoker.server.sources import driver_source, prometheus_source
from stoker.telemetry.host import host

NAME = "readings"


def readings(settings: Settings) -> Iterator[Finding]:
    """Of the GPUs, and of the machine beside them."""
    found = devices.found() if settings.gpus < 0 else devices.pretend(settings.gpus)
    node = this_machine("", found)
    yield _of_gpus(settings, node)
    yield _of_machine(settings, node)


def _of_gpus(settings: Settings, node: Node) -> Finding:
    source = prometheus_source(settings, node, SystemClock()) or driver_source(node, SystemClock())
    if source is None:
        return _no_source(node)
    try:
        read = asyncio.run(_once(source))
    except StokerError as error:
        return broken(NAME, error.message, error.hint)
    message = f"The source {source.name} reads {len(read.device)} GPUs of this machine."
    if len(read.device) < len(node.devices):
        advice = "Check prometheus_prefix and prometheus_node_label." if settings.prometheus_url else "Look at dmesg."
        return warning(NAME, f"{message[:-1]}, which has {len(node.devices)}.", advice)
    if read.faults:
        fault = read.faults[0]
        return warning(NAME, f"{message} GPU {fault.device}: {fault.message}", "")
    return ok(NAME, message)


def _no_source(node: Node) -> Finding:
    if not node.devices:
        return ok(NAME, "This machine has no GPUs to read.")
    if node.devices[0].pretend:
        return ok(NAME, f"The {len(node.devices)} GPUs are pretended (gpus): there is nothing to read.")
    return warning(NAME, "Nothing reads the GPUs: pynvml is missing.", "pip install 'stoker[nvidia]'")


def _of_machine(settings: Settings, node: Node) -> Finding:
    folder = Path(settings.data_dir)
    while not folder.exists():
        folder = folder.parent
    try:
        read = asyncio.run(_once(host(node.name, SystemClock(), folder, dict)))
    except (StokerError, OSError) as error:
        return broken(NAME, f"This machine cannot be read: {error}", "")
    ports = sum(each.ports for each in read.rdma)
    (volume,) = read.volumes
    return ok(NAME, f"The source host reads {ports} RDMA ports, the file system {volume.name}, and what pods take.")


async def _once(source: Source) -> Readings:
    try:
        return await source.readings()
    finally:
        await source.close()
