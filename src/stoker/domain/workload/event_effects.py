"""What each lifecycle event does to a workload: one function per event.

`lifecycle.transition` decides whether an event applies; these functions assume that it does.
"""

from collections.abc import Mapping

from msgspec import structs

from stoker.domain.workload.durations import backoff_ms
from stoker.domain.workload.events import (
    DeleteRequested,
    Dispatched,
    LaunchRejected,
    LaunchRetrying,
    NodesReserved,
    NoteAdded,
    PodsFinished,
    PodsNotReady,
    PodsReady,
    PodsTerminated,
    Preempted,
    ResumeRequested,
    RolledBack,
    SpecChanged,
    StopRequested,
    SubmittedToEngine,
    TimedOut,
)
from stoker.domain.workload.model import DEFAULT_GRACE_SECONDS, Workload
from stoker.domain.workload.phase import (
    DEADLINE_EXCEEDED,
    ROLLED_BACK,
    SERVICE_PORT_TAKEN,
    Condition,
    ConditionType,
    EnginePhase,
    Phase,
)
from stoker.domain.workload.phase_change import (
    Transition,
    enqueue,
    enter_phase,
    finish,
    overridden_env_conditions,
    requeue,
    with_condition,
)


def dispatch(workload: Workload, event: Dispatched) -> Transition:
    changed = structs.replace(
        enter_phase(workload, Phase.INITIALIZING, event.at),
        attempt=workload.attempt + 1,
        node_pools=event.node_pools or workload.node_pools,
        message="",
        not_before=None,
        requeued=False,
        guaranteed_until=event.guaranteed_until,
        reserved_nodes=(),
        notes=_retain_note(workload.notes, ROLLED_BACK),
    )
    return with_condition(
        changed, ConditionType.DISPATCHED, f"Dispatch{workload.attempt}", "workload dispatched", event.at
    )


def submit_to_engine(workload: Workload, event: SubmittedToEngine) -> Transition:
    changed = structs.replace(
        enter_phase(workload, Phase.SUBMITTED, event.at),
        attempt=workload.attempt + 1,
        engine_phase=EnginePhase.REQUESTED,
        engine_ref="",
        message="",
        not_before=None,
        requeued=False,
        reserved_nodes=(),
    )
    return with_condition(
        changed, ConditionType.DISPATCHED, f"Dispatch{workload.attempt}", "submitted to the engine's queue", event.at
    )


def mark_running(workload: Workload, event: PodsReady) -> Transition:
    notes = {reason: note for reason, note in workload.notes.items() if reason != DEADLINE_EXCEEDED}
    changed = structs.replace(
        enter_phase(workload, Phase.RUNNING, event.at),
        good_revision=workload.revision if workload.uses_rolling_update else 0,
        notes=notes,
        started_at=workload.started_at if workload.started_at is not None else event.at,
        running_since=workload.running_since if workload.running_since is not None else event.at,
        message="; ".join(notes.values()),
    )
    return with_condition(changed, ConditionType.RUNNING, "PodsRunning", "every pod runs", event.at)


def update_message(
    workload: Workload, reason: str, event: PodsNotReady | LaunchRetrying | LaunchRejected
) -> Transition | None:
    """Record a new message without a change of phase; a repeated message changes nothing."""
    if event.message == workload.message:
        return None
    kinds = {Phase.INITIALIZING: ConditionType.QUEUED, Phase.UPDATING: ConditionType.UPDATING}
    updated = structs.replace(workload, message=event.message, version=workload.version + 1)
    return with_condition(updated, kinds.get(workload.phase, ConditionType.RUNNING), reason, event.message, event.at)


def reject_launch(workload: Workload, event: LaunchRejected) -> Transition | None:
    """Fail without a retry, which would be rejected too. Workloads with rolling updates keep their running pods."""
    if not event.has_remaining_pods:
        return finish(workload, Phase.FAILED, "StartRefused", event.message, event.at)
    if workload.uses_rolling_update:
        return update_message(workload, "StartRefused", event)
    terminating = structs.replace(
        enter_phase(workload, Phase.TERMINATING, event.at), next_phase=Phase.FAILED, message=event.message
    )
    return with_condition(terminating, ConditionType.RUNNING, "StartRefused", event.message, event.at)


