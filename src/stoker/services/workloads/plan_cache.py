"""Cache of the scheduling plan of each cluster, valid until the state of the cluster changes.

The state is read in one transaction and the plan is computed outside of it. Of several callers who need the same plan
one computes it and the others wait.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from stoker.domain.workload.placement import ClusterState
from stoker.scheduler import Planner, SchedulingExplanation, explain_with
from stoker.scheduler.cache import ClusterCache
from stoker.scheduler.model import PendingWorkload
from stoker.scheduler.quota.admitted import is_borrowing
from stoker.services.context import Context
from stoker.store.cluster.state import read_state, state_version
from stoker.store.db.base import Row, Transaction

T = TypeVar("T")


class ClusterPlan:
    """The plan of one version of a cluster's state."""

    def __init__(self, version: Row, cluster: ClusterState, now: int) -> None:
        self._version = version
        self.cluster = cluster
        cache = ClusterCache(cluster)
        self._pending = cache.pending
        self._planner = Planner(cache.snapshot(now))
        self._planned_at = now
        self._explanations: dict[tuple[str, tuple[int, ...]], SchedulingExplanation] = {}

    def is_current(self, version: Row, now: int) -> bool:
        """Whether a plan computed now would be the same."""
        next_event_at = self._planner.next_event_at
        return version == self._version and self._planned_at <= now and (next_event_at is None or now < next_event_at)

    def find_pending(self, uid: str) -> PendingWorkload | None:
        """The pending request of a workload, or of its missing replicas; None when nothing is pending."""
        return self._pending.get(uid)

    def explain(self, uid: str, priorities: tuple[int, ...]) -> SchedulingExplanation:
        """Why a workload is pending; `priorities` are those that may be suggested."""
        key = (uid, priorities)
        if key not in self._explanations:
            self._explanations[key] = explain_with(self._planner, uid, priorities)
        return self._explanations[key]

    def is_borrowing(self, uid: str) -> bool:
        """Whether a workload runs on capacity that its workspace borrows over its quota."""
        return is_borrowing(self._planner.admitted, uid)


class ClusterPlanCache:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._plans: dict[str, ClusterPlan] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def query(self, cluster_id: str, read: Callable[[ClusterPlan], T]) -> T:
        """Apply a function to the current plan of a cluster, in a thread."""
        async with self._locks[cluster_id]:
            plan = await self._current_plan(cluster_id)
            return await asyncio.to_thread(read, plan)

    async def _current_plan(self, cluster_id: str) -> ClusterPlan:
        now = self._context.clock.now()
        cached = self._plans.get(cluster_id)

        def read(transaction: Transaction) -> ClusterPlan | tuple[Row, ClusterState]:
            version = state_version(transaction, cluster_id)
            if cached is not None and cached.is_current(version, now):
                return cached
            return version, read_state(transaction, cluster_id)

        found = await self._context.store.read(read)
        if isinstance(found, ClusterPlan):
            return found
        plan = self._plans[cluster_id] = await asyncio.to_thread(ClusterPlan, *found, now)
        return plan
