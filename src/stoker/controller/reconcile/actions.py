"""Decides the next action for a workload from the state of its pods.

The functions are pure. `next_action` is called again after each action until it returns None, and does not depend on
earlier answers.
"""

from collections.abc import Sequence, Set

from msgspec import Struct

from stoker.domain.cluster.quantity import humanize_count
from stoker.domain.workload.durations import total_running_ms
from stoker.domain.workload.events import (
    LifecycleEvent,
    PodsFinished,
    PodsLost,
    PodsNotReady,
    PodsReady,
    PodsTerminated,
    TimedOut,
)
from stoker.domain.workload.model import DEFAULT_GRACE_SECONDS, Workload
from stoker.domain.workload.phase import EnginePhase, Phase, PodPhase
from stoker.domain.workload.placement import latest_pods, replaceable_pods
from stoker.domain.workload.pod import Pod

FORCE_AFTER_SECONDS = 60.0
"""How long after the end of their grace period pods are removed by force."""


class EmitEvent(Struct, frozen=True):
    """The workload goes through this lifecycle event."""

    event: LifecycleEvent


class EnsurePods(Struct, frozen=True):
    """The engine has to run those of these pods that have not ended, at this revision."""

    pods: tuple[Pod, ...]


class ReplacePods(Struct, frozen=True):
    """Pods of the current revision have to be created in place of older ones."""


class TerminateAttempt(Struct, frozen=True):
    """The engine has to terminate the pods of the attempt. It does not report `unknown_pods`."""

    unknown_pods: tuple[Pod, ...]


class SubmitToEngine(Struct, frozen=True):
    """The workload has to be handed to an engine that runs it by itself."""


class ReleaseAttempt(Struct, frozen=True):
    """The engine may delete what is left of the attempt."""


class AbandonRollout(Struct, frozen=True):
    """The current revision has not become ready before its deadline."""


ReconcileAction = (
    EmitEvent | EnsurePods | SubmitToEngine | ReplacePods | TerminateAttempt | ReleaseAttempt | AbandonRollout
)


def next_action(workload: Workload, pods: Sequence[Pod], observed: Set[str], now: int) -> ReconcileAction | None:
    """The next action for a workload. `pods` are those of its current attempt, `observed` the uids the engine
    reports."""
    if not workload.managed:
        return TerminateAttempt(()) if workload.phase.is_terminating else None
    if workload.phase.is_pending or workload.phase is Phase.UNKNOWN:
        return None
    if workload.phase.is_finished:
        return ReleaseAttempt() if is_releasable(workload, now) else None
    if workload.engine_phase is not None:
        return _next_delegated_action(workload, now)
    alive = tuple(pod for pod in pods if not pod.phase.is_finished)
    if workload.phase.is_terminating or workload.next_phase is not None:
        if not alive:
            return EmitEvent(PodsTerminated(now))
        return TerminateAttempt(tuple(pod for pod in alive if pod.uid not in observed))
    if is_timed_out(workload, now):
        return EmitEvent(TimedOut(now))
    event = (_run_to_completion_event if workload.runs_to_completion else _long_running_event)(
        workload, pods, alive, now
    )
    if event is not None:
        return EmitEvent(event)
    if replaceable_pods(workload, alive):
        return ReplacePods()
    wanted = tuple(pod for pod in latest_pods(pods, workload.revision) if pod.rank < workload.spec.replicas)
    return EnsurePods(wanted) if len(wanted) == workload.spec.replicas else None


def _next_delegated_action(workload: Workload, now: int) -> ReconcileAction | None:
    """The engine replaces pods and ends the workload; its reports change the phase."""
    if workload.phase.is_terminating or workload.next_phase is not None:
        return TerminateAttempt(())
    if workload.engine_phase is EnginePhase.REQUESTED:
        return SubmitToEngine()
    return EmitEvent(TimedOut(now)) if is_timed_out(workload, now) else None


def is_timed_out(workload: Workload, now: int) -> bool:
    return workload.timeout_seconds > 0 and total_running_ms(workload, now) >= workload.timeout_seconds * 1000


def is_releasable(workload: Workload, now: int) -> bool:
    """Whether it has ended, and was deleted or is past its time to live."""
    if workload.ended_at is not None and workload.deleted_at is not None:
        return True
    return workload.ended_at is not None and now >= workload.ended_at + workload.spec.ttl_seconds * 1000


def forced_termination_at(workload: Workload) -> int:
    """When the pods of a terminating workload are removed by force: some time after their grace period."""
    grace_seconds = DEFAULT_GRACE_SECONDS if workload.grace_seconds is None else workload.grace_seconds
    return workload.phase_at + round((grace_seconds + FORCE_AFTER_SECONDS) * 1000)


