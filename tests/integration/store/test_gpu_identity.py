"""What the store knows of a GPU stays with it when it gets another index or another node, on both databases."""

import pytest
from tests.conftest import LoopRun

from stoker.controller.reconcile.observe import record_nodes
from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import GpuFault
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.store.cluster import clusters, gpu_availability, nodes
from stoker.store.db.base import Store, T, Transaction, TransactionFn
from stoker.store.workloads import allocations, fleet_workloads, pods, transitions
from stoker.store.workloads.allocations import Allocation

CLUSTER = "c1"


def cards(name: str, *uuids: str, ready: bool = True) -> Node:
    return Node(name, 1000, 1, tuple(Device(index, uuid, "H100", 80) for index, uuid in enumerate(uuids)), ready=ready)


class Scene:
    """Cards x and y in node n1, and z in n2; pods hold x and y."""

    def __init__(self, store: Store, loop_run: LoopRun) -> None:
        self._store = store
        self._loop_run = loop_run
        self.write(self._begin)

    def write(self, change: TransactionFn[T]) -> T:
        return self._loop_run(self._store.write(change))

    def read(self, query: TransactionFn[T]) -> T:
        return self._loop_run(self._store.read(query))

    def report(self, at: int, *reported: Node) -> set[str]:
        return self.write(lambda tx: record_nodes(tx, CLUSTER, reported, at))

    def intervals(self) -> list[tuple[str, str, int, str, int, int]]:
        """UUID, node, device, state, beginning and end, by UUID and beginning."""
        found = self.read(lambda tx: gpu_availability.intervals_in_range(tx, CLUSTER, 0, 1000))
        return sorted((each.uuid, each.node, each.device, str(each.state), each.from_at, each.to_at) for each in found)

    def devices(self) -> dict[str, tuple[int, ...]]:
        return {pod.uid: pod.devices for pod in self.read(lambda tx: pods.unreleased(tx, CLUSTER))}

    def _begin(self, tx: Transaction) -> None:
        clusters.add(tx, Cluster(CLUSTER, "demo", "simulated", "", 0))
        record_nodes(tx, CLUSTER, [cards("n1", "x", "y"), cards("n2", "z")], 100)
        for number, uuid in enumerate("xy"):
            job = Workload(
                uid=f"w-{uuid}",
                slug=f"train-{uuid}",
                name="train",
                kind=Kind.JOB,
                cluster_id=CLUSTER,
                workspace_id=1,
                namespace="ml",
                user_id="u1",
                user_name="ann",
                origin_api="management",
                spec=Spec(resources=Resources(1000, 1000, 1)),
                submitted_at=100,
                phase_at=100,
            )
            transitions.add(tx, submit_transition(job))
            pod = Pod(
                uid=f"p-{uuid}",
                workload_uid=job.uid,
                name=f"train-{uuid}-0",
                attempt=1,
                revision=1,
                rank=0,
                node="n1",
                resources=job.spec.resources,
                devices=(number,),
                created_at=100,
            )
            pods.add(tx, CLUSTER, [pod])
            held = [Allocation(pod.uid, number, job.uid, "n1", "H100", 1000, 100, uuid)]
            allocations.allocate(tx, CLUSTER, held)


@pytest.fixture
def scene(store: Store, loop_run: LoopRun) -> Scene:
    return Scene(store, loop_run)


def test_intervals_go_on_when_gpus_swap_their_indexes(scene: Scene) -> None:
    scene.report(200, cards("n1", "x", "y", ready=False))
    scene.report(300, cards("n1", "y", "x"))
    assert scene.intervals() == [
        ("x", "n1", 0, "faulty", 200, 300),
        ("x", "n1", 1, "present", 100, 1000),
        ("y", "n1", 0, "present", 100, 1000),
        ("y", "n1", 1, "faulty", 200, 300),
        ("z", "n2", 0, "present", 100, 1000),
    ]


