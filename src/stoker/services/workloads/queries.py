"""Reads of workloads: lists, one workload, its timeline, and the dry run of a create.

Every read is limited to what the caller may see; environment values are redacted for those who may not read them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct, structs

from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.queries.workload_query import WorkloadQuery
from stoker.domain.workload.model import Phase, Workload
from stoker.domain.workload.phase import Condition, StatusReason
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.status import NOT_YET_SCHEDULED, describe_status
from stoker.services.access import get_visible, get_visible_or_deleted, redact_env, restrict_to_visible
from stoker.services.context import Context
from stoker.services.fleet.leadership import ClusterLeadership
from stoker.services.workloads.admission import Admission
from stoker.services.workloads.validation import CreateWorkloadInput
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods, transitions, workload_list
from stoker.store.workloads.query import pages
from stoker.store.workloads.workload_list import WorkloadEntry

FIRST_CYCLE_SECONDS = 2.0
"""How long a read of a new workload waits for the scheduling cycle that gives it a reason or a place."""


class DescribedWorkload(Struct, frozen=True):
    """A workload with its conditions, pods, queue position (0 when it is not pending) and status."""

    entry: WorkloadEntry
    conditions: list[Condition]
    pods: list[Pod]
    queue_position: int
    status: StatusReason


class WorkloadTimeline(Struct, frozen=True):
    """The conditions and the phases of a workload, both oldest first."""

    workload: Workload
    conditions: list[Condition]
    phases: list[transitions.PhaseInterval]


class WorkloadListRow(Struct, frozen=True):
    """A workload in a list, with its queue position (0 when it is not pending)."""

    entry: WorkloadEntry
    queue_position: int
    status: StatusReason


class DryRunResult(Struct, frozen=True):
    """Whether a create would be accepted now, and the queue position it would get."""

    accepted: bool
    message: str
    queue_position: int


class WorkloadQueries:
    def __init__(self, context: Context, admission: Admission) -> None:
        self._context = context
        self._admission = admission
        self._leadership = ClusterLeadership(context)

    async def dry_run(self, actor: Actor, new: CreateWorkloadInput) -> DryRunResult:
        """Run every check of a create without writing anything."""

        def query(transaction: Transaction) -> DryRunResult:
            try:
                workload = self._admission.admit(transaction, actor, new)
            except StokerError as error:
                if error.code is not ErrorCode.UNSCHEDULABLE:
                    raise
                return DryRunResult(False, error.message, 0)
            ahead = workload_list.count_ahead(transaction, workload.workspace_id, workload.priority)
            return DryRunResult(True, "It would be accepted.", ahead + 1)

        return await self._context.store.read(query)

    async def list_workloads(
        self, actor: Actor, query: WorkloadQuery, window: PageRequest
    ) -> PageResult[WorkloadListRow]:
        """Admins see all workloads, others those of their workspaces."""
        visible = restrict_to_visible(actor, query)

        def read(transaction: Transaction) -> PageResult[WorkloadListRow]:
            now = self._context.clock.now()
            page = pages.fetch_page(transaction, visible, window, now, workload_list.read_entries)
            positions = _queue_positions(transaction, [entry.workload for entry in page.items])
            unavailable = self._leadership.unavailable_clusters(transaction)
            rows = [
                WorkloadListRow(
                    _redact_entry(actor, entry),
                    positions.get(workload.uid, 0),
                    describe_status(workload, unavailable.get(workload.cluster_id)),
                )
                for entry in page.items
                for workload in (entry.workload,)
            ]
            return PageResult(rows, page.total)

        return await self._context.store.read(read)

    async def read(self, actor: Actor, ref: str) -> DescribedWorkload:
        """One workload. If it is so new that its first scheduling cycle is under way, this waits for the cycle."""
        found = await self._read_once(actor, ref)
        if not self._is_first_cycle_due(found):
            return found
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FIRST_CYCLE_SECONDS
        with self._context.notifier.listen() as listener:
            while self._is_first_cycle_due(found := await self._read_once(actor, ref)):
                if (left := deadline - loop.time()) <= 0:
                    break
                await listener.wait(left)
        return found

    def _is_first_cycle_due(self, found: DescribedWorkload) -> bool:
        age_ms = self._context.clock.now() - found.entry.workload.phase_at
        is_new = 0 <= age_ms < FIRST_CYCLE_SECONDS * 1000
        is_unscheduled = found.status.code == NOT_YET_SCHEDULED.code
        return is_new and is_unscheduled and self._leadership.leads(found.entry.cluster)

    async def _read_once(self, actor: Actor, ref: str) -> DescribedWorkload:
        def query(transaction: Transaction) -> DescribedWorkload:
            entry = get_visible(transaction, actor, ref)
            workload = entry.workload
            positions = _queue_positions(transaction, [workload])
            unavailable = self._leadership.unavailable_clusters(transaction)
            return DescribedWorkload(
                _redact_entry(actor, entry),
                transitions.conditions(transaction, workload.uid),
                pods.of_workload(transaction, workload.uid),
                positions.get(workload.uid, 0),
                describe_status(workload, unavailable.get(workload.cluster_id)),
            )

        return await self._context.store.read(query)

    async def read_timeline(self, actor: Actor, ref: str) -> WorkloadTimeline:
        """The timeline of a workload; deleted workloads have one too."""

        def query(transaction: Transaction) -> WorkloadTimeline:
            workload = get_visible_or_deleted(transaction, actor, ref).workload
            conditions = transitions.conditions(transaction, workload.uid)
            return WorkloadTimeline(
                redact_env(actor, workload),
                conditions,
                _with_finished_phases(workload, transitions.phase_intervals(transaction, workload.uid)),
            )

        return await self._context.store.read(query)


def _redact_entry(actor: Actor, entry: WorkloadEntry) -> WorkloadEntry:
    return structs.replace(entry, workload=redact_env(actor, entry.workload))


def _queue_positions(transaction: Transaction, workloads: Iterable[Workload]) -> dict[str, int]:
    """The position of each pending workload in the queue of its workspace."""
    pending: dict[int, list[str]] = defaultdict(list)
    for workload in workloads:
        if workload.phase.is_pending:
            pending[workload.workspace_id].append(workload.uid)
    return {
        uid: position
        for workspace_id, uids in sorted(pending.items())
        for uid, position in workload_list.queue_positions(transaction, workspace_id, uids).items()
    }


def _with_finished_phases(
    workload: Workload, phases: list[transitions.PhaseInterval]
) -> list[transitions.PhaseInterval]:
    """Add the finished phases: the store keeps intervals of unfinished phases only."""
    intervals: list[transitions.PhaseInterval] = []
    for phase in phases:
        if phase.phase is Phase.RESUMING and intervals:
            stopped_at = intervals[-1].to_at or phase.from_at
            intervals.append(transitions.PhaseInterval(Phase.STOPPED, stopped_at, phase.from_at))
        intervals.append(phase)
    if workload.phase.is_finished:
        intervals.append(transitions.PhaseInterval(workload.phase, workload.ended_at or workload.phase_at, None))
    return intervals
