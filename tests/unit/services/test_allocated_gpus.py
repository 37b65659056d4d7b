"""The part of a grid of GPUs that some workloads hold."""

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import GpuColumns
from stoker.services.fleet.gpu_grid import GpuGrid

LOCAL = Cluster("c", "local", "local", "", 0)
COLUMNS = GpuColumns(
    node=["n"] * 4,
    device=[0, 1, 2, 3],
    model=["X"] * 4,
    workload=["ours", "theirs", "theirs", None],
    allocated_milli=[1000, 1000, 750, 0],
    fault=[""] * 4,
    utilization=[0.1, 0.2, 0.3, None],
    memory_used_bytes=[None] * 4,
    memory_total_bytes=[1] * 4,
    power_watts=[None] * 4,
    temperature=[None] * 4,
    idle_since=[1, 2, 3, None],
    shared=[(2, "ours", 250, 7)],
)


def test_a_gpu_that_is_shared_is_seen_with_ones_own_share_alone() -> None:
    [(cluster, held)] = GpuGrid([(LOCAL, COLUMNS)]).allocated_to({"ours"})
    assert cluster == LOCAL
    assert (held.device, held.workload, held.allocated_milli) == ([0, 2], ["ours", "ours"], [1000, 250])
    assert (held.utilization, held.idle_since, held.shared) == ([0.1, 0.3], [1, 7], [])


def test_those_who_share_a_gpu_are_seen_together_if_both_are() -> None:
    [(_, held)] = GpuGrid([(LOCAL, COLUMNS)]).allocated_to({"ours", "theirs"})
    assert (held.device, held.allocated_milli) == ([0, 1, 2], [1000, 1000, 750])
    assert held.shared == [(2, "ours", 250, 7)]


def test_nobody_holds_nothing() -> None:
    [(_, held)] = GpuGrid([(LOCAL, COLUMNS)]).allocated_to(set())
    assert (held.node, held.shared) == ([], [])
