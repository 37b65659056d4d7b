"""Where the readings of the local cluster come from, and their history, as far as settings and this machine say."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.domain.node import Node
from stoker.domain.readings import Source
from stoker.domain.series import Series
from stoker.domain.settings import Settings
from stoker.engines.environment import AMD
from stoker.engines.local.engine import LocalEngine
from stoker.store.base import Store
from stoker.telemetry.amd import amd
from stoker.telemetry.chosen import ChosenSeries
from stoker.telemetry.exporters import Names
from stoker.telemetry.host import host
from stoker.telemetry.joined import Joined
from stoker.telemetry.nvml import nvml
from stoker.telemetry.prometheus import Prometheus
from stoker.telemetry.prometheus_readings import PrometheusSource
from stoker.telemetry.prometheus_series import PrometheusSeries
from stoker.telemetry.stored import StoredSeries


def local_source(settings: Settings, engine: LocalEngine, data_dir: Path, clock: Clock) -> Source:
    """GPUs from Prometheus where there is one, else from their driver; everything else from this machine."""
    node = engine.node
    beside = host(node.name, clock, data_dir, engine.pod_roots)
    first = prometheus_source(settings, node, clock) or driver_source(node, clock)
    return beside if first is None else Joined(first, beside)


def driver_source(node: Node, clock: Clock) -> Source | None:
    """None without GPUs; those that are pretended have no driver."""
    real = [device for device in node.devices if not device.pretend]
    if not real:
        return None
    return amd(node.name, clock) if real[0].model.startswith(AMD) else nvml(node.name, clock)


def prometheus_source(settings: Settings, node: Node, clock: Clock) -> Source | None:
    if not settings.prometheus_url:
        return None
    return PrometheusSource(prometheus_of(settings), names_of(settings), lambda: (node.name,), clock)


@asynccontextmanager
async def series_of(settings: Settings, store: Store) -> AsyncIterator[Series]:
    """Ranges of readings, wherever they are kept."""
    stored = StoredSeries(store)
    if not settings.prometheus_url:
        yield stored
        return
    remote = PrometheusSeries(prometheus_of(settings), names_of(settings))
    try:
        yield ChosenSeries(store, stored, remote)
    finally:
        await remote.close()


def prometheus_of(settings: Settings) -> Prometheus:
    return Prometheus(settings.prometheus_url, settings.prometheus_token_file)


def names_of(settings: Settings) -> Names:
    return Names(settings.prometheus_prefix, settings.prometheus_node_label)