def finish_pods(workload: Workload, event: PodsFinished) -> Transition:
    workload = _mark_started(workload, event.at)
    if event.success:
        return finish(workload, Phase.COMPLETED, "PodsSucceeded", event.message, event.at)
    retry = workload.retries < workload.max_retry
    if not retry:
        if not event.has_remaining_pods:
            return finish(workload, Phase.FAILED, "PodFailed", event.message, event.at)
        terminating = structs.replace(
            enter_phase(workload, Phase.TERMINATING, event.at), next_phase=Phase.FAILED, message=event.message
        )
        return with_condition(terminating, ConditionType.RUNNING, "PodFailed", event.message, event.at)
    retries = workload.retries + 1
    wait = backoff_ms(workload.retries)
    message = f"{event.message}; retry {retries} of {workload.max_retry} in {wait // 1000} s"
    counted = structs.replace(workload, retries=retries, message=message)
    condition = Condition(ConditionType.QUEUED, "Retry", message, event.at)
    return requeue(
        counted,
        event.at,
        condition,
        has_remaining_pods=event.has_remaining_pods,
        requeued=False,
        not_before=event.at + wait,
    )


def fail_over(workload: Workload, at: int, reason: str, message: str, *, has_remaining_pods: bool) -> Transition:
    condition = Condition(ConditionType.FAILOVER, reason, message, at)
    updated = structs.replace(workload, message=message)
    return requeue(updated, at, condition, has_remaining_pods=has_remaining_pods, requeued=True, not_before=None)


def preempt(workload: Workload, event: Preempted) -> Transition:
    message = f"preempted by {event.by}"
    condition = Condition(ConditionType.PREEMPTED, "Preempted", message, event.at)
    updated = structs.replace(workload, message=message)
    return requeue(updated, event.at, condition, has_remaining_pods=True, requeued=True, not_before=None)


def reserve_nodes(workload: Workload, event: NodesReserved) -> Transition | None:
    if event.nodes == workload.reserved_nodes:
        return None
    changed = structs.replace(workload, reserved_nodes=event.nodes, version=workload.version + 1)
    if not event.nodes:
        return with_condition(
            changed, ConditionType.QUEUED, "ReservationEnded", "its capacity reservation has ended", event.at
        )
    where = ", ".join(dict.fromkeys(event.nodes))
    return with_condition(
        changed, ConditionType.QUEUED, "RoomReserved", f"capacity on {where} is reserved for it", event.at
    )


def stop(workload: Workload, event: StopRequested) -> Transition | None:
    message = f"stopped by {event.by}"
    match workload.phase:
        case Phase.STOPPING | Phase.DELETING:
            return _shorten_grace(workload, event)
        case Phase.TERMINATING if workload.next_phase is Phase.FAILED:
            return _shorten_grace(workload, event)
        case phase if phase.is_pending:
            return finish(workload, Phase.STOPPED, "Stopped", message, event.at)
        case _:
            terminating = structs.replace(
                enter_phase(workload, Phase.STOPPING, event.at),
                next_phase=Phase.STOPPED,
                message=message,
                grace_seconds=event.grace_seconds,
            )
            return with_condition(terminating, ConditionType.RUNNING, "StopAsked", message, event.at)


def _shorten_grace(workload: Workload, event: StopRequested) -> Transition | None:
    """The grace period of a terminating workload can be shortened, never extended."""
    current = DEFAULT_GRACE_SECONDS if workload.grace_seconds is None else workload.grace_seconds
    if event.grace_seconds is None or event.grace_seconds >= current:
        return None
    shortened = structs.replace(workload, grace_seconds=event.grace_seconds, version=workload.version + 1)
    message = f"{event.by} shortened the grace period to {event.grace_seconds} s"
    return with_condition(shortened, ConditionType.RUNNING, "StopAsked", message, event.at)


def time_out(workload: Workload, event: TimedOut) -> Transition:
    message = f"ran longer than its timeout of {workload.timeout_seconds} s"
    terminating = structs.replace(
        enter_phase(workload, Phase.STOPPING, event.at), next_phase=Phase.STOPPED, message=message
    )
    return with_condition(terminating, ConditionType.TIMED_OUT, "TimedOut", message, event.at)


