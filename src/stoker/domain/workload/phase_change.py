"""A transition, and the bookkeeping that all transitions share.

Each transition increments the version and carries the conditions that say who caused it, why and when.
"""

from msgspec import Struct, structs

from stoker.domain.workload.durations import total_pending_ms, total_running_ms
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Condition, ConditionType, Phase
from stoker.domain.workload.spec import RESERVED_ENV, Spec

_CONDITION_BY_FINAL_PHASE = {
    Phase.COMPLETED: ConditionType.SUCCEEDED,
    Phase.FAILED: ConditionType.FAILED,
    Phase.STOPPED: ConditionType.STOPPED,
}


class Transition(Struct, frozen=True):
    """The workload after an event, and the conditions to record."""

    workload: Workload
    conditions: tuple[Condition, ...]


def overridden_env_conditions(spec: Spec, at: int) -> tuple[Condition, ...]:
    """A condition that names the user's variables which Stoker overrides, if there are any."""
    names = sorted(RESERVED_ENV & set(spec.env))
    if not names:
        return ()
    message = f"Stoker sets {', '.join(names)}; the submitted values are ignored"
    return (Condition(ConditionType.QUEUED, "EnvOverridden", message, at),)


def enter_phase(workload: Workload, phase: Phase, at: int) -> Workload:
    """Change the phase, the version and the times; clear the fields that the new phase must not have."""
    is_leaving = phase.is_finished or phase.is_terminating
    stays_placed = not (is_leaving or phase.is_pending)
    keeps_pending_reason = stays_placed and not workload.phase.is_pending
    keeps_running = workload.running_since is not None and not phase.is_finished and not phase.is_pending
    return structs.replace(
        workload,
        phase=phase,
        phase_at=at,
        version=workload.version + 1,
        next_phase=None,
        running_since=workload.running_since if keeps_running else None,
        running_ms=workload.running_ms if keeps_running else total_running_ms(workload, at),
        pending_ms=total_pending_ms(workload, at),
        ended_at=at if phase.is_finished else None,
        guaranteed_until=workload.guaranteed_until if stays_placed else None,
        reserved_nodes=() if is_leaving else workload.reserved_nodes,
        grace_seconds=workload.grace_seconds if phase.is_terminating else None,
        pending_message=workload.pending_message if keeps_pending_reason else "",
        pending_reason=workload.pending_reason if keeps_pending_reason else "",
    )


def with_condition(workload: Workload, kind: ConditionType, reason: str, message: str, at: int) -> Transition:
    return Transition(workload, (Condition(kind, reason, message, at),))


def finish(workload: Workload, phase: Phase, reason: str, message: str, at: int) -> Transition:
    """Enter a final phase."""
    finished = structs.replace(enter_phase(workload, phase, at), message=message, not_before=None)
    return with_condition(finished, _CONDITION_BY_FINAL_PHASE[phase], reason, message, at)


def enqueue(workload: Workload, at: int, *, requeued: bool, not_before: int | None) -> Workload:
    return structs.replace(enter_phase(workload, Phase.PENDING, at), requeued=requeued, not_before=not_before)


def requeue(
    workload: Workload,
    at: int,
    condition: Condition,
    *,
    has_remaining_pods: bool,
    requeued: bool,
    not_before: int | None,
) -> Transition:
    """Return to the queue: at once, or after the remaining pods have terminated."""
    if not has_remaining_pods:
        return Transition(enqueue(workload, at, requeued=requeued, not_before=not_before), (condition,))
    terminating = structs.replace(
        enter_phase(workload, Phase.TERMINATING, at),
        next_phase=Phase.PENDING,
        requeued=requeued,
        not_before=not_before,
    )
    return Transition(terminating, (condition,))
