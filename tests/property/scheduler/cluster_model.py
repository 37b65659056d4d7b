"""A small cluster that checks the scheduler by its own arithmetic: devices one by one, pods one by one."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.access.identity import QueuePolicy, Quota
from stoker.domain.cluster.resources import MILLI, NO_RESOURCES, Resources
from stoker.scheduler.model import AdmittedWorkload, NodeInfo, PendingWorkload, Queue, Snapshot

T = TypeVar("T")
NOW = 1_000_000
MODELS = ("H100", "", "MI300X")


@dataclass
class ModelNode:
    name: str
    gpus: int
    cpu: int
    memory: int
    pool: str = "default"
    usable: bool = True
    devices: dict[int, int] = field(default_factory=dict)
    """The milli-GPUs that are free on each."""

    def __post_init__(self) -> None:
        self.total = Resources(self.gpus * MILLI, self.cpu, self.memory)
        self.devices = dict.fromkeys(range(self.gpus), MILLI)

    def put(self, each: Resources) -> tuple[int, ...] | None:
        """Place one pod; returns its devices, or None if it does not fit."""
        devices = self.devices_for(each)
        if devices is None or each.cpu_milli > self.cpu or each.memory_bytes > self.memory:
            return None
        self.take(each, devices)
        return devices

    def devices_for(self, each: Resources) -> tuple[int, ...] | None:
        if each.gpu_milli < MILLI:
            fitting = sorted((free, index) for index, free in self.devices.items() if free >= each.gpu_milli)
            return () if not each.gpu_milli else (fitting[0][1],) if fitting else None
        whole = [index for index, free in self.devices.items() if free == MILLI]
        wanted = each.gpu_milli // MILLI
        return tuple(whole[:wanted]) if len(whole) >= wanted else None

    def take(self, each: Resources, devices: Iterable[int], times: int = 1) -> None:
        self.cpu -= times * each.cpu_milli
        self.memory -= times * each.memory_bytes
        for device in devices:
            self.devices[device] -= times * min(each.gpu_milli, MILLI)

    def emptied(self) -> "ModelNode":
        return ModelNode(self.name, self.gpus, self.total.cpu_milli, self.total.memory_bytes, self.pool, self.usable)

    def node_info(self) -> NodeInfo:
        shared = sorted((free, index) for index, free in self.devices.items() if 0 < free < MILLI)
        return NodeInfo(
            self.name,
            self.cpu,
            self.memory,
            sum(free == MILLI for free in self.devices.values()),
            tuple(free for free, _ in shared),
            self.total,
            self.usable,
            self.pool,
            tuple(index for _, index in shared),
            MODELS[self.gpus % len(MODELS)],
        )


@dataclass
class RunningWorkload:
    """A workload that runs: what it asked for, and the machine and devices of each pod."""

    asked: PendingWorkload
    pods: list[tuple[str, tuple[int, ...]]]
    placed_at: int
    leaving: bool = False
    guaranteed_until: int | None = None

    @property
    def total(self) -> Resources:
        return self.asked.pod_request * len(self.pods)


class ClusterModel:
    def __init__(self, machines: Sequence[ModelNode], queues: Sequence[Queue]) -> None:
        self.machines = {machine.name: machine for machine in machines}
        self.queues = {queue.workspace_id: queue for queue in queues}
        self.waiting: dict[str, PendingWorkload] = {}
        self.held: dict[str, RunningWorkload] = {}
        self.now = NOW

    def __repr__(self) -> str:
        return repr(self.snapshot())

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.now,
            tuple(machine.node_info() for machine in self.machines.values()),
            tuple(self.queues.values()),
            tuple(self.waiting.values()),
            tuple(self._placed(held) for held in self.held.values()),
        )

    def start(self, asked: PendingWorkload, nodes: Sequence[str], guaranteed_until: int | None = None) -> bool:
        """Put a gang on these machines, all of it or nothing."""
        pods: list[tuple[str, tuple[int, ...]]] = []
        for name in nodes:
            devices = self.machines[name].put(asked.pod_request)
            if devices is None:
                self._free(asked, pods)
                return False
            pods.append((name, devices))
        self.held[asked.uid] = RunningWorkload(asked, pods, self.now, guaranteed_until=guaranteed_until)
        self.waiting.pop(asked.uid, None)
        return True

    def remove(self, uid: str) -> RunningWorkload:
        held = self.held.pop(uid)
        self._free(held.asked, held.pods)
        return held

    def restore(self, held: RunningWorkload) -> None:
        """Put back what was removed, on the very devices it had."""
        for name, devices in held.pods:
            self.machines[name].take(held.asked.pod_request, devices)
        self.held[held.asked.uid] = held

    def slots(self, asked: PendingWorkload, name: str) -> int:
        """How many pods a machine takes, tried one by one."""
        machine, devices = self.machines[name], []
        for _ in range(asked.replicas):
            found = machine.put(asked.pod_request)
            if found is None:
                break
            devices.append(found)
        for found in devices:
            machine.take(asked.pod_request, found, -1)
        return len(devices)

    def fits(self, asked: PendingWorkload) -> bool:
        """Whether the gang fits on the nodes it specifies, or in one of its pools."""
        allowed = [name for name, machine in self.machines.items() if machine.usable or asked.tolerate_all]
        if asked.specified_nodes:
            return all(name in allowed and self.slots(asked, name) for name in asked.specified_nodes)
        return any(
            sum(self.slots(asked, name) for name in allowed if self.machines[name].pool == pool) >= asked.replicas
            for pool in asked.node_pools
        )

    def used(self, workspace_id: int, leaving: bool = True) -> Resources:
        amounts = (
            held.total
            for held in self.held.values()
            if held.asked.workspace_id == workspace_id and (leaving or not held.leaving)
        )
        return sum(amounts, NO_RESOURCES)

    def inside(self, asked: PendingWorkload, leaving: bool = True) -> bool:
        """Whether it would stay inside the quota of its workspace."""
        used, ask = self.used(asked.workspace_id, leaving), asked.pod_request * asked.replicas
        return not any(over(used + ask, self.queues[asked.workspace_id].quota, ask))

    def _free(self, asked: PendingWorkload, pods: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        for name, devices in pods:
            self.machines[name].take(asked.pod_request, devices, -1)

    def _placed(self, held: RunningWorkload) -> AdmittedWorkload:
        asked = held.asked
        share = 0 < asked.pod_request.gpu_milli < MILLI
        return AdmittedWorkload(
            uid=asked.uid,
            workspace_id=asked.workspace_id,
            priority=asked.priority,
            admitted_at=held.placed_at,
            nodes=tuple(name for name, _ in held.pods),
            pod_request=asked.pod_request,
            preemptible=asked.preemptible,
            is_terminating=held.leaving,
            devices=tuple(devices[0] for _, devices in held.pods) if share else (),
            guaranteed_until=held.guaranteed_until if asked.preemptible else None,
        )


def over(used: Resources, quota: Quota, counted: Resources) -> Iterator[bool]:
    """For each resource that counts, whether more is used than the quota."""
    yield quota.gpu_milli is not None and counted.gpu_milli > 0 and used.gpu_milli > quota.gpu_milli
    yield quota.cpu_milli is not None and counted.cpu_milli > 0 and used.cpu_milli > quota.cpu_milli
    yield quota.memory_bytes is not None and counted.memory_bytes > 0 and used.memory_bytes > quota.memory_bytes


amounts = st.builds(
    Resources,
    st.sampled_from([0, 0, 250, 400, 500, 1000, 1000, 2000, 3000, 4000]),
    st.sampled_from([0, 500, 1000, 2000, 4000]),
    st.integers(0, 4),
)


def often(usual: T, *others: T) -> st.SearchStrategy[T]:
    return st.sampled_from([usual, usual, usual, *others])


@st.composite
def machines(draw: st.DrawFn) -> list[ModelNode]:
    return [
        ModelNode(
            f"node-{number}",
            draw(st.sampled_from([0, 1, 2, 4])),
            draw(st.sampled_from([2000, 4000, 8000])),
            draw(st.sampled_from([2, 6, 12])),
            draw(often("default", "spare")),
            draw(often(True, False)),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@st.composite
def queues(draw: st.DrawFn) -> list[Queue]:
    quota = st.builds(
        Quota,
        st.sampled_from([None, 0, 1000, 2000, 4000, 8000]),
        often(None, 2000, 8000),
        often(None, 4, 12),
    )
    return [
        Queue(
            number,
            f"team-{number}",
            draw(quota),
            draw(st.sampled_from(QueuePolicy)),
            draw(st.booleans()),
            draw(often(0, 1)),
        )
        for number in range(draw(st.integers(1, 3)))
    ]


def _reserved(world: ClusterModel) -> st.SearchStrategy[tuple[str, ...]]:
    """A reservation that was made for some request, on nodes as they were then."""
    return st.lists(st.sampled_from([*world.machines, "gone"]), min_size=1, max_size=2).map(tuple)


@st.composite
def asks(draw: st.DrawFn, uid: str, world: ClusterModel, plain: bool) -> PendingWorkload:
    """What somebody wants. A plain one is ready, and takes any node of the default pool."""
    asked = PendingWorkload(
        uid=uid,
        workspace_id=draw(st.sampled_from(sorted(world.queues))),
        priority=draw(st.integers(0, 2)),
        submitted_at=draw(st.integers(0, 9)),
        replicas=draw(often(1, 2, 3)),
        pod_request=draw(amounts),
        preemptible=draw(st.booleans()),
    )
    if plain:
        return asked
    names = st.lists(st.sampled_from([*world.machines, "gone"]), min_size=1, max_size=2, unique=True).map(tuple)
    named = draw(names) if draw(often(False, True)) else ()
    return structs.replace(
        asked,
        requeued=draw(often(False, True)),
        reserved_nodes=draw(_reserved(world)) if draw(often(False, True)) else (),
        specified_nodes=named,
        replicas=len(named) or asked.replicas,
        node_pools=draw(st.sampled_from([("default",), ("spare",), ("spare", "default")])),
        tolerate_all=draw(often(False, True)),
        not_before=draw(often(None, NOW - 1, NOW, NOW + 5)),
        unfinished_dependencies=draw(often((), ("other",))),
        failed_dependency=draw(often("", "bad")),
    )


@st.composite
def worlds(draw: st.DrawFn) -> ClusterModel:
    """A cluster of every kind of node, with every kind of workload."""
    world = ClusterModel(draw(machines()), draw(queues()))
    for number in range(draw(st.integers(0, 6))):
        asked = draw(asks(f"placed-{number}", world, plain=True))
        nodes = [draw(st.sampled_from(list(world.machines))) for _ in range(asked.replicas)]
        if world.start(asked, nodes):
            world.held[asked.uid].placed_at = draw(st.integers(0, 9))
            world.held[asked.uid].leaving = draw(often(False, True))
            world.held[asked.uid].guaranteed_until = draw(often(None, NOW, NOW + 1, NOW + 4))
    for number in range(draw(st.integers(0, 7))):
        asked = draw(asks(f"waiting-{number}", world, plain=False))
        world.waiting[asked.uid] = asked
    return world


def crowded(seed: int) -> ClusterModel:
    """A cluster about capacity and quotas only: full of preemptible workloads, with a few pending ones."""
    rng = random.Random(seed)
    world = ClusterModel(
        [
            ModelNode(f"node-{number}", rng.choice((2, 4, 4)), rng.choice((6000, 64000)), rng.choice((6, 64)))
            for number in range(rng.randint(1, 3))
        ],
        [
            Queue(
                number,
                f"team-{number}",
                Quota(
                    rng.choice((None, 0, 1000, 2000, 3000, 4000, 6000)),
                    rng.choice((None, None, None, 2000, 6000)),
                    rng.choice((None, None, None, 2, 6)),
                ),
                rng.choice(list(QueuePolicy)),
                rng.random() < 0.7,
                rng.choice((0, 0, 1)),
            )
            for number in range(rng.randint(1, 3))
        ],
    )

    def ask(uid: str, gpus: Sequence[int], preemptible: float) -> PendingWorkload:
        return PendingWorkload(
            uid=uid,
            workspace_id=rng.choice(list(world.queues)),
            priority=rng.randint(0, 2),
            submitted_at=rng.randint(0, 9),
            replicas=rng.choice((1, 1, 1, 2, 3)),
            pod_request=Resources(rng.choice(gpus), rng.choice((0, 500, 1000)), rng.choice((0, 1))),
            preemptible=rng.random() < preemptible,
        )

    for number in range(rng.randint(0, 14)):
        asked = ask(f"placed-{number}", (0, 300, 400, 500, 600, 1000, 1000, 1000, 2000), 0.8)
        if world.start(asked, [rng.choice(list(world.machines)) for _ in range(asked.replicas)]):
            world.held[asked.uid].placed_at = rng.randint(0, 9)
            world.held[asked.uid].leaving = rng.random() < 0.1
            world.held[asked.uid].guaranteed_until = rng.choice((None, None, None, None, NOW, NOW + 1, NOW + 4))
    last: PendingWorkload | None = None
    for number in range(rng.randint(1, 6)):
        uid = f"waiting-{number}"
        fresh = ask(uid, (0, 300, 500, 700, 1000, 1000, 2000, 4000), 0.4)
        last = structs.replace(last, uid=uid) if last and rng.random() < 0.3 else fresh
        world.waiting[uid] = last
    return world


crowded_worlds = st.builds(crowded, st.integers(0, 2**32 - 1))
any_worlds = st.one_of(crowded_worlds, worlds())
