"""Short words for small clusters."""

from collections.abc import Sequence
from typing import Any

from stoker.domain.access.identity import QueuePolicy, Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler import Plan
from stoker.scheduler.explain.reasons import PendingReason
from stoker.scheduler.model import AdmittedWorkload, NodeInfo, PendingWorkload, Queue, Snapshot

NOW = 1_700_000_000_000
GIB = 2**30


def amount(gpus: float = 0, cpus: float = 1, gib: int = 1) -> Resources:
    return Resources(int(gpus * MILLI), int(cpus * MILLI), gib * GIB)


def node(name: str, gpus: int = 8, cpus: int = 64, gib: int = 256, **more: Any) -> NodeInfo:
    """A node with this much free."""
    fields: dict[str, Any] = {"capacity": amount(8, 64, 256), **more}
    return NodeInfo(name, cpus * MILLI, gib * GIB, gpus, **fields)


def job(uid: str, gpus: float = 1, replicas: int = 1, cpus: float = 1, gib: int = 1, **more: Any) -> PendingWorkload:
    """One that waits."""
    fields: dict[str, Any] = {"workspace_id": 1, "priority": 80, "submitted_at": NOW, **more}
    return PendingWorkload(uid=uid, replicas=replicas, pod_request=amount(gpus, cpus, gib), **fields)


def running(uid: str, *nodes: str, gpus: float = 1, cpus: float = 1, **more: Any) -> AdmittedWorkload:
    """An admitted workload on these nodes."""
    fields: dict[str, Any] = {"workspace_id": 1, "priority": 80, "admitted_at": NOW - 1000, **more}
    return AdmittedWorkload(uid=uid, nodes=nodes, pod_request=amount(gpus, cpus), **fields)


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
    nodes: Sequence[NodeInfo],
    waiting: Sequence[PendingWorkload],
    placed: Sequence[AdmittedWorkload] = (),
    queues: Sequence[Queue] = (team(),),
) -> Snapshot:
    return Snapshot(NOW, tuple(nodes), tuple(queues), tuple(waiting), tuple(placed))


def places(made: Plan) -> dict[str, tuple[str, ...]]:
    return {place.uid: place.nodes for place in made.placements}


def reasons(made: Plan) -> dict[str, PendingReason]:
    return {uid: wait.reason for uid, wait in made.pending.items()}


def orders(made: Plan) -> dict[str, int]:
    return {uid: wait.position for uid, wait in made.pending.items()}


def victims(made: Plan) -> dict[str, str]:
    return {preempt.uid: preempt.preemptor_uid for preempt in made.preemptions}
