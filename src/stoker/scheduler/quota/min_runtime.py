"""Guaranteed minimum runtime: until it has passed, a preemptible workload is not preempted.

A workload started over quota while an in-quota workload is pending gets no guaranteed runtime, so in-quota workloads
wait only for guarantees already in force.
"""

from collections.abc import Iterable

from msgspec import structs

from stoker.scheduler.cycle.pending_queue import NEVER
from stoker.scheduler.cycle.state import CycleState
from stoker.scheduler.model import AdmittedWorkload, PendingWorkload


class MinRuntime:
    """Workloads with a guaranteed runtime. No guarantee ends before `next_expiry`."""

    def __init__(self) -> None:
        self.next_expiry = NEVER
        self._guaranteed: dict[str, AdmittedWorkload] = {}
        self._checked_at = 0

    def update(self, changed: Iterable[AdmittedWorkload], gone: Iterable[str], now: int) -> list[AdmittedWorkload]:
        """Replace and remove workloads. Returns the workloads that changed, and those whose guarantee has ended since
        the last update, with their present preemptibility."""
        found = {workload.uid: workload for workload in changed}
        for uid in gone:
            self._guaranteed.pop(uid, None)
        for uid, workload in found.items():
            self._guaranteed.pop(uid, None)
            if workload.guaranteed_until is not None and workload.preemptible:
                self._guaranteed[uid] = workload
                if workload.guaranteed_until > now:
                    self.next_expiry = min(self.next_expiry, workload.guaranteed_until)
        if not self._checked_at <= now < self.next_expiry:
            ends = {uid: workload.guaranteed_until or 0 for uid, workload in self._guaranteed.items()}
            switched_uids = [uid for uid, end in ends.items() if (end > self._checked_at) is not (end > now)]
            found |= {uid: self._guaranteed[uid] for uid in switched_uids}
            self.next_expiry = min((end for end in ends.values() if end > now), default=NEVER)
        self._checked_at = now
        return [_with_exemption(workload, now) for workload in found.values()]


def current_exemption(workload: AdmittedWorkload) -> int | None:
    """The end of a guarantee in force; None without one."""
    return None if workload.preemptible else workload.guaranteed_until


def exempt_until(state: CycleState, workload: PendingWorkload, now: int) -> int | None:
    """The end of the guaranteed runtime of a workload that starts now."""
    seconds = state.admitted.queue_of(workload.workspace_id).guaranteed_seconds
    if not seconds or not workload.preemptible:
        return None
    if workload.uid in state.started_over_quota and any(map(state.is_contended, state.started[workload.uid])):
        return None
    return now + seconds * 1000


def _with_exemption(workload: AdmittedWorkload, now: int) -> AdmittedWorkload:
    if workload.guaranteed_until is None or workload.guaranteed_until <= now:
        return workload
    return structs.replace(workload, preemptible=False)
