"""What the API itself does, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.process_collector import ProcessCollector

from stoker import __version__

disable_created_metrics()  # a second series for each counter, that nothing reads
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry per server, so that two servers in one process do not share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("stoker_build", "The version that runs.", registry=self.registry).info({"version": __version__})
        labels = ("family", "method", "route", "status")
        self._requests = Counter("stoker_http_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "stoker_http_request_duration_seconds",
            "Time from the head of a request to the end of its answer.",
            ("family", "method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge("stoker_http_requests_in_flight", "Requests under way.", registry=self.registry)

    def answered(self, family: str, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(family, method, route, str(status)).inc()
        self._seconds.labels(family, method, route).observe(seconds)

    def exposition(self, accept: str, fleet: str) -> tuple[bytes, str]:
        """The text Prometheus reads, what is known of the fleet first, and its content type."""
        if "application/openmetrics-text" in accept:
            return fleet.encode() + generate_openmetrics(self.registry), CONTENT_TYPE_LATEST
        return fleet.encode() + generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4
