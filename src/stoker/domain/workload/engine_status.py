"""Workloads whose phase is what their engine reports.

Foreign workloads were made by others and are only observed. Delegated workloads were submitted here to an engine that
queues, places and replaces pods by itself. A final phase is never changed: what runs again is another workload or
another attempt.
"""

from enum import StrEnum

from msgspec import Struct, structs

from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Condition, ConditionType, EnginePhase, Phase
from stoker.domain.workload.phase_change import Transition, enter_phase, finish, requeue, with_condition
from stoker.domain.workload.spec import Spec

OBSERVED = "Observed"
"""Condition reason: the engine reported it."""
ORIGIN_FOREIGN = "foreign"
"""Value of `origin_api` for workloads that were not submitted through Stoker."""
GONE_MESSAGE = "it was removed from the cluster"
PHASES = {
    EnginePhase.REQUESTED: Phase.SUBMITTED,
    EnginePhase.QUEUED: Phase.SUBMITTED,
    EnginePhase.EVICTED: Phase.SUBMITTED,
    EnginePhase.SUSPENDED: Phase.SUBMITTED,
    EnginePhase.ADMITTED: Phase.INITIALIZING,
    EnginePhase.STARTING: Phase.INITIALIZING,
    EnginePhase.RUNNING: Phase.RUNNING,
    EnginePhase.SUCCEEDED: Phase.COMPLETED,
    EnginePhase.FAILED: Phase.FAILED,
    EnginePhase.GONE: Phase.STOPPED,
}


class EngineReason(StrEnum):
    """Condition reasons of what an engine does with a workload."""

    EVICTED = "Evicted"
    GONE = "Removed"


class EngineStatus(Struct, frozen=True):
    """The state of a workload as its engine reports it. `spec` is that of a foreign workload."""

    engine_phase: EnginePhase
    reason: str = ""
    message: str = ""
    spec: Spec | None = None
    started_at: int | None = None
    ended_at: int | None = None
    engine_ref: str = ""

    @property
    def phase(self) -> Phase:
        return PHASES[self.engine_phase]


def follow_engine(workload: Workload, status: EngineStatus, now: int) -> Transition | None:
    """The workload after a report; None if the report says nothing new."""
    if workload.phase.is_finished:
        return None
    updated = structs.replace(
        workload,
        engine_phase=status.engine_phase,
        engine_ref=status.engine_ref or workload.engine_ref,
        spec=status.spec or workload.spec,
    )
    started_at = _not_after(status.started_at, now)
    if started_at is not None and workload.started_at is None:
        updated = structs.replace(updated, started_at=started_at)
    if workload.phase.is_terminating or workload.next_phase is not None:
        return _end_terminating(workload, updated, status, now)
    if status.engine_phase is EnginePhase.GONE and workload.managed:
        condition = Condition(ConditionType.FAILOVER, EngineReason.GONE, GONE_MESSAGE, now)
        lost = structs.replace(updated, message=GONE_MESSAGE, engine_phase=None, engine_ref="")
        return requeue(lost, now, condition, has_remaining_pods=False, requeued=True, not_before=None)
    if status.phase.is_finished:
        message = status.message or (GONE_MESSAGE if status.engine_phase is EnginePhase.GONE else "")
        ended_at = _not_after(status.ended_at, now) or now
        return finish(_with_run(updated, ended_at), status.phase, OBSERVED, message, ended_at)
    return _follow_phase(workload, updated, status, now)


def _follow_phase(workload: Workload, updated: Workload, status: EngineStatus, now: int) -> Transition | None:
    if status.phase is not workload.phase:
        changed = _describe(enter_phase(updated, status.phase, now), status)
        if status.phase is Phase.RUNNING:
            since = workload.running_since if workload.running_since is not None else updated.started_at
            changed = structs.replace(
                changed,
                running_since=since if since is not None else now,
                started_at=updated.started_at if updated.started_at is not None else now,
            )
        if status.engine_phase is EnginePhase.EVICTED:
            message = status.message or "it was evicted"
            return with_condition(changed, ConditionType.FAILOVER, EngineReason.EVICTED, message, now)
        kind = ConditionType.QUEUED if status.phase is Phase.SUBMITTED else ConditionType.RUNNING
        return with_condition(changed, kind, OBSERVED, status.message or f"it is {status.engine_phase}", now)
    described = _describe(updated, status)
    if described == workload:
        return None
    changed = structs.replace(described, version=workload.version + 1)
    return with_condition(changed, ConditionType.RUNNING, OBSERVED, status.message or "it changed", now)


def _describe(workload: Workload, status: EngineStatus) -> Workload:
    """The message of a queued workload is why it is pending."""
    if status.phase is not Phase.SUBMITTED:
        return structs.replace(workload, message=status.message, pending_message="", pending_reason="")
    return structs.replace(workload, pending_message=status.message, pending_reason=status.reason)


def _end_terminating(workload: Workload, updated: Workload, status: EngineStatus, now: int) -> Transition | None:
    """A terminating workload enters its next phase once the engine has ended it."""
    if not status.engine_phase.is_finished:
        return None
    ended_at = _not_after(status.ended_at, now) or now
    if workload.next_phase is Phase.PENDING:
        condition = Condition(ConditionType.QUEUED, "Requeued", workload.message or "queued again", now)
        return requeue(
            structs.replace(updated, engine_phase=None, engine_ref=""),
            now,
            condition,
            has_remaining_pods=False,
            requeued=workload.requeued,
            not_before=workload.not_before,
        )
    final = workload.next_phase or Phase.STOPPED
    return finish(_with_run(updated, ended_at), final, "Stopped", workload.message, ended_at)


def _with_run(workload: Workload, ended_at: int) -> Workload:
    """A run that ended before it was observed running still counts."""
    if workload.started_at is None or workload.running_since is not None:
        return workload
    return structs.replace(workload, running_since=min(workload.started_at, ended_at))


def _not_after(at: int | None, now: int) -> int | None:
    """The clock of the engine may be ahead."""
    return None if at is None else min(at, now)
