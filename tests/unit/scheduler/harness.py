"""Short words for small clusters."""

from collections.abc import Sequence
from typing import Any

from stoker.domain.identity import QueuePolicy, Quota
from stoker.domain.resources import MILLI, Resources
from stoker.scheduler import Plan
from stoker.scheduler.reasons import Reason
from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting

NOW = 1_700_000_000_000
GIB = 2**30


def amount(gpus: float = 0, cpus: float = 1, gib: int = 1) -> Resources:
    return Resources(int(gpus * MILLI), int(cpus * MILLI), gib * GIB)


def node(name: str, gpus: int = 8, cpus: int = 64, gib: int = 256, **more: Any) -> NodeRoom:
    """A node with this much free."""
    fields: dict[str, Any] = {"total": amount(8, 64, 256), **more}
    return NodeRoom(name, cpus * MILLI, gib * GIB, gpus, **fields)


def job(uid: str, gpus: float = 1, replicas: int = 1, cpus: float = 1, gib: int = 1, **more: Any) -> Waiting:
    """One that waits."""
    fields: dict[str, Any] = {"workspace_id": 1, "priority": 80, "submitted_at": NOW, **more}
    return Waiting(uid=uid, replicas=replicas, each=amount(gpus, cpus, gib), **fields)


def running(uid: str, *nodes: str, gpus: float = 1, cpus: float = 1, **more: Any) -> Placed:
    """One that holds room on these nodes."""
    fields: dict[str, Any] = {"workspace_id": 1, "priority": 80, "placed_at": NOW - 1000, **more}
    return Placed(uid=uid, nodes=nodes, each=amount(gpus, cpus), **fields)


def team(
    number: int = 1,
    gpus: float | None = None,
    policy: QueuePolicy = QueuePolicy.FIFO,
    preemption: bool = True,
    guaranteed_seconds: int = 0,
) -> Queue:
    quota = Quota() if gpus is None else Quota(gpu_milli=int(gpus * MILLI))
    return Queue(number, f"team-{number}", quota, policy, preemption, guaranteed_seconds)


def cluster(
    nodes: Sequence[NodeRoom],
    waiting: Sequence[Waiting],
    placed: Sequence[Placed] = (),
    queues: Sequence[Queue] = (team(),),
) -> Snapshot:
    return Snapshot(NOW, tuple(nodes), tuple(queues), tuple(waiting), tuple(placed))


def places(made: Plan) -> dict[str, tuple[str, ...]]:
    return {place.uid: place.nodes for place in made.placements}


def reasons(made: Plan) -> dict[str, Reason]:
    return {uid: wait.reason for uid, wait in made.waits.items()}


def orders(made: Plan) -> dict[str, int]:
    return {uid: wait.order for uid, wait in made.waits.items()}


def victims(made: Plan) -> dict[str, str]:
    return {preempt.uid: preempt.for_uid for preempt in made.preemptions}
