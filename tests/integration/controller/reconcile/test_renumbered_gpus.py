"""GPUs that get other indexes while pods hold them: pods keep their GPUs, and no GPU is given out twice."""

from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness

from stoker.domain.cluster.node import Node
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.store.db.base import Store
from stoker.store.workloads import allocations

ONE = Spec(resources=Resources(MILLI, 100, 1))


def rotated(node: Node) -> Node:
    """The last GPU comes first, and each other one gets the next index."""
    devices = (node.devices[-1], *node.devices[:-1])
    renumbered = tuple(structs.replace(device, index=index) for index, device in enumerate(devices))
    return structs.replace(node, devices=renumbered)


def test_pods_keep_their_gpus_and_free_ones_are_given_out(store: Store, loop_run: LoopRun) -> None:
    harness = ControllerHarness(store, FakeEngine([machine("node-1", 3)]))

    async def live() -> None:
        async with harness.at_work():
            first, second = await harness.submit(spec=ONE), await harness.submit(spec=ONE)
            for uid in (first, second):
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            before = {pod.workload_uid: pod.devices for uid in (first, second) for pod in await harness.pods(uid)}
            harness.engine.tell_nodes(rotated(harness.engine.nodes["node-1"]))
            for uid in (first, second):
                await harness.until_pods(uid, lambda found, b=before[uid]: found[0].devices == (b[0] + 1,))
            third = await harness.submit(spec=ONE)
            await harness.until(third, lambda found: found.phase is Phase.RUNNING)
            held = await harness.read(lambda tx: allocations.open_allocations(tx, CLUSTER))
            assert sorted((each.device, each.gpu_uuid) for each in held) == [
                (0, "node-1-2"),
                (1, "node-1-0"),
                (2, "node-1-1"),
            ]
            assert next(each.gpu_uuid for each in held if each.workload_uid == third) == "node-1-2"

    loop_run(harness.found())
    loop_run(live())
