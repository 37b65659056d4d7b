"""The only way a workload's phase changes.

Every change carries the conditions that say who, why and when. An event that no longer applies gives None:
Completed and Failed are never left, and Stopped only by a resume.
"""

from msgspec import Struct, structs

from stoker.domain.events import (
    ContactLost,
    ContactRegained,
    DeleteAsked,
    DependencyFailed,
    Event,
    IdleNoted,
    Placed,
    PodsEnded,
    PodsGone,
    PodsLost,
    PodsShort,
    PodsUp,
    Preempted,
    Replaced,
    ResumeAsked,
    StartDelayed,
    StartRefused,
    StopAsked,
    TimedOut,
)
from stoker.domain.workload import RESERVED_ENV, Condition, ConditionType, Phase, Spec, Workload

FIRST_BACKOFF_MS = 1_000
LONGEST_BACKOFF_MS = 300_000


class Change(Struct, frozen=True):
    """The workload as it is after an event, and what is written about it."""

    workload: Workload
    conditions: tuple[Condition, ...]


def transition(workload: Workload, event: Event) -> Change | None:
    """The workload after the event; None when the event no longer applies."""
    phase = workload.phase
    on_its_way_out = phase.leaving or workload.then is not None
    holds_pods = not phase.queued and not on_its_way_out
    match event:
        case DeleteAsked():
            return _deleted(workload, event)
        case ResumeAsked() if phase is Phase.STOPPED and workload.deleted_at is None:
            return _resumed(workload, event)
        case _ if phase.ended:
            return None
        case Placed() if phase.queued:
            return _dispatched(workload, event)
        case PodsUp() if holds_pods and phase is not Phase.RUNNING:
            return _running(workload, event)
        case PodsShort() if phase is Phase.RUNNING:
            words = structs.replace(_to(workload, Phase.DEGRADED, event.at), message=event.message)
            return _with(words, ConditionType.RUNNING, "Degraded", event.message, event.at)
        case PodsShort() if holds_pods and phase is not Phase.UNKNOWN:
            return _told(workload, "PodsNotUp", event)
        case StartDelayed() if holds_pods:
            return _told(workload, "StartDelayed", event)
        case StartRefused() if holds_pods:
            return _refused(workload, event)
        case PodsEnded() if holds_pods:
            return _ended(workload, event)
        case PodsLost() if holds_pods:
            return _failed_over(workload, event)
        case PodsGone() if on_its_way_out:
            return _gone(workload, event)
        case StopAsked():
            return _stopped(workload, event)
        case TimedOut() if holds_pods:
            return _timed_out(workload, event)
        case Preempted() if holds_pods:
            return _preempted(workload, event)
        case IdleNoted() if holds_pods:
            same = structs.replace(workload, version=workload.version + 1)
            return _with(same, ConditionType.RUNNING, event.reason, event.message, event.at)
        case DependencyFailed() if phase.queued:
            return _final(workload, Phase.FAILED, "DependencyFailed", event.message, event.at)
        case Replaced() if not phase.leaving:
            return _replaced(workload, event)
        case ContactLost() if holds_pods and phase is not Phase.UNKNOWN:
            words = structs.replace(_to(workload, Phase.UNKNOWN, event.at), message=event.message)
            return _with(words, ConditionType.RUNNING, "ContactLost", event.message, event.at)
        case ContactRegained() if phase is Phase.UNKNOWN:
            running = structs.replace(_to(workload, Phase.DEGRADED, event.at), message="")
            return _with(running, ConditionType.RUNNING, "ContactRegained", "contact is back", event.at)
        case _:
            return None


def created(workload: Workload) -> Change:
    """A workload that was just accepted."""
    message = f"submitted by {workload.user_name}"
    submitted = Condition(ConditionType.QUEUED, "Submitted", message, workload.submitted_at)
    return Change(workload, (submitted, *_overridden(workload.spec, workload.submitted_at)))


def edited(workload: Workload, **fields: object) -> Workload:
    """Words that change nothing about how it runs: description, priority, preemptible, timeout, retries."""
    return structs.replace(workload, version=workload.version + 1, **fields)


def ran_ms(workload: Workload, now: int) -> int:
    """How long it has run, over all its attempts."""
    return workload.ran_ms + (now - workload.running_since if workload.running_since is not None else 0)


def waited_ms(workload: Workload, now: int) -> int:
    """How long it has waited in the queue, all times together."""
    return workload.waited_ms + (now - workload.phase_at if workload.phase.queued else 0)


def backoff_ms(retries: int) -> int:
    """How long the next attempt waits after so many retries."""
    return min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << min(retries, 20))


def _overridden(spec: Spec, at: int) -> tuple[Condition, ...]:
    """Says which variables of the user give way to Stoker's own."""
    names = sorted(RESERVED_ENV & set(spec.env))
    if not names:
        return ()
    return (Condition(ConditionType.QUEUED, "EnvOverridden", f"Stoker sets {', '.join(names)} itself", at),)


