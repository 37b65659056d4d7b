"""What a plan costs on one core: clusters of 1,000 and 12,500 nodes, 90 % full, with 10,000 and 100,000 waiting."""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from stoker.domain.identity import QueuePolicy, Quota
from stoker.domain.resources import MILLI, Resources
from stoker.scheduler.change import Change
from stoker.scheduler.planner import Planner, plan
from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting

Result = TypeVar("Result")

GIB = 2**30
WORKSPACES = 20
PRIORITIES = (50, 80, 150)
NODE = Resources(8 * MILLI, 128 * MILLI, 1024 * GIB)
START = 1_700_000_000_000


def usual(rng: random.Random) -> list[tuple[Resources, int]]:
    """Forty shapes as people ask for them: mostly one node or less, some gangs, some without a GPU."""
    found = [(Resources(gpus * MILLI, gpus * 14 * MILLI, gpus * 100 * GIB), 1) for gpus in (1, 1, 2, 2, 4, 4, 8, 8)]
    found += [(Resources(8 * MILLI, 100 * MILLI, 800 * GIB), replicas) for replicas in (2, 2, 4, 4, 8, 16, 32, 64)]
    found += [(Resources(gpus * MILLI, rng.randint(4, 16) * gpus * MILLI, rng.randint(20, 120) * gpus * GIB), replicas)
              for gpus in (1, 2, 4) for replicas in (1, 1, 2, 3, 4)]
    found += [(Resources(milli, 4 * MILLI, 16 * GIB), 1) for milli in (250, 500)]
    found += [(Resources(0, cpus * MILLI, cpus * 4 * GIB), replicas) for cpus in (1, 4, 16) for replicas in (1, 1, 8)][:7]
    return found


def distinct(rng: random.Random) -> tuple[Resources, int]:
    """A shape that no other workload has."""
    gpus = rng.choice((0, 1, 1, 2, 4, 8, 8))
    cpu = rng.randint(1, 14 * MILLI) * max(1, gpus)
    memory = rng.randint(GIB, 110 * GIB) * max(1, gpus)
    return Resources(gpus * MILLI, cpu, memory), rng.choice((1, 1, 1, 1, 2, 4, 8))


class Fleet:
    """A cluster that is filled with placed workloads until nine tenths of its GPUs are taken."""

    def __init__(self, seed: int, nodes: int, waiting: int, different: bool) -> None:
        self.rng = random.Random(seed)
        self.different = different
        self.shapes = usual(self.rng)
        self.names = [f"node-{number:05d}" for number in range(nodes)]
        self.free = {name: [NODE.gpu_milli // MILLI, NODE.cpu_milli, NODE.memory_bytes] for name in self.names}
        self.number = 0
        self.placed = tuple(self._fill(nodes * 8 * 9 // 10))
        self.waiting = tuple(self.submitted() for _ in range(waiting))
        owed = nodes * 8 * MILLI // WORKSPACES
        self.queues = tuple(
            Queue(
                number,
                f"team-{number}",
                Quota(gpu_milli=owed * self.rng.choice((8, 10, 12)) // 10, cpu_milli=owed * 20),
                (QueuePolicy.FIFO, QueuePolicy.BALANCE)[number % 2],
                number % 4 != 0,
            )
            for number in range(WORKSPACES)
        )

    def snapshot(self) -> Snapshot:
        return Snapshot(START, tuple(map(self.room, self.names)), self.queues, self.waiting, self.placed)

    def room(self, name: str) -> NodeRoom:
        gpus, cpu, memory = self.free[name]
        return NodeRoom(name, cpu, memory, gpus, total=NODE)

    def shape(self) -> tuple[Resources, int]:
        return distinct(self.rng) if self.different else self.rng.choice(self.shapes)

    def submitted(self) -> Waiting:
        self.number += 1
        each, replicas = self.shape()
        return Waiting(
            uid=f"w{self.number:07d}",
            workspace_id=self.rng.randrange(WORKSPACES),
            priority=self.rng.choice(PRIORITIES),
            submitted_at=START - self.rng.randrange(10**9),
            replicas=replicas,
            each=each,
            preemptible=self.rng.random() < 0.3,
            requeued=self.rng.random() < 0.01,
            not_before=START + 60_000 if self.rng.random() < 0.02 else None,
        )

    def _fill(self, gpus: int) -> Iterator[Placed]:
        taken, at = 0, 0
        while taken < gpus:
            each, _ = self.shape()
            if each.gpu_milli % MILLI:
                continue
            wants = (each.gpu_milli // MILLI, each.cpu_milli, each.memory_bytes)
            name = self.names[at]
            if any(free < want for free, want in zip(self.free[name], wants, strict=True)):
                at = (at + 1) % len(self.names)
                continue
            self.free[name] = [free - want for free, want in zip(self.free[name], wants, strict=True)]
            taken += wants[0]
            self.number += 1
            yield Placed(
                uid=f"p{self.number:07d}",
                workspace_id=self.rng.randrange(WORKSPACES),
                priority=self.rng.choice(PRIORITIES),
                placed_at=START - self.rng.randrange(10**9),
                nodes=(name,),
                each=each,
                preemptible=self.rng.random() < 0.3,
            )