def next_check_at(workload: Workload, now: int) -> int | None:
    """When the workload has to be synced again even if nothing happens."""
    if workload.phase.is_finished:
        due = (workload.ended_at or 0) + workload.spec.ttl_seconds * 1000
        return due if due > now else None
    if workload.phase.is_terminating or workload.next_phase is not None:
        due = forced_termination_at(workload)
        return due if due > now else None
    if workload.timeout_seconds and workload.running_since is not None:
        return now + max(0, workload.timeout_seconds * 1000 - total_running_ms(workload, now))
    return None


def _run_to_completion_event(
    workload: Workload, pods: Sequence[Pod], alive: Sequence[Pod], now: int
) -> LifecycleEvent | None:
    """For kinds that run to completion: one failed pod fails the gang, and all pods have to succeed."""
    if (event := _failure_event(pods, alive, now)) is not None:
        return event
    if not alive and pods:
        return PodsFinished(now, True, "every pod exited with code 0")
    up = bool(alive) and all(pod.phase is PodPhase.RUNNING for pod in alive)
    if up and workload.phase is not Phase.RUNNING:
        return PodsReady(now)
    return None


def _failure_event(pods: Sequence[Pod], alive: Sequence[Pod], now: int) -> LifecycleEvent | None:
    """For pods of a gang: the event of the first pod that failed or was lost."""
    left = bool(alive)
    failed = next((pod for pod in pods if pod.phase is PodPhase.FAILED), None)
    if failed is not None:
        return PodsFinished(now, False, termination_message(failed), left)
    lost = next((pod for pod in pods if pod.phase is PodPhase.LOST), None)
    return PodsLost(now, termination_message(lost), left) if lost is not None else None


def _long_running_event(
    workload: Workload, pods: Sequence[Pod], alive: Sequence[Pod], now: int
) -> LifecycleEvent | None:
    """For long-running kinds: all pods of the current revision have to be ready."""
    if not workload.uses_rolling_update and (event := _failure_event(pods, alive, now)) is not None:
        return event  # pods of rolling kinds are replaced one by one, but a gang has to be requeued
    up = [pod for pod in latest_pods(pods, workload.revision) if pod.phase is PodPhase.RUNNING and pod.ready]
    settled = len(up) == workload.spec.replicas == sum(not pod.phase.is_finished for pod in pods)
    if settled and workload.phase is not Phase.RUNNING:
        return PodsReady(now)
    if len(up) == workload.spec.replicas:
        return None
    message = _not_ready_message(workload, pods, len(up))
    if workload.phase is Phase.RUNNING or (message and message != workload.message):
        return PodsNotReady(now, message or f"{len(up)} of {workload.spec.replicas} pods are up")
    return None


def _not_ready_message(workload: Workload, pods: Sequence[Pod], up: int) -> str:
    """Why pods are not ready; empty if they have only not started yet."""
    pod = find_unready_pod(workload, pods)
    if pod is None:
        return ""
    new = workload.phase is Phase.UPDATING
    count = f"{up} of {workload.spec.replicas}"
    if not pod.restarts:
        what = "the new revision is not ready" if new else "not all pods are ready"
        return f"{what} ({count} ready): pod {pod.name}: {pod.message}"
    what = "the new revision does not stay up" if new else "not all pods stay up"
    return f"{what} ({count} up): pod {pod.name}, restarted {humanize_count(pod.restarts, 'time')}: {pod.message}"


def find_unready_pod(workload: Workload, pods: Sequence[Pod]) -> Pod | None:
    """The unready pod of the current revision that was restarted most often."""
    found = [
        pod
        for pod in latest_pods(pods, workload.revision)
        if not pod.ready and not pod.phase.is_finished and pod.message and pod.started_at is not None
    ]
    return max(found, key=lambda pod: pod.restarts, default=None)


def termination_message(pod: Pod) -> str:
    """How a pod ended, with the message of its engine."""
    if pod.phase is PodPhase.LOST:
        return pod.message or f"pod {pod.name} was lost with its node"
    if pod.signal:
        return _append_message(
            f"pod {pod.name} was killed by signal {pod.signal} (exit code {128 + pod.signal})", pod.message
        )
    if pod.exit_code is None:
        return _append_message(f"pod {pod.name} could not be started", pod.message)
    return f"pod {pod.name} exited with code {pod.exit_code}"


def _append_message(fact: str, message: str) -> str:
    return f"{fact}. {message}" if message else fact
