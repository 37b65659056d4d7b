"""GPUs of the whole fleet, added up."""

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import GpuColumns
from stoker.services.fleet.gpu_grid import GpuGrid

CLUSTER = Cluster("c", "local", "local", "", 0)
MINUTE = 60_000


def columns(idle_since: int | None, shared: list[tuple[int, str, int, int | None]]) -> GpuColumns:
    """One GPU that `first` holds together with others, and one that nobody holds."""
    return GpuColumns(
        node=["n1", "n1"],
        device=[0, 1],
        model=["H100", "H100"],
        workload=["first", None],
        allocated_milli=[1000, 0],
        fault=["", ""],
        utilization=[0.0, 0.0],
        memory_used_bytes=[None, None],
        memory_total_bytes=[0, 0],
        power_watts=[None, None],
        temperature=[None, None],
        idle_since=[idle_since, None],
        shared=shared,
    )


def test_of_a_shared_gpu_each_holder_counts_with_its_own_share_and_time() -> None:
    held = columns(1 * MINUTE, [(0, "second", 300, 9 * MINUTE), (0, "third", 200, None)])
    grid = GpuGrid([(CLUSTER, held)])
    assert grid.totals_by_node(5 * MINUTE)["c", "n1"].idle_milli == 500, "the first alone has held it unused for long"
    assert grid.totals_by_node(10 * MINUTE)["c", "n1"].idle_milli == 800


def test_what_the_others_hold_unused_counts_though_the_first_has_only_begun() -> None:
    grid = GpuGrid([(CLUSTER, columns(9 * MINUTE, [(0, "second", 300, 1 * MINUTE)]))])
    assert grid.totals_by_node(5 * MINUTE)["c", "n1"].idle_milli == 300
