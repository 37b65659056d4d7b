"""The scheduler's input and output: the snapshot, the plan, and the delta between two snapshots.

All structs are frozen; the scheduler sees nothing else of a cluster.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from stoker.domain.access.identity import QueuePolicy, Quota
from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.cluster.resources import Resources
from stoker.scheduler.explain.reasons import PendingReason

Item = TypeVar("Item")
Key = TypeVar("Key")


class NodeInfo(Struct, frozen=True):
    """A node and its free capacity. `free_whole_gpus` counts entirely free devices; `shared_free_milli` has the free
    milli-GPUs of each partly allocated device. A schedulable node is ready, healthy and not cordoned."""

    name: str
    free_cpu_milli: int
    free_memory_bytes: int
    free_whole_gpus: int
    shared_free_milli: tuple[int, ...] = ()
    capacity: Resources = Resources()
    is_schedulable: bool = True
    pool: str = DEFAULT_POOL
    shared_devices: tuple[int, ...] = ()
    """The index of each device of `shared_free_milli`. Without it, the release of a GPU share is underestimated."""
    model: str = ""
    """GPU model."""
    faulty_gpus: int = 0
    """Faulty GPUs; they accept no pods and are not counted as free."""


class PendingWorkload(Struct, frozen=True, kw_only=True):
    """A workload with `replicas` pods to place, all or none. A pod requests whole GPUs, or a fraction of one.

    `unfinished_dependencies` have not finished; `failed_dependency` finished without success.
    """

    uid: str
    workspace_id: int
    priority: int
    submitted_at: int
    replicas: int
    pod_request: Resources
    preemptible: bool = False
    requeued: bool = False
    reserved_nodes: tuple[str, ...] = ()
    """The node of each replica with capacity reserved by preemption. Such a workload goes first."""
    specified_nodes: tuple[str, ...] = ()
    node_pools: tuple[str, ...] = (DEFAULT_POOL,)
    tolerate_all: bool = False
    not_before: int | None = None
    unfinished_dependencies: tuple[str, ...] = ()
    failed_dependency: str = ""


class AdmittedWorkload(Struct, frozen=True, kw_only=True):
    """A workload with allocated capacity: the node of each of its pods."""

    uid: str
    workspace_id: int
    priority: int
    admitted_at: int
    nodes: tuple[str, ...]
    pod_request: Resources
    preemptible: bool = False
    is_terminating: bool = False
    """Its pods are terminating: the capacity will be free, but is not yet."""
    devices: tuple[int, ...] = ()
    """For a fraction of a GPU: the index of the shared device of each pod."""
    pod_requests: tuple[Resources, ...] = ()
    """The allocation of each pod, if they differ: while an update replaces pods by larger or smaller ones."""
    guaranteed_until: int | None = None
    """End of the guaranteed runtime: until then it is not preempted."""
    released_by_pod: tuple[Resources, ...] = ()
    """The capacity that each pod frees for others, if some of its GPUs are faulty and stay unusable."""


class Queue(Struct, frozen=True):
    """The queue of one workspace and its scheduling policy."""

    workspace_id: int
    name: str
    quota: Quota = Quota()
    policy: QueuePolicy = QueuePolicy.FIFO
    preemption: bool = True
    guaranteed_seconds: int = 0
    """Guaranteed runtime of preemptible workloads."""


class Snapshot(Struct, frozen=True):
    """The scheduler's view of one cluster at one moment."""

    now: int
    nodes: tuple[NodeInfo, ...]
    queues: tuple[Queue, ...]
    pending: tuple[PendingWorkload, ...]
    admitted: tuple[AdmittedWorkload, ...]


class Placement(Struct, frozen=True):
    """Start all replicas, one pod per entry of `nodes`; a node may occur more than once. The attempt is not preempted
    before `guaranteed_until`."""

    uid: str
    nodes: tuple[str, ...]
    guaranteed_until: int | None = None


class Preemption(Struct, frozen=True):
    """Terminate and requeue this workload so that another can start."""

    uid: str
    preemptor_uid: str


class DependencyFailure(Struct, frozen=True):
    """The workload can never start: a dependency finished without success."""

    uid: str
    dependency: str

    @property
    def message(self) -> str:
        return f"The dependency {self.dependency} did not succeed."


class Pending(Struct, frozen=True):
    """Why a workload is pending, and its position in the queue of its workspace, counted from 1."""

    reason: PendingReason
    position: int


class Plan(Struct, frozen=True):
    """One decision for each pending workload: it is placed, fails, or stays in `pending`.

    The reasons in `pending` are computed on access. `reservations` has the nodes reserved for each pending workload
    that others were preempted for; an empty tuple ends a reservation.
    """

    placements: tuple[Placement, ...]
    preemptions: tuple[Preemption, ...]
    failures: tuple[DependencyFailure, ...]
    pending: Mapping[str, Pending]
    reservations: Mapping[str, tuple[str, ...]] = {}


class SnapshotDelta(Struct, frozen=True, kw_only=True):
    """Objects that are new or changed, and keys of removed ones. A workload that ends also changes its nodes."""

    now: int
    pending: tuple[PendingWorkload, ...] = ()
    no_longer_pending: tuple[str, ...] = ()
    admitted: tuple[AdmittedWorkload, ...] = ()
    no_longer_admitted: tuple[str, ...] = ()
    nodes: tuple[NodeInfo, ...] = ()
    removed_nodes: tuple[str, ...] = ()
    queues: tuple[Queue, ...] = ()
    removed_queues: tuple[int, ...] = ()


def diff(before: Snapshot, after: Snapshot) -> SnapshotDelta:
    """The delta from one snapshot to the next."""
    pending, no_longer_pending = _diff_items(before.pending, after.pending, lambda item: item.uid)
    admitted, no_longer_admitted = _diff_items(before.admitted, after.admitted, lambda item: item.uid)
    nodes, removed_nodes = _diff_items(before.nodes, after.nodes, lambda item: item.name)
    queues, removed_queues = _diff_items(before.queues, after.queues, lambda item: item.workspace_id)
    return SnapshotDelta(
        now=after.now,
        pending=pending,
        no_longer_pending=no_longer_pending,
        admitted=admitted,
        no_longer_admitted=no_longer_admitted,
        nodes=nodes,
        removed_nodes=removed_nodes,
        queues=queues,
        removed_queues=removed_queues,
    )


def _diff_items(
    before: Iterable[Item], after: Iterable[Item], id_of: Callable[[Item], Key]
) -> tuple[tuple[Item, ...], tuple[Key, ...]]:
    before_by_key = {id_of(item): item for item in before}
    after_by_key = {id_of(item): item for item in after}
    changed = tuple(
        item for key, item in after_by_key.items() if (old := before_by_key.get(key)) is not item and old != item
    )
    return changed, tuple(key for key in before_by_key if key not in after_by_key)
