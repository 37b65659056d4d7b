from tests.unit.scheduler.harness import NOW, cluster, job, node, places, reasons, running

from stoker.scheduler import plan
from stoker.scheduler.explain.reasons import InsufficientOnNode, NodeUnschedulable, ResourceName
from stoker.scheduler.model import SnapshotDelta
from stoker.scheduler.planner import Planner


def test_a_small_job_goes_to_the_fullest_node_that_takes_it() -> None:
    nodes = [node("empty", 8), node("half", 4), node("nearly", 1)]
    assert places(plan(cluster(nodes, [job("x", gpus=2)]))) == {"x": ("half",)}


def test_among_nodes_with_as_many_gpus_the_one_with_fewer_cpus_is_taken() -> None:
    nodes = [node("many", 4, cpus=60), node("few", 4, cpus=20), node("none", 4, cpus=1)]
    assert places(plan(cluster(nodes, [job("x", gpus=2, cpus=8)]))) == {"x": ("few",)}


def test_a_job_without_gpus_prefers_a_node_that_has_none_to_give() -> None:
    nodes = [node("gpus", 8, cpus=64), node("taken", 0, cpus=64)]
    assert places(plan(cluster(nodes, [job("x", gpus=0)]))) == {"x": ("taken",)}


def test_a_gang_starts_whole_or_not_at_all() -> None:
    nodes = [node("a", 8), node("b", 7)]
    assert not plan(cluster(nodes, [job("x", gpus=8, replicas=2)])).placements
    assert places(plan(cluster([*nodes, node("c", 8)], [job("x", gpus=8, replicas=2)]))) == {"x": ("a", "c")}


def test_a_gang_is_packed_on_as_few_nodes_as_possible() -> None:
    nodes = [node("a", 3), node("b", 4), node("c", 8)]
    assert places(plan(cluster(nodes, [job("x", gpus=2, replicas=4)]))) == {"x": ("c",) * 4}


def test_what_is_left_of_a_gang_goes_where_it_fits_most_tightly() -> None:
    nodes = [node("a", 8), node("b", 8), node("c", 2)]
    assert places(plan(cluster(nodes, [job("x", gpus=2, replicas=5)]))) == {"x": ("a", "a", "a", "a", "c")}


def test_a_node_short_of_cpus_takes_fewer_of_a_gang_than_its_gpus_would() -> None:
    nodes = [node("a", 8, cpus=2), node("b", 4, cpus=64)]
    assert places(plan(cluster(nodes, [job("x", gpus=1, replicas=6)]))) == {"x": ("a", "a", "b", "b", "b", "b")}


def test_a_gang_without_gpus_is_spread_when_no_node_takes_it_whole() -> None:
    nodes = [node("a", 0, cpus=4), node("b", 0, cpus=3), node("c", 8, cpus=3)]
    assert places(plan(cluster(nodes, [job("x", gpus=0, replicas=6)]))) == {"x": ("a",) * 4 + ("b",) * 2}


def test_a_part_of_a_gpu_goes_to_a_device_that_is_shared_already() -> None:
    nodes = [node("fresh", 1), node("shared", 7, shared_free_milli=(500,), shared_devices=(7,))]
    assert places(plan(cluster(nodes, [job("x", gpus=0.5)]))) == {"x": ("shared",)}


def test_parts_of_two_gpus_do_not_make_one() -> None:
    nodes = [node("a", 0, shared_free_milli=(300, 300))]
    made = plan(cluster(nodes, [job("x", gpus=0.5)]))
    assert reasons(made)["x"].message() == "Needs 0.5 GPU on one node; the only node has 0.3 free."


def test_two_halves_share_one_gpu_and_a_third_takes_another() -> None:
    made = plan(cluster([node("a", 1), node("b", 1)], [job("x", gpus=0.5, replicas=3)]))
    assert places(made) == {"x": ("a", "a", "b")}


def test_named_nodes_get_one_pod_each_whatever_their_pool() -> None:
    nodes = [node("a"), node("b", pool="other"), node("c")]
    made = plan(cluster(nodes, [job("x", replicas=2, specified_nodes=("c", "b"))]))
    assert places(made) == {"x": ("c", "b")}


def test_a_named_node_that_is_full_or_not_usable_is_named() -> None:
    nodes = [node("full", 0), node("down", is_schedulable=False)]
    waiting = [
        job("x", specified_nodes=("full",), workspace_id=1),
        job("y", specified_nodes=("down",), workspace_id=2),
        job("z", specified_nodes=("gone",), workspace_id=3),
    ]
    assert reasons(plan(cluster(nodes, waiting))) == {
        "x": InsufficientOnNode("full", ResourceName.GPU, 1000, 0),
        "y": NodeUnschedulable("down", exists=True),
        "z": NodeUnschedulable("gone", exists=False),
    }


def test_a_pod_that_is_missing_goes_to_the_named_node_that_has_none() -> None:
    waiting = [job("x", specified_nodes=("a", "b"), replicas=1)]
    made = plan(cluster([node("a"), node("b")], waiting, [running("x", "a")]))
    assert places(made) == {"x": ("b",)}


def test_the_first_pool_that_takes_the_whole_gang_is_used() -> None:
    nodes = [node("a", 8, pool="fast"), node("b", 8, pool="slow"), node("c", 8, pool="slow")]
    waiting = [job("x", gpus=8, replicas=2, node_pools=("fast", "slow"))]
    assert places(plan(cluster(nodes, waiting))) == {"x": ("b", "c")}


def test_cordoned_and_faulty_nodes_take_only_what_tolerates_all() -> None:
    nodes = [node("a", is_schedulable=False)]
    assert not plan(cluster(nodes, [job("x")])).placements
    assert places(plan(cluster(nodes, [job("x", tolerate_all=True)]))) == {"x": ("a",)}


def test_what_tolerates_all_still_prefers_a_usable_node() -> None:
    nodes = [node("a", 1, is_schedulable=False), node("b", 8)]
    assert places(plan(cluster(nodes, [job("x", tolerate_all=True)]))) == {"x": ("b",)}


def test_a_gang_has_gpus_of_one_model_where_one_has_capacity_for_all_of_it() -> None:
    nodes = [node("a", 6, model="H100"), node("b", model="MI300X"), node("c", model="H100"), node("d", model="MI300X")]
    assert places(plan(cluster(nodes, [job("x", gpus=8, replicas=2)]))) == {"x": ("b", "d")}
    assert places(plan(cluster(nodes, [job("x", gpus=6, replicas=2)]))) == {"x": ("a", "c")}
    assert places(plan(cluster(nodes, [job("x", gpus=8, replicas=3)]))) == {"x": ("b", "c", "d")}, "rather than wait"
    assert places(plan(cluster(nodes, [job("x", gpus=2, replicas=7)]))) == {"x": ("a",) * 3 + ("c",) * 4}


def test_a_model_that_comes_or_goes_is_known_at_once() -> None:
    planner = Planner(cluster([node("a", model="H100"), node("b", model="MI300X")], []))
    waiting = (job("x", gpus=8, replicas=2),)
    after = planner.replan(
        SnapshotDelta(now=NOW, pending=waiting, nodes=(node("c", model="MI300X"),), removed_nodes=("a",))
    )
    assert places(after) == {"x": ("b", "c")}
