"""One scheduling cycle: which workspace is next, and which of its workloads starts.

Workspaces are ordered by their next workload: in quota before over quota, then workloads with a reservation, requeued
ones, the smallest dominant share of the quota (of the cluster, without a quota), and last priority, submission time
and uid. So workspaces grow towards their quotas at the same pace whatever they submit, nobody borrows capacity that an
in-quota workload requests, and the same snapshot always gives the same plan. Each step starts the first workload of
the chosen workspace that can start.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from stoker.scheduler.cycle.queue_cursor import CursorSortKey, QueueCursor
from stoker.scheduler.cycle.state import CycleState, Horizon
from stoker.scheduler.placement.packing import find_placement
from stoker.scheduler.placement.preemption import reserve_or_preempt


class SchedulingCycle:
    """A cycle over all workspaces. `interrupted_queue` is the workspace whose step was paused."""

    def __init__(
        self, state: CycleState, cursors: Mapping[int, QueueCursor], interrupted_queue: int | None = None
    ) -> None:
        self.state = state
        self.cursors = cursors
        self.interrupted_queue = interrupted_queue

    def copy(self) -> "SchedulingCycle":
        """An independent copy that can continue differently."""
        state = self.state.copy()
        cursors = {number: cursor.copy(state.usage_by_queue[number]) for number, cursor in self.cursors.items()}
        return SchedulingCycle(state, cursors, self.interrupted_queue)

    def run(self, until: str = "") -> None:
        """Run to the end, until the workload `until` is decided, or until a cursor pauses.

        A cursor pauses twice: when it reaches its pause index and, if other workspaces go first, when it is next.
        """
        heap = [
            self._heap_entry(number)
            for number, cursor in self.cursors.items()
            if not cursor.exhausted and number != self.interrupted_queue
        ]
        heapify(heap)
        while heap or self.interrupted_queue is not None:
            number = heappop(heap)[1] if self.interrupted_queue is None else self.interrupted_queue
            cursor, self.interrupted_queue = self.cursors[number], number
            cursor.cached_sort_key = None
            if cursor.is_paused or schedule_next(self.state, cursor):
                return
            self.interrupted_queue = None
            if until and (
                until in self.state.started or (until in cursor.pending_queue.sort_key_by_uid and cursor.exhausted)
            ):
                return
            if cursor.is_paused:
                return
            if not cursor.exhausted:
                heappush(heap, self._heap_entry(number))

    def _heap_entry(self, number: int) -> tuple[CursorSortKey, int]:
        """A workspace keeps its sort key until it is scheduled."""
        cursor = self.cursors[number]
        if cursor.cached_sort_key is None:
            cursor.cached_sort_key = cursor.compute_sort_key(
                cursor.quota_usage.dominant_share(self.state.cluster_capacity)
            )
        return cursor.cached_sort_key, number


def schedule_next(state: CycleState, cursor: QueueCursor) -> bool:
    """Advance in a queue until a workload starts, gets a reservation, or other workspaces have to go first.

    Returns True if a pause interrupted it.
    """
    usage, pending_queue = cursor.quota_usage, cursor.pending_queue
    while not cursor.exhausted:
        equivalence_class, workload = pending_queue.classes[cursor.index], pending_queue.workloads[cursor.index]
        borrows = equivalence_class.preemptible and cursor.would_borrow(equivalence_class)
        if borrows and not cursor.borrowing:
            break
        may_start = not (borrows and cursor.has_reservation) and (
            equivalence_class.preemptible or usage.fits(equivalence_class.total_request)
        )
        nodes = find_placement(state, Horizon.IDLE, workload, equivalence_class) if may_start else None
        if nodes is not None:
            state.start(workload, nodes)
            if borrows:
                state.started_over_quota.add(workload.uid)
            cursor.advance()
            break
        reserved = reserve_or_preempt(state, workload, equivalence_class)
        if not reserved and usage.fits_after_termination(equivalence_class.total_request):
            state.mark_contended(workload)
        cursor.skip(reserved)
        if reserved:
            break
        if cursor.index == cursor.pause_index:
            return True
    return False
