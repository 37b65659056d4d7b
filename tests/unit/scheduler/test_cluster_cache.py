"""The scheduler's snapshot of a cluster equals what its pods hold."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.scheduler.harness import amount

from stoker.domain.access.identity import QueuePolicy, Quota, Workspace
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import MILLI, NO_RESOURCES, Resources
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.placement import ClusterState
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.scheduler import plan
from stoker.scheduler.cache import build_snapshot
from stoker.scheduler.quota.admitted import allocated_resources

GIB = 2**30
NOW = 1_000
NO_QUOTA = Quota()


def machine(name: str, gpus: int = 8) -> Node:
    return Node(name, 64 * MILLI, 256 * GIB, tuple(Device(index, f"{name}-{index}", "GPU") for index in range(gpus)))


def workload(uid: str, kind: Kind = Kind.DEPLOYMENT, **fields: object) -> Workload:
    made = Workload(
        uid=uid,
        slug=uid,
        name=uid,
        kind=kind,
        cluster_id="c",
        workspace_id=1,
        namespace="default",
        user_id="1",
        user_name="li.wei",
        origin_api="management",
        spec=Spec(resources=amount(1), replicas=2),
        submitted_at=0,
        phase_at=0,
    )
    return structs.replace(made, **fields)


def pod(uid: str, rank: int, node: str, resources: Resources, devices: tuple[int, ...], revision: int = 1) -> Pod:
    return Pod(
        uid=f"{uid}-{rank}-{revision}",
        workload_uid=uid,
        name=f"{uid}-{rank}",
        attempt=1,
        revision=revision,
        rank=rank,
        node=node,
        resources=resources,
        devices=devices,
        created_at=rank,
    )


def under_way(found: list[Workload], pods: list[Pod], quota: Quota = NO_QUOTA, nodes: int = 1) -> ClusterState:
    held: dict[str, list[Pod]] = {}
    for each in pods:
        held.setdefault(each.workload_uid, []).append(each)
    space = Workspace(
        id=1,
        name="vision",
        description="",
        department_id=1,
        department="default",
        cluster_id="c",
        cluster="local",
        namespace="default",
        quota=quota,
        queue_policy=QueuePolicy.FIFO,
        preemption=True,
        created_at=0,
        updated_at=0,
        version=1,
    )
    known = {f"node-{number}": machine(f"node-{number}") for number in range(nodes)}
    return ClusterState({each.uid: each for each in found}, held, known, (space,), {})


def test_the_quota_counts_pods_of_two_sizes_each_by_its_own() -> None:
    growing = workload("web", phase=Phase.UPDATING, revision=2, attempt=1, spec=Spec(resources=amount(4), replicas=2))
    pods = [pod("web", 0, "node-0", amount(1), (0,)), pod("web", 1, "node-0", amount(4), (1, 2, 3, 4), revision=2)]
    waiting = workload("job", Kind.JOB, requeued=True, priority=150, spec=Spec(resources=amount(2)))
    view = build_snapshot(under_way([growing, waiting], pods, Quota(gpu_milli=6 * MILLI)), NOW)
    [placed] = view.admitted
    assert allocated_resources(placed) == amount(1) + amount(4)
    assert plan(view).pending["job"].reason.code == "over_quota"


def test_a_part_of_a_gpu_is_known_by_its_device() -> None:
    half = workload("half", spec=Spec(resources=amount(0.5)))
    view = build_snapshot(under_way([half], [pod("half", 0, "node-0", amount(0.5), (3,))]), NOW)
    [room] = view.nodes
    assert (room.free_whole_gpus, room.shared_free_milli, room.shared_devices) == (7, (500,), (3,))
    assert view.admitted[0].devices == (3,)


sizes = st.lists(st.sampled_from([amount(0), amount(0.25), amount(1), amount(2, 4, 8)]), min_size=1, max_size=4)


@given(sizes)
def test_what_is_held_is_the_sum_of_the_pods(resources: list[Resources]) -> None:
    pods, taken = [], 0
    for rank, each in enumerate(resources):
        wanted = -(-each.gpu_milli // MILLI)
        pods.append(pod("web", rank, "node-0", each, tuple(range(taken, taken + wanted))))
        taken += wanted
    held = workload("web", phase=Phase.RUNNING, attempt=1, spec=Spec(replicas=len(pods)))
    view = build_snapshot(under_way([held], pods), NOW)
    assert allocated_resources(view.admitted[0]) == sum(resources, NO_RESOURCES)
