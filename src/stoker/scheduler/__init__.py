"""The scheduler: pure functions from a snapshot of a cluster to a plan.

`plan` makes one plan, `Planner` one after each change; `explain` says why a workload is pending; `check_feasibility`
rejects what can never start.
"""

from stoker.scheduler.explain.explanation import SchedulingExplanation, explain, explain_with
from stoker.scheduler.feasibility import ClusterCapacity, check_feasibility
from stoker.scheduler.model import DependencyFailure, Pending, Placement, Plan, Preemption, SnapshotDelta, diff
from stoker.scheduler.planner import Planner, plan

__all__ = [
    "ClusterCapacity",
    "DependencyFailure",
    "Pending",
    "Placement",
    "Plan",
    "Planner",
    "Preemption",
    "SchedulingExplanation",
    "SnapshotDelta",
    "check_feasibility",
    "diff",
    "explain",
    "explain_with",
    "plan",
]
