"""The fleet and its workloads as Prometheus reads them: base units, stable labels, one family after the other.

Workloads are many and change only when a cluster publishes, so their text is made once for each time.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from stoker.domain.identity import SIMULATED, Cluster
from stoker.domain.live import Consumer
from stoker.services.live import ClusterNow
from stoker.services.totals import Counted

MEASURED = "measured"

Sample = tuple[str, float | None]
"""Labels as they are written, and a value; one of None is not known, and has no line."""


class Family(Struct, frozen=True):
    name: str
    help: str


NODES = Family("stoker_nodes", "Nodes: idle, partial and busy ones are healthy.")
GPUS = Family("stoker_gpus", "GPUs of healthy nodes.")
ALLOCATED = Family("stoker_gpu_allocated", "GPUs of healthy nodes that workloads hold.")
UTILIZATION = Family("stoker_cluster_gpu_utilization_ratio", "Mean utilization of the GPUs that workloads hold.")
POWER = Family("stoker_cluster_gpu_power_watts", "Power of all GPUs that have a reading.")
STORAGE = Family("stoker_cluster_storage_size_bytes", "Size of the file systems that are watched.")
STORAGE_USED = Family("stoker_cluster_storage_used_bytes", "What is used of the file systems that are watched.")
RDMA_PORTS = Family("stoker_cluster_rdma_ports", "RDMA ports.")
STALE = Family("stoker_source_stale", "1 while the readings of a cluster are older than they should be.")
AGE = Family("stoker_source_age_seconds", "How long ago a cluster was last read.")
WORKLOADS = Family("stoker_workloads", "Workloads that are not deleted.")
PENDING = Family("stoker_queue_pending_workloads", "Workloads that wait.")
PENDING_GPUS = Family("stoker_queue_pending_gpus", "GPUs that the workloads that wait ask for.")
WORKLOAD_GPUS = Family("stoker_workload_gpus", "GPUs that a workload holds.")
WORKLOAD_UTILIZATION = Family("stoker_workload_gpu_utilization_ratio", "Mean utilization of a workload's GPUs.")
WORKLOAD_MEMORY = Family("stoker_workload_gpu_memory_ratio", "Part of its GPUs' memory that a workload uses.")
WORKLOAD_POWER = Family("stoker_workload_gpu_power_watts", "Power of a workload's GPUs.")


class FleetText:
    """Keeps the text of the workloads while they stay the same."""

    def __init__(self) -> None:
        self._written: tuple[object, str] = (None, "")

    def text(
        self, clusters: Sequence[ClusterNow], counted: Counted, consumers: Sequence[tuple[Cluster, Consumer]]
    ) -> str:
        known, workloads = self._written
        if consumers is not known:  # a new list is made when a cluster publishes
            workloads = workload_text(consumers)
            self._written = (consumers, workloads)
        return fleet_text(clusters) + counted_text([each.cluster for each in clusters], counted) + workloads


def fleet_text(clusters: Sequence[ClusterNow]) -> str:
    """What each cluster has published of itself."""
    seen = [(of_cluster(each.cluster), each.overview) for each in clusters if each.overview is not None]
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
    return "".join(
        (
            family(NODES, ((f'{labels},state="{state}"', nodes) for labels, state, nodes in states)),
            family(GPUS, ((labels, now.gpus) for labels, now in seen)),
            family(ALLOCATED, ((labels, now.allocated_milli / 1000) for labels, now in seen)),
            family(UTILIZATION, ((labels, _mean(now.utilization_sum, now.measured_gpus)) for labels, now in seen)),
            family(POWER, ((labels, now.power_watts) for labels, now in seen)),
            family(STORAGE, ((labels, now.storage_total_bytes) for labels, now in seen)),
            family(STORAGE_USED, ((labels, now.storage_used_bytes) for labels, now in seen)),
            family(RDMA_PORTS, ((f'{labels},state="{state}"', count) for labels, state, count in ports)),
            family(STALE, ((of_cluster(each.cluster), float(each.source.stale)) for each in clusters)),
            family(AGE, ((of_cluster(each.cluster), _age_seconds(each)) for each in clusters)),
        )
    )


def counted_text(clusters: Iterable[Cluster], counted: Counted) -> str:
    """How many workloads there are, and wait."""
    labels = {cluster.id: of_cluster(cluster) for cluster in clusters}
    phases = [
        (f"{labels[each.cluster_id]},{written(phase=each.phase)}", each)
        for each in counted.phases
        if each.cluster_id in labels
    ]
    queues = [
        (f"{labels[each.cluster_id]},{written(workspace=each.workspace)}", each)
        for each in counted.queues
        if each.cluster_id in labels
    ]
    return "".join(
        (
            family(WORKLOADS, ((place, each.workloads) for place, each in phases)),
            family(PENDING, ((place, each.workloads) for place, each in queues)),
            family(PENDING_GPUS, ((place, each.gpu_milli / 1000) for place, each in queues)),
        )
    )


def workload_text(consumers: Sequence[tuple[Cluster, Consumer]]) -> str:
    """Every workload that holds GPUs."""
    labelled = [
        (
            f"{of_cluster(cluster)},"
            f"{written(namespace=consumer.namespace, workload=consumer.slug, kind=consumer.kind)}",
            consumer,
        )
        for cluster, consumer in consumers
    ]
    return "".join(
        (
            family(WORKLOAD_GPUS, ((labels, each.gpu_milli / 1000) for labels, each in labelled)),
            family(WORKLOAD_UTILIZATION, ((labels, each.utilization) for labels, each in labelled)),
            family(WORKLOAD_MEMORY, ((labels, each.memory) for labels, each in labelled)),
            family(WORKLOAD_POWER, ((labels, each.power_watts) for labels, each in labelled)),
        )
    )


def of_cluster(cluster: Cluster) -> str:
    return written(cluster=cluster.name, source=SIMULATED if cluster.simulated else MEASURED)


def family(about: Family, samples: Iterable[Sample]) -> str:
    """The lines of one family, which the text format and OpenMetrics write alike; nothing without a value."""
    lines = [f"{about.name}{{{labels}}} {value}\n" for labels, value in samples if value is not None]
    return f"# HELP {about.name} {about.help}\n# TYPE {about.name} gauge\n{''.join(lines)}" if lines else ""


def written(**labels: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None


def _age_seconds(now: ClusterNow) -> float | None:
    """None for what was never read."""
    return None if now.age_ms is None or now.source.read_at is None else now.age_ms / 1000