@pytest.mark.parametrize("first", ["n1", "n2"])
def test_a_gpu_that_moves_to_another_node_is_one_gpu(scene: Scene, first: str) -> None:
    """Whichever of the two nodes reports first."""
    after = [cards("n1", "y"), cards("n2", "z", "x")]
    for node in sorted(after, key=lambda node: node.name != first):
        scene.report(300, node)
    found = [each for each in scene.intervals() if each[0] == "x"]
    assert found[-1][1:3] == ("n2", 1)
    assert (found[0][4], found[-1][5], sum(each[5] - each[4] for each in found)) == (100, 1000, 900)


def test_both_nodes_of_a_move_in_one_report_make_no_gap(scene: Scene) -> None:
    scene.report(300, cards("n2", "z", "x"), cards("n1", "y"))
    assert ("x", "n2", 1, "present", 100, 1000) in scene.intervals()
    scene.write(lambda tx: gpu_availability.close_node_intervals(tx, CLUSTER, ["n1"], 400))
    assert ("x", "n2", 1, "present", 100, 1000) in scene.intervals(), "it does not go with the node that it left"


def test_a_replaced_gpu_has_intervals_of_its_own(scene: Scene) -> None:
    scene.report(300, cards("n1", "new", "y"))
    assert [each for each in scene.intervals() if each[1:3] == ("n1", 0)] == [
        ("new", "n1", 0, "present", 300, 1000),
        ("x", "n1", 0, "present", 100, 300),
    ]


def test_gpus_without_a_uuid_are_their_places(scene: Scene) -> None:
    scene.report(200, cards("n3", "", ""))
    scene.report(300, cards("n3", ""))
    assert scene.intervals()[:2] == [("", "n3", 0, "present", 200, 1000), ("", "n3", 1, "present", 200, 300)]


def test_a_reported_fault_follows_its_gpu(scene: Scene) -> None:
    fault = GpuFault("n1", 0, "XID 79", "x")
    scene.write(lambda tx: nodes.report_faults(tx, CLUSTER, [fault], 200))

    def faulty() -> list[tuple[str, str]]:
        known = scene.read(lambda tx: nodes.of_cluster(tx, CLUSTER))
        return [(node.name, device.uuid) for node in known for device in node.devices if device.fault]

    assert faulty() == [("n1", "x")]
    scene.report(300, cards("n1", "y", "x"))
    assert faulty() == [("n1", "x")]
    scene.report(400, cards("n1", "y"))
    assert faulty() == []
    scene.report(500, cards("n2", "z", "x"))
    assert faulty() == [("n2", "x")]
    changed = scene.write(lambda tx: nodes.report_faults(tx, CLUSTER, [GpuFault("n2", 0, "XID 79", "x")], 600))
    assert changed == {"n2"}, "a collector that numbers the GPUs otherwise"
    assert ("x", "n2", 0, "reported", 200, 1000) in scene.intervals()


def test_allocations_and_pods_follow_renumbered_gpus(scene: Scene) -> None:
    assert scene.report(200, cards("n1", "x", "y")) == set()
    assert scene.report(300, cards("n1", "y", "x")) == {"w-x", "w-y"}
    assert scene.devices() == {"p-x": (1,), "p-y": (0,)}
    held = scene.read(lambda tx: allocations.open_allocations(tx, CLUSTER))
    assert {(each.pod_uid, each.node, each.device, each.gpu_uuid) for each in held} == {
        ("p-x", "n1", 1, "x"),
        ("p-y", "n1", 0, "y"),
    }


def test_a_pod_does_not_follow_a_gpu_to_another_node(scene: Scene) -> None:
    assert scene.report(300, cards("n1", "y"), cards("n2", "z", "x")) == {"w-y"}
    assert scene.devices() == {"p-x": (0,), "p-y": (0,)}


def test_a_gpu_that_the_engine_chose_may_be_unknown(scene: Scene) -> None:
    unknown = [Allocation("p-9", None, "w-x", "n2", "H100", 1000, 300, slot=slot) for slot in range(2)]
    scene.write(lambda tx: allocations.allocate(tx, CLUSTER, unknown))
    held = scene.read(lambda tx: allocations.open_allocations(tx, CLUSTER))
    assert [each for each in held if each.device is None] == unknown
    known = scene.read(lambda tx: fleet_workloads.allocations_of_workload(tx, "w-x", 0, 1000))
    assert [(each.device, each.uuid) for each in known] == [(0, "x")]
