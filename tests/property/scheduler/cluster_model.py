"""A small cluster that checks the scheduler by its own arithmetic: devices one by one, pods one by one."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import strategies as st
from msgspec import structs

from stoker.domain.identity import QueuePolicy, Quota
from stoker.domain.resources import MILLI, NONE, Resources
from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting

T = TypeVar("T")
NOW = 1_000_000
MODELS = ("H100", "", "MI300X")


@dataclass
class Machine:
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
        """Take one pod in; gives its devices, or None when it has no room."""
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

    def emptied(self) -> "Machine":
        return Machine(self.name, self.gpus, self.total.cpu_milli, self.total.memory_bytes, self.pool, self.usable)

    def room(self) -> NodeRoom:
        shared = sorted((free, index) for index, free in self.devices.items() if 0 < free < MILLI)
        return NodeRoom(
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
class Held:
    """A workload that runs: what it asked for, and the machine and devices of each pod."""

    asked: Waiting
    pods: list[tuple[str, tuple[int, ...]]]
    placed_at: int
    leaving: bool = False
    guaranteed_until: int | None = None

    @property
    def total(self) -> Resources:
        return self.asked.each * len(self.pods)


class World:
    def __init__(self, machines: Sequence[Machine], queues: Sequence[Queue]) -> None:
        self.machines = {machine.name: machine for machine in machines}
        self.queues = {queue.workspace_id: queue for queue in queues}
        self.waiting: dict[str, Waiting] = {}
        self.held: dict[str, Held] = {}
        self.now = NOW

    def __repr__(self) -> str:
        return repr(self.snapshot())

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.now,
            tuple(machine.room() for machine in self.machines.values()),
            tuple(self.queues.values()),
            tuple(self.waiting.values()),
            tuple(self._placed(held) for held in self.held.values()),
        )

    def start(self, asked: Waiting, nodes: Sequence[str], guaranteed_until: int | None = None) -> bool:
        """Put a gang on these machines, all of it or nothing."""
        pods: list[tuple[str, tuple[int, ...]]] = []
        for name in nodes:
            devices = self.machines[name].put(asked.each)
            if devices is None:
                self._free(asked, pods)
                return False
            pods.append((name, devices))
        self.held[asked.uid] = Held(asked, pods, self.now, guaranteed_until=guaranteed_until)
        self.waiting.pop(asked.uid, None)
        return True

    def remove(self, uid: str) -> Held:
        held = self.held.pop(uid)
        self._free(held.asked, held.pods)
        return held

    def restore(self, held: Held) -> None:
        """Put back what was removed, on the very devices it had."""
        for name, devices in held.pods:
            self.machines[name].take(held.asked.each, devices)
        self.held[held.asked.uid] = held

    def slots(self, asked: Waiting, name: str) -> int:
        """How many pods a machine takes, tried one by one."""
        machine, devices = self.machines[name], []
        for _ in range(asked.replicas):
            found = machine.put(asked.each)
            if found is None:
                break
            devices.append(found)
        for found in devices:
            machine.take(asked.each, found, -1)
        return len(devices)

    def fits(self, asked: Waiting) -> bool:
        """Whether there is room for the gang on the nodes it names, or in one of its pools."""
        allowed = [name for name, machine in self.machines.items() if machine.usable or asked.tolerate_all]
        if asked.specified_nodes:
            return all(name in allowed and self.slots(asked, name) for name in asked.specified_nodes)
        return any(
            sum(self.slots(asked, name) for name in allowed if self.machines[name].pool == pool) >= asked.replicas
            for pool in asked.pools
        )

    def used(self, workspace_id: int, leaving: bool = True) -> Resources:
        amounts = (
            held.total
            for held in self.held.values()
            if held.asked.workspace_id == workspace_id and (leaving or not held.leaving)
        )
        return sum(amounts, NONE)

    def inside(self, asked: Waiting, leaving: bool = True) -> bool:
        """Whether it would stay inside the quota of its workspace."""
        used, ask = self.used(asked.workspace_id, leaving), asked.each * asked.replicas
        return not any(over(used + ask, self.queues[asked.workspace_id].quota, ask))

    def _free(self, asked: Waiting, pods: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        for name, devices in pods:
            self.machines[name].take(asked.each, devices, -1)

    def _placed(self, held: Held) -> Placed:
        asked = held.asked
        share = 0 < asked.each.gpu_milli < MILLI
        return Placed(
            uid=asked.uid,
            workspace_id=asked.workspace_id,
            priority=asked.priority,
            placed_at=held.placed_at,
            nodes=tuple(name for name, _ in held.pods),
            each=asked.each,
            preemptible=asked.preemptible,
            leaving=held.leaving,
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
def machines(draw: st.DrawFn) -> list[Machine]:
    return [
        Machine(
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


@st.composite
def asks(draw: st.DrawFn, uid: str, world: World, plain: bool) -> Waiting:
    """What somebody wants. A plain one is ready, and takes any node of the default pool."""
    asked = Waiting(
        uid=uid,
        workspace_id=draw(st.sampled_from(sorted(world.queues))),
        priority=draw(st.integers(0, 2)),
        submitted_at=draw(st.integers(0, 9)),
        replicas=draw(often(1, 2, 3)),
        each=draw(amounts),
        preemptible=draw(st.booleans()),
    )
    if plain:
        return asked
    names = st.lists(st.sampled_from([*world.machines, "gone"]), min_size=1, max_size=2, unique=True).map(tuple)
    named = draw(names) if draw(often(False, True)) else ()
    return structs.replace(
        asked,
        requeued=draw(often(False, True)),
        promised=draw(often(False, True)),
        specified_nodes=named,
        replicas=len(named) or asked.replicas,
        pools=draw(st.sampled_from([("default",), ("spare",), ("spare", "default")])),
        tolerate_all=draw(often(False, True)),
        not_before=draw(often(None, NOW - 1, NOW, NOW + 5)),
        waits_for=draw(often((), ("other",))),
        failed_dependency=draw(often("", "bad")),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A cluster of every kind of node, with every kind of workload."""
    world = World(draw(machines()), draw(queues()))
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


