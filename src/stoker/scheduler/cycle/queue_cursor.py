"""The position of a scheduling cycle in the queue of one workspace.

With `fifo`, the first workload that cannot start blocks the queue. With `balance`, it is skipped and blocks only
workloads of lower priority; a workload that specifies its nodes blocks none. Workloads that must not start yet never
block others.
"""

from bisect import insort
from copy import copy

from stoker.domain.access.identity import QueuePolicy
from stoker.scheduler.cycle.pending_queue import NOT_ELIGIBLE, EquivalenceClass, PendingQueue
from stoker.scheduler.model import Queue
from stoker.scheduler.quota.usage import QuotaUsage

MIN_PRIORITY = -(1 << 62)
NO_INDEX = -1
CursorSortKey = tuple[bool, bool, bool, float, int, int, str]


class QueueCursor:
    __slots__ = (
        "blocked_at",
        "borrowing",
        "cached_sort_key",
        "exhausted",
        "first_ranked_index",
        "has_reservation",
        "index",
        "is_fifo",
        "pause_index",
        "pending_queue",
        "priority_floor",
        "priority_floors",
        "quota_usage",
        "skipped_classes",
        "started_indexes",
        "started_on_reservation",
    )

    def __init__(self, pending_queue: PendingQueue, queue: Queue, usage: QuotaUsage) -> None:
        self.pending_queue = pending_queue
        self.quota_usage = usage
        self.is_fifo = queue.policy is QueuePolicy.FIFO
        self.index, self.exhausted = 0, False
        self.skipped_classes = {NOT_ELIGIBLE}
        self.borrowing = False
        self.priority_floor = MIN_PRIORITY
        self.priority_floors: list[tuple[int, int, str]] = []
        """Index, priority and uid of each skipped workload that blocks lower priorities."""
        self.started_indexes: list[int] = []
        """Indexes of started workloads, sorted."""
        self.started_on_reservation: frozenset[int] = frozenset()
        """Indexes of workloads that started on reserved capacity before the cycle reached them."""
        self.blocked_at: int | None = None
        self.has_reservation = False
        """A workload has a reservation: until it has started, its workspace starts nothing over quota."""
        self.pause_index = NO_INDEX
        self.cached_sort_key: CursorSortKey | None = None
        self.first_ranked_index = pending_queue.first_ranked_index()
        self._seek_candidate()

    @property
    def is_paused(self) -> bool:
        return self.index == self.pause_index

    def copy(self, usage: QuotaUsage) -> "QueueCursor":
        clone = copy(self)
        clone.quota_usage = usage
        clone.skipped_classes = self.skipped_classes.copy()
        clone.priority_floors = self.priority_floors.copy()
        clone.started_indexes = self.started_indexes.copy()
        return clone

    def would_borrow(self, equivalence_class: EquivalenceClass) -> bool:
        """Whether this would run over the quota of the workspace."""
        return equivalence_class.preemptible and not self.quota_usage.fits_after_termination(
            equivalence_class.total_request
        )

    def compute_sort_key(self, share: float) -> CursorSortKey:
        """Workspaces with smaller keys are scheduled first."""
        rank, priority, fresh, submitted_at, uid = self.pending_queue.sort_keys[self.index]
        self.borrowing = self.would_borrow(self.pending_queue.classes[self.index])
        return (self.borrowing, rank != 0, fresh, share, priority, submitted_at, uid)

    def advance(self) -> None:
        """Move past a workload that was started."""
        insort(self.started_indexes, self.index)
        self.index += 1
        self._seek_candidate()

    def mark_reserved_started(self, position: int) -> None:
        """Record that a workload started on its reservation before the cycle reached it."""
        insort(self.started_indexes, position)
        self.started_on_reservation |= {position}
        self._seek_candidate()

    def skip(self, reserved: bool) -> None:
        """Move past a workload that was not started. If it got a reservation, others of its class are still tried."""
        self.has_reservation = self.has_reservation or reserved
        if self.is_fifo:
            self.blocked_at, self.exhausted = self.index, True
            return
        equivalence_class = self.pending_queue.classes[self.index]
        if equivalence_class.priority > self.priority_floor and not equivalence_class.specified_nodes:
            self.priority_floor = equivalence_class.priority
            self.priority_floors.append(
                (self.index, equivalence_class.priority, self.pending_queue.sort_keys[self.index][4])
            )
        if not reserved:
            self.skipped_classes.add(equivalence_class)
        self.index += 1
        self._seek_candidate()

    def _seek_candidate(self) -> None:
        classes, skipped, index = self.pending_queue.classes, self.skipped_classes, self.index
        end = len(classes)
        while index < end:
            if index in self.started_on_reservation:
                index += 1
                continue
            equivalence_class = classes[index]
            if equivalence_class not in skipped or index == self.pause_index:
                if equivalence_class.priority >= self.priority_floor:
                    break
                if index >= self.first_ranked_index:
                    index = end
                    break
            index += 1
        self.index, self.exhausted = index, index >= end
