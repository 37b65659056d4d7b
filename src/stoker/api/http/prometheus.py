"""Prometheus metrics of the server itself: requests, loops, exec sessions and the process."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from stoker import __version__
from stoker.concurrency.supervisor import LoopRegistry

disable_created_metrics()  # they double the number of series and nothing reads them
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _LoopCollector(Collector):
    """The background loops of the server and how often they were restarted."""

    def __init__(self, loops: LoopRegistry) -> None:
        self._registry = loops

    def collect(self) -> Iterable[Metric]:
        labels = ("loop", "cluster")
        up = GaugeMetricFamily("stoker_loop_up", "1 while a loop of this server runs.", labels=labels)
        restarts = CounterMetricFamily("stoker_loop_restarts", "Restarts of a loop after a failure.", labels=labels)
        for state in self._registry.list_states():
            up.add_metric((state.name, state.scope), float(state.is_running))
            restarts.add_metric((state.name, state.scope), state.restarts)
        return [up, restarts]


class ServerMetrics:
    """Each server has a registry of its own, so that two in one process do not share counters."""

    def __init__(self, loops: LoopRegistry | None = None) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("stoker_build", "The running version.", registry=self.registry).info({"version": __version__})
        labels = ("family", "method", "route", "status")
        self._requests = Counter(
            "stoker_http_requests", "HTTP requests by family, method, route and status.", labels, registry=self.registry
        )
        self._seconds = Histogram(
            "stoker_http_request_duration_seconds",
            "Time from the request head to the end of the response.",
            ("family", "method", "route"),
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_LoopCollector(loops or LoopRegistry()))
        self.in_flight = Gauge("stoker_http_requests_in_flight", "Requests in progress.", registry=self.registry)

        self.exec_sessions = Gauge(
            "stoker_exec_sessions", "Exec sessions that are open on this server.", registry=self.registry
        )
        self.exec_opened = Counter(
            "stoker_exec_sessions_opened", "Exec sessions that were opened.", registry=self.registry
        )
        self.exec_refused = Counter(
            "stoker_exec_sessions_refused", "Exec sessions that were rejected.", ("code",), registry=self.registry
        )

    def observe_request(self, family: str, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(family, method, route, str(status)).inc()
        self._seconds.labels(family, method, route).observe(seconds)

    def exposition(self, accept: str, fleet: str) -> tuple[bytes, str]:
        """The exposition with the metrics of the fleet first, and its content type."""
        if "application/openmetrics-text" in accept:
            return fleet.encode() + generate_openmetrics(self.registry), CONTENT_TYPE_LATEST
        return fleet.encode() + generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4
