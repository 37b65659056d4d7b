"""Enforces the idle policies of workspaces at every sample.

The idle spans, the conditions and the stops of one sample are written in one transaction, with the policies and phases
of that moment: a policy that was switched off stops nothing, and after a restart spans continue.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

from stoker.domain.access.identity import AuditRecord, Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import Clock
from stoker.domain.names import new_uuid7
from stoker.domain.workload.events import IdleDetected, LifecycleEvent, StopRequested
from stoker.domain.workload.idle import (
    REASON_IDLE,
    REASON_IDLE_WARNING,
    IdleAction,
    IdleDecision,
    IdlePolicy,
    IdleSpan,
    format_duration,
    is_idle,
    update_idle_span,
)
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.phase_change import Transition
from stoker.store.cluster import idle_detector
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import audit, workspaces
from stoker.store.workloads import rows, transitions

AUDIT_ACTOR = "idle policy"
"""The actor in the audit log of workloads that the policy has stopped."""
ENFORCED_PHASES = frozenset({Phase.RUNNING, Phase.DEGRADED})
"""The phases in which idle GPUs count; workloads that start or roll out are exempt."""


class IdlePolicyEnforcer:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, period_ms: int, idle_percent: float) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._period_ms = period_ms
        self._idle_percent = idle_percent
        self._has_idle = True  # until the first sample

    async def enforce(self, at: int, most_used: Callable[[Collection[str]], Mapping[str, float | None]]) -> None:
        """Enforce the policies on a sample. `most_used` returns the peak utilization over the GPUs of each workload of
        the given namespaces, or None if one of its GPUs has no sample."""
        watched = await self._store.read_inline(self._enforced_namespaces)
        if watched or self._has_idle:
            used = await asyncio.to_thread(most_used, watched)
            self._has_idle = await self._store.write(lambda tx: self._enforce(tx, at, used))

    def _enforced_namespaces(self, transaction: Transaction) -> set[str]:
        return {workspace.namespace for workspace in workspaces.with_idle_policy(transaction, self._cluster_id)}

    def _enforce(self, transaction: Transaction, at: int, used: Mapping[str, float | None]) -> bool:
        """Returns whether any workload is idle now."""
        enforced = {each.id: each for each in workspaces.with_idle_policy(transaction, self._cluster_id)}
        before = idle_detector.read_spans(transaction, self._cluster_id)
        spans: dict[str, IdleSpan] = {}
        changes: list[tuple[Workload, Transition]] = []
        stopped: list[tuple[Workload, Transition]] = []
        for workload in self._idle_candidates(transaction, enforced.values(), before, used):
            workspace = enforced.get(workload.workspace_id)
            if workspace is None or not _is_enforced(workload) or workload.running_since is None:
                continue
            idle = self._is_idle(workspace.idle, used[workload.uid])
            known = before.get(workload.uid)
            span, decision = update_idle_span(workspace.idle, known, workload.running_since, idle, at, self._period_ms)
            if span is None:
                continue
            spans[workload.uid] = span
            if change := self._transition(workload, workspace, span, decision):
                changes.append((workload, change))
                stopped += [(workload, change)] if decision is IdleDecision.STOP else []
        transitions.apply_all(transaction, changes)
        for workload, change in stopped:
            _audit_stop(transaction, workload, change, self._clock.now())
        if spans != before:
            idle_detector.write_spans(transaction, self._cluster_id, at, spans)
        return bool(spans)

    def _idle_candidates(
        self,
        transaction: Transaction,
        enforced: Iterable[Workspace],
        before: Collection[str],
        used: Mapping[str, float | None],
    ) -> Iterable[Workload]:
        """The workloads that had an idle span, or are idle by the highest threshold of all policies; others are not
        read."""
        highest = max((self._threshold(workspace.idle) for workspace in enforced), default=-1)
        found = [
            uid
            for uid, utilization in used.items()
            if uid in before or (utilization is not None and is_idle(utilization, highest))
        ]
        return rows.by_uid(transaction, found).values()

    def _is_idle(self, policy: IdlePolicy, most: float | None) -> bool | None:
        return None if most is None else is_idle(most, self._threshold(policy))

    def _threshold(self, policy: IdlePolicy) -> float:
        return self._idle_percent if policy.threshold is None else policy.threshold

    def _transition(
        self, workload: Workload, workspace: Workspace, span: IdleSpan, decision: IdleDecision
    ) -> Transition | None:
        now, summary = self._clock.now(), self._idle_message(workspace.idle, span)
        events: dict[IdleDecision, LifecycleEvent] = {
            IdleDecision.REPORT: IdleDetected(now, REASON_IDLE, summary),
            IdleDecision.WARN: IdleDetected(
                now, REASON_IDLE_WARNING, f"{summary}; {self._warning_message(workspace.idle)}"
            ),
            IdleDecision.STOP: StopRequested(now, f"the idle policy of workspace {workspace.name}: {summary}"),
        }
        return transition(workload, events[decision]) if decision in events else None

    def _idle_message(self, policy: IdlePolicy, span: IdleSpan) -> str:
        return f"no GPU was used more than {self._threshold(policy):g} % for {format_duration(span.idle_ms // 1000)}"

    def _warning_message(self, policy: IdlePolicy) -> str:
        if policy.action is IdleAction.STOP:
            return f"it is stopped after {format_duration(policy.grace_seconds)} more of that"
        return "use them or stop it"


def _is_enforced(workload: Workload) -> bool:
    """Foreign workloads are not Stoker's to warn or to stop."""
    return workload.managed and workload.phase in ENFORCED_PHASES


def _audit_stop(transaction: Transaction, workload: Workload, change: Transition, at: int) -> None:
    """Record in the audit log, in the same transaction, that the policy has stopped a workload."""
    audit.add(
        transaction,
        AuditRecord(
            id=new_uuid7(at),
            at=at,
            actor_id="",
            actor=AUDIT_ACTOR,
            credential="",
            address="",
            action=Action.WORKLOAD_STOP,
            target=workload.slug,
            result="ok",
            detail=change.workload.message,
            trace_id="",
        ),
    )
