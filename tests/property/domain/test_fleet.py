"""Several clusters as one, whatever they are: what holds of each holds of all of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.fleet import hottest, together
from stoker.domain.live import TOP_GPUS, HotGpu, Overview, SourceState
from stoker.domain.readings import Metric

MILLI = 1000


@st.composite
def overviews(draw: st.DrawFn) -> Overview:
    """A cluster as a controller publishes it: its hottest GPUs are sorted, and no more than are kept."""
    idle, partial, busy, faulty = (draw(st.integers(0, 50)) for _ in range(4))
    gpus = (idle + partial + busy) * 8
    allocated = draw(st.integers(0, gpus * MILLI))
    measured = draw(st.integers(0, allocated // MILLI))
    values = draw(st.lists(st.floats(0, 1), max_size=150))
    hot = [HotGpu(f"node-{place}", 0, "MI300X", value) for place, value in enumerate(values)]
    fields: dict[str, Any] = dict.fromkeys(Overview.__struct_fields__, 0)
    fields |= {
        "source": SourceState("nvml", 0, stale=False),
        "nodes": idle + partial + busy + faulty,
        "healthy_nodes": idle + partial + busy,
        "faulty_nodes": faulty,
        "idle_nodes": idle,
        "partial_nodes": partial,
        "busy_nodes": busy,
        "gpus": gpus,
        "allocated_milli": allocated,
        "measured_gpus": measured,
        "utilization_sum": measured * draw(st.floats(0, 1)),
        "hottest": {Metric.UTILIZATION: sorted(hot, key=lambda gpu: -gpu.value)[:TOP_GPUS]},
    }
    return Overview(**fields)


@given(st.lists(overviews(), max_size=5))
def test_nodes_add_up_and_rates_stay_rates(clusters: list[Overview]) -> None:
    fleet = together(clusters)
    assert fleet.idle_nodes + fleet.partial_nodes + fleet.busy_nodes == fleet.healthy_nodes
    assert fleet.healthy_nodes + fleet.faulty_nodes == fleet.nodes
    assert 0 <= fleet.allocation_rate <= 1
    assert (fleet.utilization is None) == (not fleet.measured_gpus)
    assert 0 <= (fleet.utilization or 0) <= 1
    assert fleet.nodes == sum(each.nodes for each in clusters)


@given(st.lists(overviews(), max_size=5), st.integers(1, TOP_GPUS))
def test_the_hottest_are_the_true_top_of_all_clusters(clusters: list[Overview], number: int) -> None:
    shown = [gpu.value for gpu in hottest(clusters, Metric.UTILIZATION, number)]
    everything = sorted((gpu.value for each in clusters for gpu in each.hottest[Metric.UTILIZATION]), reverse=True)
    assert shown == everything[:number]
