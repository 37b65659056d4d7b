import msgspec
import pytest
from tests.unit.scheduler.harness import GIB, NOW, cluster, job, node, reasons, running

from stoker.scheduler import plan
from stoker.scheduler.explain.reasons import (
    BehindHigherPriority,
    BehindQueueHead,
    DependencyPending,
    InsufficientCapacity,
    InsufficientOnNode,
    NodeUnschedulable,
    OverQuota,
    PendingReason,
    Preempting,
    ResourceName,
    StartTimeNotReached,
)

SENTENCES = [
    (StartTimeNotReached(NOW), "not_yet", "Starts no earlier than 2023-11-14T22:13:20Z."),
    (DependencyPending(("a", "b")), "waits_for", "Waits for a, b to succeed."),
    (BehindQueueHead("a", 1), "behind_head", "Waits behind a, the head of the queue; 1 workload is ahead of it."),
    (BehindQueueHead("a", 12), "behind_head", "Waits behind a, the head of the queue; 12 workloads are ahead of it."),
    (BehindHigherPriority("a", 150), "behind_priority", "Waits until a has started, which has a higher priority."),
    (
        Preempting(("a", "b", "c", "d")),
        "preempting",
        "Capacity is being freed: waits for a, b, c and 1 more to terminate.",
    ),
    (
        OverQuota(ResourceName.MEMORY, 8 * GIB, 250 * GIB, 256 * GIB),
        "over_quota",
        "Needs 8 GiB of memory; the workspace uses 250 GiB of its quota of 256 GiB of memory.",
    ),
    (
        NodeUnschedulable("gpu-3", exists=True),
        "node_unusable",
        "Asks for node gpu-3, which is cordoned, faulty or not ready.",
    ),
    (NodeUnschedulable("gpu-3", exists=False), "node_unusable", "Asks for node gpu-3, which is not in the cluster."),
    (
        InsufficientOnNode("gpu-3", ResourceName.CPU, 4500, 500),
        "node_taken",
        "Needs 4.5 CPUs on node gpu-3, which has 0.5 free.",
    ),
    (
        InsufficientOnNode("gpu-3", ResourceName.GPU, 1000, 0),
        "node_taken",
        "Needs 1 GPU on node gpu-3, which has none free.",
    ),
    (
        InsufficientCapacity(ResourceName.MEMORY, 96 * 2**20, 1, 0, 0, 1),
        "no_room",
        "Needs 96 MiB of memory on one node; the only node has none free.",
    ),
    (
        InsufficientCapacity(ResourceName.GPU, 8000, 1, 0, 5000, 12),
        "no_room",
        "Needs 8 GPUs on one node; the best of 12 nodes has 5 free.",
    ),
    (
        InsufficientCapacity(ResourceName.GPU, 8000, 4, 2, 8000, 12),
        "no_room",
        "Needs 4 x 8 GPUs; 2 of 4 fit on 12 nodes.",
    ),
    (
        InsufficientCapacity(ResourceName.GPU, 1000, 1, 0, 0, 0),
        "no_room",
        "Needs 1 GPU; there is no schedulable node in its node pools.",
    ),
    (
        InsufficientCapacity(ResourceName.CPU, 64000, 1, 0, 8000, 3, (ResourceName.GPU,)),
        "no_room",
        "Needs 64 CPUs on one node; the best of 3 nodes with enough GPUs has 8 free.",
    ),
]


@pytest.mark.parametrize(("reason", "code", "sentence"), SENTENCES)
def test_every_reason_has_a_code_and_a_sentence_with_its_numbers(
    reason: PendingReason, code: str, sentence: str
) -> None:
    assert (reason.code, reason.message()) == (code, sentence)
    assert msgspec.json.decode(msgspec.json.encode(reason), type=PendingReason) == reason


def test_workloads_are_called_by_the_names_that_users_know() -> None:
    assert BehindQueueHead("0f3c", 1).message({"0f3c": "bert-x2f9k"}).startswith("Waits behind bert-x2f9k,")


def test_the_first_resource_that_runs_short_is_named_beside_those_that_do_not() -> None:
    nodes = [node("a", 8, cpus=2), node("b", 0, cpus=64), node("c", 8, cpus=4, gib=1)]
    short_of = {
        "gpus": job("gpus", gpus=9, workspace_id=1),
        "cpus": job("cpus", gpus=8, cpus=8, workspace_id=2),
        "memory": job("memory", gpus=8, cpus=4, gib=2, workspace_id=3),
    }
    assert reasons(plan(cluster(nodes, list(short_of.values())))) == {
        "gpus": InsufficientCapacity(ResourceName.GPU, 9000, 1, 0, 8000, 3),
        "cpus": InsufficientCapacity(ResourceName.CPU, 8000, 1, 0, 4000, 2, (ResourceName.GPU,)),
        "memory": InsufficientCapacity(
            ResourceName.MEMORY, 2 * GIB, 1, 0, GIB, 1, (ResourceName.GPU, ResourceName.CPU)
        ),
    }


def test_a_gang_that_fits_in_part_is_told_how_much_of_it_does() -> None:
    made = plan(cluster([node("a", 8), node("b", 7)], [job("x", gpus=8, replicas=2)]))
    assert reasons(made) == {"x": InsufficientCapacity(ResourceName.GPU, 8000, 2, 1, 8000, 2)}


def test_one_that_may_borrow_waits_for_capacity_and_not_for_quota() -> None:
    made = plan(cluster([node("a", 0)], [job("x", preemptible=True)], [running("r", "a", gpus=8)]))
    assert reasons(made)["x"].code == "no_room"


def test_asking_about_a_workload_that_does_not_wait_is_a_key_error() -> None:
    made = plan(cluster([node("a")], [job("x")]))
    with pytest.raises(KeyError):
        made.pending["x"]
