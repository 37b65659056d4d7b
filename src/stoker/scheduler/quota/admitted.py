"""Admitted workloads, by uid and by workspace in preemption order.

Preemption order: lowest priority first, then newest, then smallest, then uid.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.capacity.node_free import UNKNOWN_DEVICE
from stoker.scheduler.model import AdmittedWorkload, Queue
from stoker.scheduler.quota.usage import QuotaUsage, is_borrowed

EvictionRank = tuple[int, int, int, int, str]
PreemptionCandidate = tuple[EvictionRank, AdmittedWorkload, Resources]
"""Preemption rank, workload and allocation."""
PreemptionCandidates = list[PreemptionCandidate]
DEFAULT_QUEUE = Queue(0, "")
"""Policy of an unknown workspace: FIFO without a quota."""


def allocated_resources(workload: AdmittedWorkload) -> Resources:
    return (
        sum(workload.pod_requests, NO_RESOURCES)
        if workload.pod_requests
        else workload.pod_request * len(workload.nodes)
    )


def pod_allocations(workload: AdmittedWorkload) -> Iterator[tuple[str, int, Resources]]:
    """Of each pod: its node, its shared device, and the capacity that it frees."""
    pods = len(workload.nodes)
    devices = workload.devices or (UNKNOWN_DEVICE,) * pods
    return zip(
        workload.nodes,
        devices,
        workload.released_by_pod or workload.pod_requests or (workload.pod_request,) * pods,
        strict=True,
    )


def candidate_of(workload: AdmittedWorkload) -> PreemptionCandidate:
    allocated = allocated_resources(workload)
    return (
        (workload.priority, -workload.admitted_at, allocated.gpu_milli, allocated.cpu_milli, workload.uid),
        workload,
        allocated,
    )


class AdmittedIndex:
    """All admitted workloads. `candidates_by_queue` has the preemptible ones of each workspace in preemption order."""

    def __init__(self) -> None:
        self.workloads: dict[str, AdmittedWorkload] = {}
        self.terminating: dict[str, AdmittedWorkload] = {}
        self.queues: dict[int, Queue] = {}
        self.usage_by_queue: dict[int, QuotaUsage] = {}
        self.candidates_by_queue: dict[int, PreemptionCandidates] = {}

    def usage_of(self, workspace_id: int) -> QuotaUsage:
        usage = self.usage_by_queue.get(workspace_id)
        if usage is None:
            usage = self.usage_by_queue[workspace_id] = QuotaUsage(Quota())
        return usage

    def queue_of(self, workspace_id: int) -> Queue:
        return self.queues.get(workspace_id, DEFAULT_QUEUE)

    def update_queues(self, changed: Iterable[Queue], lost: Iterable[int]) -> None:
        for workspace_id in lost:
            self.queues.pop(workspace_id, None)
            self.usage_of(workspace_id).set_quota(Quota())
        for queue in changed:
            self.queues[queue.workspace_id] = queue
            self.usage_of(queue.workspace_id).set_quota(queue.quota)

    def update(self, changed: Iterable[AdmittedWorkload], gone: Iterable[str]) -> list[AdmittedWorkload]:
        """Add, replace and remove workloads; returns their previous versions."""
        before = [self._remove(uid) for uid in gone]
        for workload in changed:
            before.append(self._remove(workload.uid))
            self._add(workload)
        return [workload for workload in before if workload is not None]

    def _add(self, workload: AdmittedWorkload) -> None:
        allocated, usage = allocated_resources(workload), self.usage_of(workload.workspace_id)
        self.workloads[workload.uid] = workload
        usage.used += allocated
        if workload.is_terminating:
            self.terminating[workload.uid] = workload
            return
        usage.used_after_termination += allocated
        if workload.preemptible:
            insort(self.candidates_by_queue.setdefault(workload.workspace_id, []), candidate_of(workload))

    def _remove(self, uid: str) -> AdmittedWorkload | None:
        workload = self.workloads.pop(uid, None)
        if workload is None:
            return None
        allocated, usage = allocated_resources(workload), self.usage_of(workload.workspace_id)
        usage.used -= allocated
        if workload.is_terminating:
            del self.terminating[uid]
            return workload
        usage.used_after_termination -= allocated
        if workload.preemptible:
            candidates = self.candidates_by_queue[workload.workspace_id]
            del candidates[bisect_left(candidates, candidate_of(workload))]
        return workload


def is_borrowing(admitted: AdmittedIndex, uid: str) -> bool:
    """Whether a workload is admitted and its workspace is over quota in a resource that it uses."""
    workload = admitted.workloads.get(uid)
    return workload is not None and is_borrowed(
        allocated_resources(workload), admitted.usage_of(workload.workspace_id).over_quota()
    )