def _to(workload: Workload, phase: Phase, at: int) -> Workload:
    """The bookkeeping of every change: version, times, and the run and the place that may end with it."""
    keeps_place = not (phase.ended or phase.queued or phase.leaving)
    stays = workload.running_since is not None and not phase.ended and not phase.queued
    return structs.replace(
        workload,
        phase=phase,
        phase_at=at,
        version=workload.version + 1,
        then=None,
        running_since=workload.running_since if stays else None,
        ran_ms=workload.ran_ms if stays else ran_ms(workload, at),
        waited_ms=waited_ms(workload, at),
        ended_at=at if phase.ended else None,
        guaranteed_until=workload.guaranteed_until if keeps_place else None,
    )


def _with(workload: Workload, kind: ConditionType, reason: str, message: str, at: int) -> Change:
    return Change(workload, (Condition(kind, reason, message, at),))


def _final(workload: Workload, phase: Phase, reason: str, message: str, at: int) -> Change:
    kinds = {
        Phase.COMPLETED: ConditionType.SUCCEEDED,
        Phase.FAILED: ConditionType.FAILED,
        Phase.STOPPED: ConditionType.STOPPED,
    }
    over = structs.replace(_to(workload, phase, at), message=message, not_before=None)
    return _with(over, kinds[phase], reason, message, at)


def _queue_again(workload: Workload, at: int, *, requeued: bool, not_before: int | None) -> Workload:
    return structs.replace(_to(workload, Phase.PENDING, at), requeued=requeued, not_before=not_before)


def _dispatched(workload: Workload, event: Placed) -> Change:
    changed = structs.replace(
        _to(workload, Phase.INITIALIZING, event.at),
        attempt=workload.attempt + 1,
        pools=event.pools or workload.pools,
        message="",
        not_before=None,
        requeued=False,
        guaranteed_until=event.guaranteed_until,
    )
    return _with(changed, ConditionType.DISPATCHED, f"Dispatch{workload.attempt}", "workload dispatched", event.at)


def _running(workload: Workload, event: PodsUp) -> Change:
    changed = structs.replace(
        _to(workload, Phase.RUNNING, event.at),
        started_at=workload.started_at if workload.started_at is not None else event.at,
        running_since=workload.running_since if workload.running_since is not None else event.at,
        message="",
    )
    return _with(changed, ConditionType.RUNNING, "PodsRunning", "every pod runs", event.at)


def _told(workload: Workload, reason: str, event: PodsShort | StartDelayed | StartRefused) -> Change | None:
    """It stays as it is, and says why; the same words are not said twice."""
    if event.message == workload.message:
        return None
    kinds = {Phase.INITIALIZING: ConditionType.QUEUED, Phase.UPDATING: ConditionType.UPDATING}
    worded = structs.replace(workload, message=event.message, version=workload.version + 1)
    return _with(worded, kinds.get(workload.phase, ConditionType.RUNNING), reason, event.message, event.at)


def _refused(workload: Workload, event: StartRefused) -> Change | None:
    """To try again would be refused again. What rolls keeps the pods that are up."""
    if not event.left:
        return _final(workload, Phase.FAILED, "StartRefused", event.message, event.at)
    if workload.kind.rolls:
        return _told(workload, "StartRefused", event)
    leaving = structs.replace(_to(workload, Phase.TERMINATING, event.at), then=Phase.FAILED, message=event.message)
    return _with(leaving, ConditionType.RUNNING, "StartRefused", event.message, event.at)


def _ended(workload: Workload, event: PodsEnded) -> Change:
    workload = _begun(workload, event.at)
    if event.success:
        return _final(workload, Phase.COMPLETED, "PodsSucceeded", event.message, event.at)
    retry = workload.retries < workload.max_retry
    if not retry:
        if not event.left:
            return _final(workload, Phase.FAILED, "PodFailed", event.message, event.at)
        leaving = structs.replace(_to(workload, Phase.TERMINATING, event.at), then=Phase.FAILED, message=event.message)
        return _with(leaving, ConditionType.RUNNING, "PodFailed", event.message, event.at)
    retries = workload.retries + 1
    wait = backoff_ms(workload.retries)
    message = f"{event.message}; retry {retries} of {workload.max_retry} in {wait // 1000} s"
    counted = structs.replace(workload, retries=retries, message=message)
    condition = Condition(ConditionType.QUEUED, "Retry", message, event.at)
    return _requeue(counted, event.at, condition, left=event.left, requeued=False, not_before=event.at + wait)


def _failed_over(workload: Workload, event: PodsLost) -> Change:
    condition = Condition(ConditionType.FAILOVER, "PodsLost", event.message, event.at)
    worded = structs.replace(workload, message=event.message)
    return _requeue(worded, event.at, condition, left=event.left, requeued=True, not_before=None)


