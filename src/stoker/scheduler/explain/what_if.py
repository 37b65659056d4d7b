"""Finds suggestions that would start a workload now, by planning again with each of them.

A cycle with a changed workload equals the original one up to that workload. So the original cycle is copied at two
points: when the cursor of its workspace reaches the workload, and when no other workspace goes before it. A trial
continues from a copy unless the change moves the workload in its queue.
"""

from collections.abc import Collection, Iterator

from stoker.scheduler.cycle.pending_queue import NOT_ELIGIBLE, PendingQueue
from stoker.scheduler.cycle.queue_cursor import NO_INDEX, QueueCursor
from stoker.scheduler.cycle.scheduling_cycle import SchedulingCycle
from stoker.scheduler.explain.suggestions import Suggestion, change_cost
from stoker.scheduler.model import PendingWorkload
from stoker.scheduler.planner import Planner

MAX_SUGGESTIONS = 5
MAX_TRIALS = 8


class WhatIf:
    """Trial cycles for one pending workload; `cycle` is the finished cycle without changes."""

    def __init__(self, planner: Planner, workload: PendingWorkload) -> None:
        self._planner = planner
        self._workload = workload
        self.cycle = planner.new_cycle(planner.pending_queues)
        self._at_workload: SchedulingCycle | None = None
        self._at_turn: SchedulingCycle | None = None
        cursor = self.cycle.cursors[workload.workspace_id]
        position = cursor.pending_queue.index_of(workload.uid)
        if cursor.pending_queue.classes[position] is not NOT_ELIGIBLE:
            self._run_to(cursor, position)
        self.cycle.run()

    def _run_to(self, cursor: QueueCursor, position: int) -> None:
        cursor.pause_index = position
        if not cursor.is_paused:
            self.cycle.run()
        if cursor.is_paused:
            self._at_workload = self._at_turn = self.cycle.copy()
            if self.cycle.interrupted_queue is None:
                self.cycle.run()
                self._at_turn = self.cycle.copy()
        cursor.pause_index = NO_INDEX

    def find_effective(self, suggestions: Collection[Suggestion]) -> Iterator[Suggestion]:
        """The suggestions with which the workload starts at once, smallest first, one of each kind."""
        kinds: set[object] = set()
        for suggestion in sorted(suggestions, key=lambda suggestion: change_cost(suggestion, self._workload))[
            :MAX_TRIALS
        ]:
            kind = (type(suggestion), getattr(suggestion, "resource", None))
            if (
                kind not in kinds
                and len(kinds) < MAX_SUGGESTIONS
                and self.would_start(suggestion.apply_to(self._workload))
            ):
                kinds.add(kind)
                yield suggestion

    def would_start(self, edited: PendingWorkload) -> bool:
        """Whether the workload, changed like this, would start at once."""
        pending_queues = self._planner.queues_with_edit(edited)
        trial = self._resume_from_turn(pending_queues[edited.workspace_id], edited) or self._planner.new_cycle(
            pending_queues
        )
        trial.run(until=edited.uid)
        return edited.uid in trial.state.started

    def _resume_from_turn(self, pending_queue: PendingQueue, edited: PendingWorkload) -> SchedulingCycle | None:
        """The copied cycle from which the change matters; None if the cycle has to start over."""
        uid, workspace_id = edited.uid, edited.workspace_id
        if self._at_workload is None or self._at_turn is None:
            return None
        before = self._at_workload.cursors[workspace_id]
        if pending_queue.sort_key_by_uid[uid] != before.pending_queue.sort_key_by_uid[uid]:
            return None
        borrows_after, borrows_before = (
            before.would_borrow(pending_queue.classes[before.index]),
            before.would_borrow(before.pending_queue.classes[before.index]),
        )
        trial = (self._at_turn if borrows_after == borrows_before else self._at_workload).copy()
        trial.cursors[workspace_id].pending_queue = pending_queue
        trial.cursors[workspace_id].pause_index = NO_INDEX
        return trial
