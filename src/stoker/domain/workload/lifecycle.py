"""The state machine of a workload.

A phase changes only in `transition`. Completed and Failed are final; only a resume leaves Stopped.
"""

from msgspec import structs

from stoker.domain.workload import event_effects as effects
from stoker.domain.workload.events import (
    DeleteRequested,
    DependencyFailed,
    Dispatched,
    EngineReachable,
    EngineUnreachable,
    GpuFailed,
    IdleDetected,
    LaunchRejected,
    LaunchRetrying,
    LifecycleEvent,
    NodesReserved,
    NoteAdded,
    PodsFinished,
    PodsLost,
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
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Condition, ConditionType, Phase
from stoker.domain.workload.phase_change import (
    Transition,
    enter_phase,
    finish,
    overridden_env_conditions,
    with_condition,
)


def transition(workload: Workload, event: LifecycleEvent) -> Transition | None:
    """The workload after the event; None when the event no longer applies."""
    phase = workload.phase
    is_leaving = phase.is_terminating or workload.next_phase is not None
    is_placed = not phase.is_pending and not is_leaving
    match event:
        case DeleteRequested():
            return effects.delete(workload, event)
        case ResumeRequested() if phase is Phase.STOPPED and workload.deleted_at is None:
            return effects.resume(workload, event)
        case _ if phase.is_finished:
            return None
        case Dispatched() if phase.is_pending:
            return effects.dispatch(workload, event)
        case SubmittedToEngine() if phase.is_pending:
            return effects.submit_to_engine(workload, event)
        case PodsReady() if is_placed and phase is not Phase.RUNNING:
            return effects.mark_running(workload, event)
        case PodsNotReady() if phase is Phase.RUNNING:
            changed = structs.replace(enter_phase(workload, Phase.DEGRADED, event.at), message=event.message)
            return with_condition(changed, ConditionType.RUNNING, "Degraded", event.message, event.at)
        case PodsNotReady() if is_placed and phase is not Phase.UNKNOWN:
            return effects.update_message(workload, "PodsNotUp", event)
        case LaunchRetrying() if is_placed:
            return effects.update_message(workload, "StartDelayed", event)
        case LaunchRejected() if is_placed:
            return effects.reject_launch(workload, event)
        case PodsFinished() if is_placed:
            return effects.finish_pods(workload, event)
        case PodsLost() if is_placed:
            return effects.fail_over(
                workload, event.at, "PodsLost", event.message, has_remaining_pods=event.has_remaining_pods
            )
        case GpuFailed() if is_placed:
            return effects.fail_over(workload, event.at, "GpuFault", event.message, has_remaining_pods=True)
        case PodsTerminated() if is_leaving:
            return effects.after_termination(workload, event)
        case StopRequested():
            return effects.stop(workload, event)
        case TimedOut() if is_placed:
            return effects.time_out(workload, event)
        case Preempted() if is_placed:
            return effects.preempt(workload, event)
        case NodesReserved() if not is_leaving:
            return effects.reserve_nodes(workload, event)
        case IdleDetected() if is_placed:
            changed = structs.replace(workload, version=workload.version + 1)
            return with_condition(changed, ConditionType.RUNNING, event.reason, event.message, event.at)
        case DependencyFailed() if phase.is_pending:
            return finish(workload, Phase.FAILED, "DependencyFailed", event.message, event.at)
        case SpecChanged() if not phase.is_terminating:
            return effects.change_spec(workload, event)
        case RolledBack() if is_placed and workload.uses_rolling_update:
            return effects.roll_back(workload, event)
        case NoteAdded() if is_placed:
            return effects.add_note(workload, event)
        case EngineUnreachable() if is_placed and phase is not Phase.UNKNOWN:
            changed = structs.replace(enter_phase(workload, Phase.UNKNOWN, event.at), message=event.message)
            return with_condition(changed, ConditionType.RUNNING, "ContactLost", event.message, event.at)
        case EngineReachable() if phase is Phase.UNKNOWN:
            changed = structs.replace(enter_phase(workload, Phase.DEGRADED, event.at), message="")
            return with_condition(
                changed, ConditionType.RUNNING, "ContactRegained", "the engine is reachable again", event.at
            )
        case _:
            return None


def submit_transition(workload: Workload, further: tuple[Condition, ...] = ()) -> Transition:
    """The first transition: the workload was accepted. `further` conditions follow the standard ones."""
    message = f"submitted by {workload.user_name}"
    submitted = Condition(ConditionType.QUEUED, "Submitted", message, workload.submitted_at)
    return Transition(workload, (submitted, *overridden_env_conditions(workload.spec, workload.submitted_at), *further))


def apply_edit(workload: Workload, **fields: object) -> Workload:
    """Change fields that do not replace pods: description, priority, preemptible, timeout, retries.

    A change of the queue order ends the capacity reservation, which was made for the old order.
    """
    if fields.keys() & {"priority", "preemptible"}:
        fields["reserved_nodes"] = ()
    return structs.replace(workload, version=workload.version + 1, **fields)
