"""The pending queue of one workspace, in scheduling order.

Workloads with a reservation go first, then requeued ones, then by priority, submission time and uid. Exception: if the
workspace allows preemption, a requeued preemptible workload goes first only among workloads of its own priority;
otherwise it would reclaim the capacity it was just preempted from, and be preempted again.

A queue is immutable: `with_changes` returns the next one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.model import PendingWorkload

PendingSortKey = tuple[int, int, bool, int, str]
NEVER = 1 << 62
RESERVED_RANK = 0
"""Rank of workloads with a reservation."""
PRIORITY_RANK = 2
"""From this rank on, the order is strictly by priority."""


class EquivalenceClass(Struct, frozen=True, eq=False):
    """The properties that decide whether and where a workload starts. Equivalent workloads share one object."""

    pod_request: Resources
    replicas: int
    total_request: Resources
    request_vector: tuple[int, int, int, int]
    priority: int
    preemptible: bool
    specified_nodes: tuple[str, ...]
    node_pools: tuple[str, ...]
    tolerate_all: bool


NOT_ELIGIBLE = EquivalenceClass(NO_RESOURCES, 0, NO_RESOURCES, (0, 0, 0, 0), 0, False, (), (), False)
"""The class of all workloads that must not start yet."""
EquivalenceClasses = dict[tuple[Any, ...], EquivalenceClass]


def equivalence_class_of(workload: PendingWorkload, classes: EquivalenceClasses) -> EquivalenceClass:
    pod_request, replicas = workload.pod_request, workload.replicas
    request_vector = (pod_request.gpu_milli, pod_request.cpu_milli, pod_request.memory_bytes, replicas)
    specified_nodes = workload.specified_nodes
    # Which of the specified nodes still need a pod differs between workloads.
    key = (
        request_vector,
        workload.priority,
        workload.preemptible,
        workload.node_pools,
        workload.tolerate_all,
        workload.uid if specified_nodes else "",
    )
    found = classes.get(key)
    if found is None or found.specified_nodes != specified_nodes:
        found = classes[key] = EquivalenceClass(
            pod_request,
            replicas,
            pod_request * replicas,
            request_vector,
            workload.priority,
            workload.preemptible,
            specified_nodes,
            workload.node_pools,
            workload.tolerate_all,
        )
    return found


class PendingQueue:
    """The pending workloads of a workspace. `sort_keys`, `workloads` and `classes` are parallel lists."""

    __slots__ = (
        "built_at",
        "classes",
        "next_eligible_at",
        "preemption_enabled",
        "sort_key_by_uid",
        "sort_keys",
        "workloads",
    )

    def __init__(
        self, workloads: Iterable[PendingWorkload], now: int, preemption_enabled: bool, classes: EquivalenceClasses
    ) -> None:
        self.preemption_enabled = preemption_enabled
        ordered = sorted(
            ((self.sort_key_of(workload), workload) for workload in workloads if not workload.failed_dependency),
            key=_sort_key,
        )
        self.sort_keys = [key for key, _ in ordered]
        self.workloads = [workload for _, workload in ordered]
        self.sort_key_by_uid: dict[str, PendingSortKey] = {key[4]: key for key in self.sort_keys}
        self.built_at, self.next_eligible_at = now, NEVER
        self.classes = [self._classify(workload, classes) for workload in self.workloads]

    def with_changes(
        self, added: Mapping[str, PendingWorkload], removed: Iterable[str], classes: EquivalenceClasses
    ) -> "PendingQueue":
        """A queue with some workloads added or replaced, and some removed."""
        changed = PendingQueue((), self.built_at, self.preemption_enabled, classes)
        changed.sort_keys, changed.workloads, changed.classes = (
            self.sort_keys.copy(),
            self.workloads.copy(),
            self.classes.copy(),
        )
        changed.sort_key_by_uid, changed.next_eligible_at = self.sort_key_by_uid.copy(), self.next_eligible_at
        for uid in (*removed, *added):
            changed._remove(uid)
        for workload in added.values():
            if not workload.failed_dependency:
                changed._insert(workload, classes)
        return changed

    def sort_key_of(self, workload: PendingWorkload) -> PendingSortKey:
        first = workload.requeued and not (workload.preemptible and self.preemption_enabled)
        rank = RESERVED_RANK if workload.reserved_nodes else 1 if first else PRIORITY_RANK
        return (rank, -workload.priority, not workload.requeued, workload.submitted_at, workload.uid)

    def index_of(self, uid: str) -> int:
        """The number of workloads before it."""
        return bisect_left(self.sort_keys, self.sort_key_by_uid[uid])

    def reserved_workloads(self) -> list[PendingWorkload]:
        """Workloads for which others were preempted."""
        return self.workloads[: bisect_left(self.sort_keys, (RESERVED_RANK + 1,))]

    def first_ranked_index(self) -> int:
        return bisect_left(self.sort_keys, (PRIORITY_RANK,))

    def is_current(self, now: int, preemption_enabled: bool) -> bool:
        """Whether no start time has come and the preemption policy is the same since it was built."""
        return self.preemption_enabled == preemption_enabled and self.built_at <= now < self.next_eligible_at

    def _classify(self, workload: PendingWorkload, classes: EquivalenceClasses) -> EquivalenceClass:
        until = workload.not_before
        if until is not None and until > self.built_at:
            self.next_eligible_at = min(self.next_eligible_at, until)
            return NOT_ELIGIBLE
        return NOT_ELIGIBLE if workload.unfinished_dependencies else equivalence_class_of(workload, classes)

    def _remove(self, uid: str) -> None:
        key = self.sort_key_by_uid.pop(uid, None)
        if key is not None:
            index = bisect_left(self.sort_keys, key)
            del self.sort_keys[index], self.workloads[index], self.classes[index]

    def _insert(self, workload: PendingWorkload, classes: EquivalenceClasses) -> None:
        key = self.sort_key_of(workload)
        index = bisect_left(self.sort_keys, key)
        self.sort_keys.insert(index, key)
        self.workloads.insert(index, workload)
        self.classes.insert(index, self._classify(workload, classes))
        self.sort_key_by_uid[workload.uid] = key


def _sort_key(pair: tuple[PendingSortKey, PendingWorkload]) -> PendingSortKey:
    return pair[0]