def crowded(seed: int) -> World:
    """A cluster that is about room and quotas only: full of what may be preempted, with a few that want in."""
    rng = random.Random(seed)
    world = World(
        [
            Machine(f"node-{number}", rng.choice((2, 4, 4)), rng.choice((6000, 64000)), rng.choice((6, 64)))
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

    def ask(uid: str, gpus: Sequence[int], preemptible: float) -> Waiting:
        return Waiting(
            uid=uid,
            workspace_id=rng.choice(list(world.queues)),
            priority=rng.randint(0, 2),
            submitted_at=rng.randint(0, 9),
            replicas=rng.choice((1, 1, 1, 2, 3)),
            each=Resources(rng.choice(gpus), rng.choice((0, 500, 1000)), rng.choice((0, 1))),
            preemptible=rng.random() < preemptible,
        )

    for number in range(rng.randint(0, 14)):
        asked = ask(f"placed-{number}", (0, 300, 400, 500, 600, 1000, 1000, 1000, 2000), 0.8)
        if world.start(asked, [rng.choice(list(world.machines)) for _ in range(asked.replicas)]):
            world.held[asked.uid].placed_at = rng.randint(0, 9)
            world.held[asked.uid].leaving = rng.random() < 0.1
            world.held[asked.uid].guaranteed_until = rng.choice((None, None, None, None, NOW, NOW + 1, NOW + 4))
    last: Waiting | None = None
    for number in range(rng.randint(1, 6)):
        uid = f"waiting-{number}"
        fresh = ask(uid, (0, 300, 500, 700, 1000, 1000, 2000, 4000), 0.4)
        last = structs.replace(last, uid=uid) if last and rng.random() < 0.3 else fresh
        world.waiting[uid] = last
    return world


crowded_worlds = st.builds(crowded, st.integers(0, 2**32 - 1))
any_worlds = st.one_of(crowded_worlds, worlds())
