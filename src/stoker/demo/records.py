"""A workload of the past: its changes and its pods while it is lived through, and the rows that are left of it."""

import random
from collections.abc import Iterable, Sequence

from stoker.controller.dispatch import allocations, pod_name
from stoker.controller.effects import order
from stoker.domain.events import Event
from stoker.domain.lifecycle import Change, transition
from stoker.domain.names import new_uuid
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Pod as PodRow
from stoker.domain.workload import PodPhase, Workload
from stoker.engines.base import Order, PodOrder
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.pods import Pod
from stoker.server.demo.rooms import Seat
from stoker.store.past import Held, Life


class Job:
    """A workload of the past: all its changes, all its pods, and those of them that are alive."""

    def __init__(self, change: Change, workspace: str) -> None:
        self.workspace = workspace
        self.changes = [change]
        self.pods: list[Pod] = []
        self.alive: list[Pod] = []

    @property
    def workload(self) -> Workload:
        return self.changes[-1].workload

    @property
    def gpus(self) -> int:
        return self.workload.spec.total.gpu_milli // MILLI

    def go_through(self, event: Event) -> bool:
        change = transition(self.workload, event)
        if change is not None:
            self.changes.append(change)
        return change is not None


def life_of(job: Job, machines: Machines, now: int) -> Life:
    """A job as it is written down."""
    rows = [row_of(pod, now) for pod in job.pods]
    nodes = {row.node: machines.nodes[machines.place[row.node]] for row in rows}
    held = [
        Held(allocation, row.ended_at)
        for row in rows
        for allocation in allocations(row, nodes[row.node], row.created_at)
    ]
    return Life(job.changes, rows, held)


def row_of(pod: Pod, now: int) -> PodRow:
    seen, place, attempt = pod.seen(now), pod.place, pod.attempt
    return PodRow(
        uid=place.uid,
        workload_uid=attempt.workload_uid,
        name=place.name,
        attempt=attempt.attempt,
        revision=attempt.revision,
        rank=place.rank,
        node=place.node,
        resources=Resources(attempt.gpu_milli, attempt.cpu_milli, attempt.memory_bytes),
        devices=place.devices,
        phase=seen.phase,
        ready=seen.ready and seen.phase is PodPhase.RUNNING,
        exit_code=seen.exit_code,
        signal=seen.signal,
        message=seen.message,
        restarts=seen.restarts,
        created_at=place.created_at,
        started_at=seen.started_at,
        ended_at=seen.ended_at,
    )


def order_of(workload: Workload, ranks: Iterable[int], seats: Sequence[Seat], chance: random.Random) -> Order:
    return order(
        workload,
        [
            PodOrder(new_uuid(chance.randbytes), pod_name(workload, rank), rank, node, devices, {})
            for rank, (node, devices) in zip(ranks, seats, strict=True)
        ],
    )
