"""Who runs where, and who waits: pure functions over a snapshot.

`plan` decides once, `Planner` again and again; `explain` tells why a workload waits; `never_fits` what cannot start.
"""

from stoker.scheduler.change import Change, difference
from stoker.scheduler.decisions import Fail, Place, Plan, Preempt, Wait
from stoker.scheduler.explanation import Explanation, explain, explain_in
from stoker.scheduler.holders import on_borrowed_room
from stoker.scheduler.limits import Capacity, never_fits
from stoker.scheduler.planner import Planner, plan

__all__ = [
    "Capacity",
    "Change",
    "Explanation",
    "Fail",
    "Place",
    "Plan",
    "Planner",
    "Preempt",
    "Wait",
    "difference",
    "explain",
    "explain_in",
    "never_fits",
    "on_borrowed_room",
    "plan",
]
