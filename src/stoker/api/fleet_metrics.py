"""Prometheus metrics of the fleet and its workloads, in base units and with stable labels.

The text of the workloads is cached until a cluster publishes again.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import GpuConsumer
from stoker.domain.queries.fleet import sum_clusters
from stoker.services.fleet.live import ClusterLiveStatus
from stoker.services.fleet.queue_aggregates import WorkloadCounts

MEASURED_SOURCE = "measured"
SIMULATED_SOURCE = "simulated"

LabelledSample = tuple[str, float | None]
"""Rendered labels and a value; None is unknown and has no line."""


class MetricFamily(Struct, frozen=True):
    name: str
    help: str


NODES = MetricFamily("stoker_nodes", "Nodes by state; idle, partial and busy nodes are healthy.")
GPUS = MetricFamily("stoker_gpus", "All GPUs.")
SCHEDULABLE_GPUS = MetricFamily("stoker_gpus_schedulable", "GPUs that can be allocated, whether they are or not.")
UNSCHEDULABLE_GPUS = MetricFamily("stoker_gpus_unschedulable", "GPUs that get no new pods, each with one reason.")
ALLOCATED_GPUS = MetricFamily("stoker_gpu_allocated", "GPUs that are allocated to workloads.")
UTILIZATION = MetricFamily("stoker_cluster_gpu_utilization_ratio", "Mean utilization of the allocated GPUs.")
POWER = MetricFamily("stoker_cluster_gpu_power_watts", "Power of all GPUs that have a sample.")
STORAGE = MetricFamily("stoker_cluster_storage_size_bytes", "Size of the monitored file systems.")
STORAGE_USED = MetricFamily("stoker_cluster_storage_used_bytes", "Used space of the monitored file systems.")
RDMA_PORTS = MetricFamily("stoker_cluster_rdma_ports", "RDMA ports.")
RDMA_RECEIVED = MetricFamily(
    "stoker_cluster_rdma_received_bytes_per_second", "Receive rate of all RDMA ports, from the last sample."
)
RDMA_SENT = MetricFamily(
    "stoker_cluster_rdma_sent_bytes_per_second", "Send rate of all RDMA ports, from the last sample."
)
SOURCE_STALE = MetricFamily("stoker_source_stale", "1 while the samples of a cluster are stale.")
SOURCE_AGE = MetricFamily("stoker_source_age_seconds", "Age of the last sample of a cluster.")
WORKLOADS = MetricFamily("stoker_workloads", "Workloads that are not deleted.")
PENDING_WORKLOADS = MetricFamily("stoker_queue_pending_workloads", "Pending workloads.")
PENDING_GPUS = MetricFamily("stoker_queue_pending_gpus", "GPUs that pending workloads request.")
WORKLOAD_GPUS = MetricFamily("stoker_workload_gpus", "GPUs that are allocated to a workload.")
WORKLOAD_UTILIZATION = MetricFamily("stoker_workload_gpu_utilization_ratio", "Mean utilization of a workload's GPUs.")
WORKLOAD_MEMORY = MetricFamily(
    "stoker_workload_gpu_memory_ratio", "Fraction of the memory of its GPUs that a workload uses."
)
WORKLOAD_POWER = MetricFamily("stoker_workload_gpu_power_watts", "Power of a workload's GPUs.")


class FleetExposition:
    """Renders the metrics and caches the text of the workloads."""

    def __init__(self) -> None:
        self._cached: tuple[object, str] = (None, "")

    def render(
        self,
        clusters: Sequence[ClusterLiveStatus],
        counts: WorkloadCounts,
        consumers: Sequence[tuple[Cluster, GpuConsumer]],
    ) -> str:
        cached_consumers, workloads = self._cached
        if consumers is not cached_consumers:  # a new list is made when a cluster publishes
            workloads = render_workloads(consumers)
            self._cached = (consumers, workloads)
        return (
            render_clusters(clusters) + render_workload_counts([each.cluster for each in clusters], counts) + workloads
        )


def render_clusters(clusters: Sequence[ClusterLiveStatus]) -> str:
    """The metrics that clusters have published."""
    seen = [(cluster_labels(each.cluster), each.overview) for each in clusters if each.overview is not None]
    states = [
        (labels, state, nodes)
        for labels, now in seen
        for state, nodes in (
            ("idle", now.idle_nodes),
            ("partial", now.partial_nodes),
            ("busy", now.busy_nodes),
            ("faulty", now.faulty_nodes),
        )
    ]
    ports = [
        (labels, state, count)
        for labels, now in seen
        for state, count in (("active", now.rdma_active_ports), ("down", now.rdma_ports - now.rdma_active_ports))
    ]
    withheld = [
        (labels, reason, gpus)
        for labels, now in seen
        for reason, gpus in (
            ("faulty", now.faulty_gpus),
            ("not_ready", now.not_ready_gpus),
            ("cordoned", now.cordoned_gpus),
        )
    ]
    return "".join(
        (
            render_family(NODES, ((f'{labels},state="{state}"', nodes) for labels, state, nodes in states)),
            render_family(GPUS, ((labels, now.gpus) for labels, now in seen)),
            render_family(SCHEDULABLE_GPUS, ((labels, sum_clusters([now]).schedulable_gpus) for labels, now in seen)),
            render_family(
                UNSCHEDULABLE_GPUS, ((f'{labels},reason="{reason}"', gpus) for labels, reason, gpus in withheld)
            ),
            render_family(ALLOCATED_GPUS, ((labels, now.allocated_milli / 1000) for labels, now in seen)),
            render_family(
                UTILIZATION, ((labels, _mean(now.utilization_sum, now.measured_gpus)) for labels, now in seen)
            ),
            render_family(POWER, ((labels, now.power_watts) for labels, now in seen)),
            render_family(STORAGE, ((labels, now.storage_total_bytes) for labels, now in seen)),
            render_family(STORAGE_USED, ((labels, now.storage_used_bytes) for labels, now in seen)),
            render_family(RDMA_PORTS, ((f'{labels},state="{state}"', count) for labels, state, count in ports)),
            render_family(
                RDMA_RECEIVED, ((labels, now.rdma_received_bytes_per_second) for labels, now in seen if now.rdma_ports)
            ),
            render_family(
                RDMA_SENT, ((labels, now.rdma_sent_bytes_per_second) for labels, now in seen if now.rdma_ports)
            ),
            render_family(
                SOURCE_STALE, ((cluster_labels(each.cluster), float(each.source.stale)) for each in clusters)
            ),
            render_family(SOURCE_AGE, ((cluster_labels(each.cluster), _age_seconds(each)) for each in clusters)),
        )
    )


def render_workload_counts(clusters: Iterable[Cluster], counts: WorkloadCounts) -> str:
    """Counts of workloads by phase, and of pending ones by workspace."""
    labels = {cluster.id: cluster_labels(cluster) for cluster in clusters}
    phases = [
        (f"{labels[each.cluster_id]},{render_labels(phase=each.phase)}", each)
        for each in counts.phases
        if each.cluster_id in labels
    ]
    queues = [
        (f"{labels[each.cluster_id]},{render_labels(workspace=each.workspace)}", each)
        for each in counts.queues
        if each.cluster_id in labels
    ]
    return "".join(
        (
            render_family(WORKLOADS, ((place, each.workloads) for place, each in phases)),
            render_family(PENDING_WORKLOADS, ((place, each.workloads) for place, each in queues)),
            render_family(PENDING_GPUS, ((place, each.gpu_milli / 1000) for place, each in queues)),
        )
    )


def render_workloads(consumers: Sequence[tuple[Cluster, GpuConsumer]]) -> str:
    """The metrics of all workloads with allocated GPUs."""
    labelled = [
        (
            f"{cluster_labels(cluster)},"
            f"{render_labels(namespace=consumer.namespace, workload=consumer.slug, kind=consumer.kind)}",
            consumer,
        )
        for cluster, consumer in consumers
    ]
    return "".join(
        (
            render_family(WORKLOAD_GPUS, ((labels, each.gpu_milli / 1000) for labels, each in labelled)),
            render_family(WORKLOAD_UTILIZATION, ((labels, each.utilization) for labels, each in labelled)),
            render_family(WORKLOAD_MEMORY, ((labels, each.memory) for labels, each in labelled)),
            render_family(WORKLOAD_POWER, ((labels, each.power_watts) for labels, each in labelled)),
        )
    )


def cluster_labels(cluster: Cluster) -> str:
    return render_labels(cluster=cluster.name, source=SIMULATED_SOURCE if cluster.is_simulated else MEASURED_SOURCE)


def render_family(about: MetricFamily, samples: Iterable[LabelledSample]) -> str:
    """The lines of one metric family, the same in the text format and in OpenMetrics; empty without values."""
    lines = [f"{about.name}{{{labels}}} {value}\n" for labels, value in samples if value is not None]
    return f"# HELP {about.name} {about.help}\n# TYPE {about.name} gauge\n{''.join(lines)}" if lines else ""


def render_labels(**labels: str) -> str:
    return ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items())


def _escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None


def _age_seconds(now: ClusterLiveStatus) -> float | None:
    """None if there was never a sample."""
    return None if now.age_ms is None or now.source.read_at is None else now.age_ms / 1000
