"""The collectors of clusters and the history of their samples, as far as settings and this machine allow."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from stoker.domain.clock import Clock
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.samples import Collector, GpuSamples, empty_samples
from stoker.domain.metrics.series import RangeBackend
from stoker.domain.settings.schema import Settings
from stoker.engines.docker.engine import DockerEngine
from stoker.engines.kinds import EngineContext
from stoker.engines.local.engine import LocalEngine
from stoker.engines.pod_env import AMD_MODEL_PREFIX
from stoker.engines.protocol import Engine
from stoker.engines.simulated import SimulatedEngine
from stoker.store.db.base import Store
from stoker.telemetry.collectors.amd_sysfs import build_amd_collector
from stoker.telemetry.collectors.composite import CompositeCollector
from stoker.telemetry.collectors.host import build_host_collector
from stoker.telemetry.collectors.nvml import build_nvml_collector
from stoker.telemetry.collectors.prometheus import PrometheusCollector
from stoker.telemetry.prometheus.client import PrometheusClient
from stoker.telemetry.prometheus.exporter_schemas import ExporterSchema
from stoker.telemetry.query.fallback import FallbackBackend
from stoker.telemetry.query.local import LocalBackend
from stoker.telemetry.query.prometheus import PrometheusBackend


def build_collector(engine: Engine, context: EngineContext) -> Collector:
    """The source of the samples of a cluster: its engine, if it samples by itself; else what this machine has."""
    if isinstance(engine, SimulatedEngine):
        return engine
    if isinstance(engine, LocalEngine):
        return local_collector(context.settings, engine, context.data_dir, context.clock)
    if isinstance(engine, DockerEngine):
        return docker_collector(context.settings, engine, context.clock)
    return NoSamplesCollector(context.clock)


class NoSamplesCollector:
    """The collector of a cluster whose hardware this server cannot sample."""

    name = "none"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def collect(self) -> GpuSamples:
        return empty_samples(self._clock.now())

    async def close(self) -> None:
        """Does nothing."""


def local_collector(settings: Settings, engine: LocalEngine, data_dir: Path, clock: Clock) -> Collector:
    """GPUs from Prometheus if it is configured, otherwise from their driver; everything else from this machine."""
    node = engine.node
    host = build_host_collector(node.name, clock, data_dir, engine.shim_pids)
    gpus = prometheus_collector(settings, lambda: (node.name,), clock) or driver_collector(settings, node, clock)
    return host if gpus is None else CompositeCollector(gpus, host)


def docker_collector(settings: Settings, engine: DockerEngine, clock: Clock) -> Collector:
    """The usage of pods from Docker; GPUs from Prometheus, or from their driver if they are in this machine."""
    usage = engine.usage_collector(clock)
    if (gpus := prometheus_collector(settings, lambda: _node_names(engine.node), clock)) is not None:
        return CompositeCollector(gpus, usage)
    if engine.config.is_local and engine.config.gpus is None:
        return CompositeCollector(NodeCollector(lambda: engine.node, settings, clock), usage)
    return usage


class NodeCollector:
    """The driver's samples of a node that is known only when its engine has answered."""

    def __init__(self, node: Callable[[], Node | None], settings: Settings, clock: Clock) -> None:
        self._node = node
        self._settings = settings
        self._clock = clock
        self._driver: Collector | None = None

    @property
    def name(self) -> str:
        return self._driver.name if self._driver else NoSamplesCollector.name

    async def collect(self) -> GpuSamples:
        if self._driver is None:
            if (node := self._node()) is None:
                return empty_samples(self._clock.now())
            self._driver = driver_collector(self._settings, node, self._clock) or NoSamplesCollector(self._clock)
        return await self._driver.collect()

    async def close(self) -> None:
        if self._driver is not None:
            await self._driver.close()


def _node_names(node: Node | None) -> tuple[str, ...]:
    return () if node is None else (node.name,)


def driver_collector(settings: Settings, node: Node, clock: Clock) -> Collector | None:
    """The collector of the GPU driver; None without GPUs. Pretend GPUs have no driver."""
    real = [device for device in node.devices if not device.pretend]
    if not real:
        return None
    threshold = settings.gpu_ecc_threshold
    if real[0].model.startswith(AMD_MODEL_PREFIX):
        return build_amd_collector(node.name, clock, ecc_threshold=threshold)
    return build_nvml_collector(node.name, clock, threshold)


def prometheus_collector(settings: Settings, nodes: Callable[[], Sequence[str]], clock: Clock) -> Collector | None:
    if not settings.prometheus_url:
        return None
    return PrometheusCollector(
        build_prometheus_client(settings),
        build_exporter_schema(settings),
        nodes,
        clock,
        settings.gpu_ecc_threshold,
    )


@asynccontextmanager
async def open_range_backend(settings: Settings, store: Store) -> AsyncIterator[RangeBackend]:
    """The range backend of the settings: the store, or Prometheus with the store as fallback."""
    stored = LocalBackend(store)
    if not settings.prometheus_url:
        yield stored
        return
    remote = PrometheusBackend(build_prometheus_client(settings), build_exporter_schema(settings))
    try:
        yield FallbackBackend(store, stored, remote)
    finally:
        await remote.close()


def build_prometheus_client(settings: Settings) -> PrometheusClient:
    return PrometheusClient(settings.prometheus_url, settings.prometheus_token_file)


def build_exporter_schema(settings: Settings) -> ExporterSchema:
    return ExporterSchema(settings.prometheus_prefix, settings.prometheus_node_label)
