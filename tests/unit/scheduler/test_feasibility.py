from tests.unit.scheduler.harness import GIB, amount

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.node import Device, Node
from stoker.scheduler import ClusterCapacity, check_feasibility
from stoker.scheduler.explain.reasons import ResourceName
from stoker.scheduler.feasibility import Infeasible, LargerThanCluster, LargerThanNode, LargerThanQuota


def sentence(reason: Infeasible | None) -> str:
    assert reason is not None
    return reason.message()


def machine(name: str, gpus: int, cpus: int = 64, gib: int = 256, ready: bool = True) -> Node:
    devices = tuple(Device(index, f"{name}-{index}", "H100") for index in range(gpus))
    return Node(name, cpus * 1000, gib * GIB, devices, ready=ready)


NODES = [machine("a", 8), machine("b", 4, cpus=128)]


def test_a_cluster_that_has_never_reported_refuses_nothing() -> None:
    assert check_feasibility(amount(1000), 9, (), ClusterCapacity([]), Quota()) is None


def test_more_than_the_largest_node_has_never_fits() -> None:
    reason = check_feasibility(amount(16), 1, (), ClusterCapacity(NODES), Quota())
    assert reason == LargerThanNode(ResourceName.GPU, 16000, 8000)
    assert sentence(reason) == "The workload asks for 16 GPUs per replica; the largest node has 8. Ask for less."


def test_what_no_node_has_at_all_is_for_another_cluster() -> None:
    reason = check_feasibility(amount(1), 1, (), ClusterCapacity([machine("a", 0)]), Quota())
    assert sentence(reason) == (
        "The workload asks for 1 GPU per replica; the largest node has 0. "
        "Ask for none, or use a workspace of a cluster with GPUs."
    )


def test_what_no_single_node_has_together_never_fits() -> None:
    reason = check_feasibility(amount(8, cpus=100), 1, (), ClusterCapacity(NODES), Quota())
    assert reason == LargerThanNode(ResourceName.CPU, 100_000, 64_000, (ResourceName.GPU,))
    assert "the largest node with enough GPUs has 64." in sentence(reason)


def test_more_than_the_quota_never_fits() -> None:
    reason = check_feasibility(amount(4), 3, (), ClusterCapacity(NODES), Quota(gpu_milli=8000))
    assert reason == LargerThanQuota(ResourceName.GPU, 12000, 8000)
    assert sentence(reason) == (
        "The workload asks for 12 GPUs in total; the quota of its workspace is 8. Ask for less, or make it preemptible."
    )


def test_a_gang_larger_than_the_cluster_never_fits() -> None:
    reason = check_feasibility(amount(4), 4, (), ClusterCapacity(NODES), Quota())
    assert reason == LargerThanCluster(4, 3, 2)
    assert sentence(reason).startswith("The workload asks for 4 replicas; the 2 nodes of the cluster hold 3 of them")
    reason = check_feasibility(amount(4), 4, (), ClusterCapacity(NODES[:1]), Quota())
    assert "; the only node of the cluster holds 2 of them when empty. Ask for fewer" in sentence(reason)


def test_nodes_count_whatever_their_health() -> None:
    assert check_feasibility(amount(8), 1, (), ClusterCapacity([machine("a", 8, ready=False)]), Quota()) is None


def test_a_named_node_has_to_be_large_enough() -> None:
    reason = check_feasibility(amount(8), 1, ("b",), ClusterCapacity(NODES), Quota())
    assert reason == LargerThanNode(ResourceName.GPU, 8000, 4000, node="b")
    assert sentence(reason) == "The workload asks for 8 GPUs on node b, which has 4 in total. Ask for less."
    assert check_feasibility(amount(8), 1, ("a",), ClusterCapacity(NODES), Quota()) is None


def test_parts_of_gpus_fill_whole_ones() -> None:
    assert check_feasibility(amount(0.6), 12, (), ClusterCapacity(NODES), Quota()) is None
    assert check_feasibility(amount(0.6), 13, (), ClusterCapacity(NODES), Quota()) == LargerThanCluster(13, 12, 2)
