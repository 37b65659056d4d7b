"""Several clusters as one, whatever they are: what holds of each holds of all of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.cluster.live_view import MAX_TOP_GPUS, ClusterSummary, CollectorStatus, TopGpu
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.queries.fleet import sum_clusters, top_gpus

MILLI = 1000


@st.composite
def overviews(draw: st.DrawFn) -> ClusterSummary:
    """A cluster as a controller publishes it: its hottest GPUs are sorted, and no more than are kept."""
    idle, partial, busy, faulty = (draw(st.integers(0, 50)) for _ in range(4))
    healthy = (idle + partial + busy) * 8
    gpus = healthy + faulty * 8
    held = draw(st.integers(0, healthy * MILLI))
    allocated = held + draw(st.integers(0, faulty * 8 * MILLI))
    measured = draw(st.integers(0, allocated // MILLI))
    values = draw(st.lists(st.floats(0, 1), max_size=150))
    hot = [TopGpu(f"node-{place}", 0, "MI300X", value) for place, value in enumerate(values)]
    fields: dict[str, Any] = dict.fromkeys(ClusterSummary.__struct_fields__, 0)
    fields |= {
        "source": CollectorStatus("nvml", 0, stale=False),
        "nodes": idle + partial + busy + faulty,
        "healthy_nodes": idle + partial + busy,
        "faulty_nodes": faulty,
        "idle_nodes": idle,
        "partial_nodes": partial,
        "busy_nodes": busy,
        "gpus": gpus,
        "faulty_gpus": faulty,
        "not_ready_gpus": faulty * 7,
        "allocated_milli": allocated,
        "healthy_gpus": healthy,
        "healthy_allocated_milli": held,
        "measured_gpus": measured,
        "utilization_sum": measured * draw(st.floats(0, 1)),
        "hottest": {GpuMetric.UTILIZATION: sorted(hot, key=lambda gpu: -gpu.value)[:MAX_TOP_GPUS]},
    }
    return ClusterSummary(**fields)


@given(st.lists(overviews(), max_size=5))
def test_nodes_add_up_and_rates_stay_rates(clusters: list[ClusterSummary]) -> None:
    fleet = sum_clusters(clusters)
    assert fleet.idle_nodes + fleet.partial_nodes + fleet.busy_nodes == fleet.healthy_nodes
    assert fleet.healthy_nodes + fleet.faulty_nodes == fleet.nodes
    assert 0 <= fleet.allocation_rate <= 1
    assert 0 <= fleet.healthy_allocation_rate <= 1
    assert fleet.schedulable_gpus == fleet.healthy_nodes * 8
    assert (fleet.utilization is None) == (not fleet.measured_gpus)
    assert 0 <= (fleet.utilization or 0) <= 1
    assert fleet.nodes == sum(each.nodes for each in clusters)


@given(st.lists(overviews(), max_size=5), st.integers(1, MAX_TOP_GPUS))
def test_the_hottest_are_the_true_top_of_all_clusters(clusters: list[ClusterSummary], number: int) -> None:
    shown = [gpu.value for gpu in top_gpus(clusters, GpuMetric.UTILIZATION, number)]
    everything = sorted((gpu.value for each in clusters for gpu in each.hottest[GpuMetric.UTILIZATION]), reverse=True)
    assert shown == everything[:number]
