"""Reservations: capacity freed by preemption goes to the preemptor before any other workload is considered.

All reservations are applied before the first workload is scheduled. They were made side by side, so they never
overlap. A reservation lasts only while victims terminate: once its capacity is free, its workload starts or the
reservation ends.
"""

from collections.abc import Iterator, Mapping

from stoker.scheduler.cycle.pending_queue import NOT_ELIGIBLE
from stoker.scheduler.cycle.queue_cursor import QueueCursor
from stoker.scheduler.cycle.state import CycleState, Horizon
from stoker.scheduler.placement.packing import fits_reserved_nodes


def apply_reservations(state: CycleState, cursors: Mapping[int, QueueCursor]) -> None:
    """Start workloads whose reserved nodes are free now; keep the reservations of the others."""
    for cursor in cursors.values():
        for position, workload in enumerate(cursor.pending_queue.reserved_workloads()):
            equivalence_class = cursor.pending_queue.classes[position]
            if equivalence_class is NOT_ELIGIBLE:
                continue
            if cursor.quota_usage.fits(equivalence_class.total_request) and fits_reserved_nodes(
                state, Horizon.IDLE, workload, equivalence_class
            ):
                state.start(workload, workload.reserved_nodes)
                cursor.mark_reserved_started(position)
            elif state.future_idle is not state.idle and fits_reserved_nodes(
                state, Horizon.FUTURE_IDLE, workload, equivalence_class
            ):
                state.keep_reservation(workload)


def collect_reservations(
    state: CycleState, cursors: Mapping[int, QueueCursor]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The reserved nodes of each pending workload that had or got a reservation; empty if the reservation ends."""
    before = [workload.uid for cursor in cursors.values() for workload in cursor.pending_queue.reserved_workloads()]
    for uid in dict.fromkeys((*before, *state.preemptor_by_victim.values())):
        if uid not in state.started:
            yield uid, state.reserved_nodes(uid)