def delete(workload: Workload, event: DeleteRequested) -> Transition | None:
    if workload.deleted_at is not None:
        return None
    message = f"deleted by {event.by}"
    if workload.phase.is_finished:
        changed = structs.replace(workload, deleted_at=event.at, version=workload.version + 1)
        return with_condition(changed, ConditionType.STOPPED, "Deleted", message, event.at)
    if workload.phase.is_pending:
        stopped = finish(workload, Phase.STOPPED, "Deleted", message, event.at)
        return Transition(structs.replace(stopped.workload, deleted_at=event.at), stopped.conditions)
    next_phase = workload.next_phase if workload.next_phase is Phase.FAILED else Phase.STOPPED
    terminating = structs.replace(
        enter_phase(workload, Phase.DELETING, event.at), next_phase=next_phase, message=message, deleted_at=event.at
    )
    return with_condition(terminating, ConditionType.RUNNING, "DeleteAsked", message, event.at)


def after_termination(workload: Workload, event: PodsTerminated) -> Transition:
    match workload.next_phase:
        case Phase.FAILED:
            return finish(workload, Phase.FAILED, "PodFailed", workload.message, event.at)
        case Phase.STOPPED:
            return finish(workload, Phase.STOPPED, "Stopped", workload.message, event.at)
        case _:
            queued = enqueue(workload, event.at, requeued=workload.requeued, not_before=workload.not_before)
            return with_condition(
                queued, ConditionType.QUEUED, "Requeued", workload.message or "queued again", event.at
            )


def change_spec(workload: Workload, event: SpecChanged) -> Transition:
    reason, message = "Changed", f"changed by {event.by}"
    if event.restored_revision:
        reason, message = ROLLED_BACK, f"returned to revision {event.restored_revision} by {event.by}"
    only_scaled = workload.uses_rolling_update and event.spec == structs.replace(
        workload.spec, replicas=event.spec.replicas
    )
    revision = workload.revision if only_scaled else workload.revision + 1
    notes = workload.notes if only_scaled else _retain_note(workload.notes, SERVICE_PORT_TAKEN)
    updated = structs.replace(workload, spec=event.spec, revision=revision, reserved_nodes=(), notes=notes)
    if workload.phase.is_pending:
        changed = structs.replace(updated, version=workload.version + 1)
        queued = Condition(ConditionType.QUEUED, reason, message, event.at)
        return Transition(changed, (queued, *overridden_env_conditions(event.spec, event.at)))
    changed = structs.replace(enter_phase(updated, Phase.UPDATING, event.at), message=message)
    if not workload.uses_rolling_update:
        changed = structs.replace(
            changed, next_phase=Phase.PENDING, requeued=True, not_before=None, guaranteed_until=None
        )
    updating = Condition(ConditionType.UPDATING, reason, message, event.at)
    return Transition(changed, (updating, *overridden_env_conditions(event.spec, event.at)))


def roll_back(workload: Workload, event: RolledBack) -> Transition:
    notes = {**_retain_note(workload.notes, SERVICE_PORT_TAKEN), ROLLED_BACK: event.message}
    restored = structs.replace(workload, spec=event.spec, revision=workload.revision + 1, notes=notes)
    changed = structs.replace(enter_phase(restored, Phase.UPDATING, event.at), message=event.message)
    return with_condition(changed, ConditionType.UPDATING, ROLLED_BACK, event.message, event.at)


def add_note(workload: Workload, event: NoteAdded) -> Transition | None:
    if workload.notes.get(event.reason) == event.message:
        return None
    notes = {**workload.notes, event.reason: event.message}
    noted = structs.replace(workload, notes=notes, message="; ".join(notes.values()), version=workload.version + 1)
    return with_condition(noted, ConditionType.RUNNING, event.reason, event.message, event.at)


def _retain_note(notes: Mapping[str, str], reason: str) -> dict[str, str]:
    """Only the note of this reason, if there is one."""
    return {reason: notes[reason]} if reason in notes else {}


def resume(workload: Workload, event: ResumeRequested) -> Transition:
    queued = structs.replace(
        enter_phase(workload, Phase.RESUMING, event.at), message="", retries=0, requeued=False, not_before=None
    )
    return with_condition(queued, ConditionType.QUEUED, "Resumed", f"resumed by {event.by}", event.at)


def _mark_started(workload: Workload, at: int) -> Workload:
    """A run that ended before its pods were observed running still counts as started."""
    if workload.started_at is not None:
        return workload
    return structs.replace(workload, started_at=at, running_since=at)