def _preempted(workload: Workload, event: Preempted) -> Change:
    message = f"preempted by {event.by}"
    condition = Condition(ConditionType.PREEMPTED, "Preempted", message, event.at)
    worded = structs.replace(workload, message=message)
    return _requeue(worded, event.at, condition, left=True, requeued=True, not_before=None)


def _requeue(
    workload: Workload, at: int, condition: Condition, *, left: bool, requeued: bool, not_before: int | None
) -> Change:
    """Back to the queue: at once, or when the pods that are left have gone."""
    if not left:
        return Change(_queue_again(workload, at, requeued=requeued, not_before=not_before), (condition,))
    leaving = structs.replace(
        _to(workload, Phase.TERMINATING, at), then=Phase.PENDING, requeued=requeued, not_before=not_before
    )
    return Change(leaving, (condition,))


def _stopped(workload: Workload, event: StopAsked) -> Change | None:
    message = f"stopped by {event.by}"
    match workload.phase:
        case Phase.STOPPING | Phase.DELETING:
            return None
        case Phase.TERMINATING if workload.then is Phase.FAILED:
            return None
        case phase if phase.queued:
            return _final(workload, Phase.STOPPED, "Stopped", message, event.at)
        case _:
            leaving = structs.replace(_to(workload, Phase.STOPPING, event.at), then=Phase.STOPPED, message=message)
            return _with(leaving, ConditionType.RUNNING, "StopAsked", message, event.at)


def _timed_out(workload: Workload, event: TimedOut) -> Change:
    message = f"ran longer than its timeout of {workload.timeout_seconds} s"
    leaving = structs.replace(_to(workload, Phase.STOPPING, event.at), then=Phase.STOPPED, message=message)
    return _with(leaving, ConditionType.TIMED_OUT, "TimedOut", message, event.at)


def _deleted(workload: Workload, event: DeleteAsked) -> Change | None:
    if workload.deleted_at is not None:
        return None
    message = f"deleted by {event.by}"
    if workload.phase.ended:
        kept = structs.replace(workload, deleted_at=event.at, version=workload.version + 1)
        return _with(kept, ConditionType.STOPPED, "Deleted", message, event.at)
    if workload.phase.queued:
        over = _final(workload, Phase.STOPPED, "Deleted", message, event.at)
        return Change(structs.replace(over.workload, deleted_at=event.at), over.conditions)
    then = workload.then if workload.then is Phase.FAILED else Phase.STOPPED
    leaving = structs.replace(_to(workload, Phase.DELETING, event.at), then=then, message=message, deleted_at=event.at)
    return _with(leaving, ConditionType.RUNNING, "DeleteAsked", message, event.at)


def _gone(workload: Workload, event: PodsGone) -> Change:
    match workload.then:
        case Phase.FAILED:
            return _final(workload, Phase.FAILED, "PodFailed", workload.message, event.at)
        case Phase.STOPPED:
            return _final(workload, Phase.STOPPED, "Stopped", workload.message, event.at)
        case _:
            queued = _queue_again(workload, event.at, requeued=workload.requeued, not_before=workload.not_before)
            return _with(queued, ConditionType.QUEUED, "Requeued", workload.message or "queued again", event.at)


def _replaced(workload: Workload, event: Replaced) -> Change:
    message = f"changed by {event.by}"
    only_more_or_fewer = workload.kind.rolls and event.spec == structs.replace(
        workload.spec, replicas=event.spec.replicas
    )
    revision = workload.revision if only_more_or_fewer else workload.revision + 1
    worded = structs.replace(workload, spec=event.spec, revision=revision)
    if workload.phase.queued:
        kept = structs.replace(worded, version=workload.version + 1)
        queued = Condition(ConditionType.QUEUED, "Changed", message, event.at)
        return Change(kept, (queued, *_overridden(event.spec, event.at)))
    changed = structs.replace(_to(worded, Phase.UPDATING, event.at), message=message)
    if not workload.kind.rolls:
        changed = structs.replace(changed, then=Phase.PENDING, requeued=True, not_before=None, guaranteed_until=None)
    updating = Condition(ConditionType.UPDATING, "Changed", message, event.at)
    return Change(changed, (updating, *_overridden(event.spec, event.at)))


def _resumed(workload: Workload, event: ResumeAsked) -> Change:
    queued = structs.replace(
        _to(workload, Phase.RESUMING, event.at), message="", retries=0, requeued=False, not_before=None
    )
    return _with(queued, ConditionType.QUEUED, "Resumed", f"resumed by {event.by}", event.at)


def _begun(workload: Workload, at: int) -> Workload:
    """A run so short that nobody saw it up has begun all the same."""
    if workload.started_at is not None:
        return workload
    return structs.replace(workload, started_at=at, running_since=at)
