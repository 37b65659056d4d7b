"""What the state of its pods means for a workload, and what is to be done about it: pure decisions.

`judge` is asked again and again until it has nothing more to say; it never needs to know what was said before.
"""

from collections.abc import Sequence, Set

from msgspec import Struct

from stoker.domain.events import Event, PodsEnded, PodsGone, PodsLost, PodsShort, PodsUp, TimedOut
from stoker.domain.lifecycle import ran_ms
from stoker.domain.placement import latest, predecessors
from stoker.domain.workload import Phase, Pod, PodPhase, Workload


class Happened(Struct, frozen=True):
    """An event that the workload has to go through."""

    event: Event


class Start(Struct, frozen=True):
    """The engine has to have these pods, at this revision."""

    pods: tuple[Pod, ...]


class Succeed(Struct, frozen=True):
    """The present revision takes the places of these pods of an older one."""

    followed: tuple[Pod, ...]


class End(Struct, frozen=True):
    """The engine has to end the pods of the attempt; those it never had are over already."""

    never_had: tuple[Pod, ...]


class LetGo(Struct, frozen=True):
    """The engine need not hold what is left of the attempt."""


Step = Happened | Start | Succeed | End | LetGo


def judge(workload: Workload, pods: Sequence[Pod], had: Set[str], now: int) -> Step | None:
    """The next step for a workload. `pods` are those of its present attempt, `had` the uids the engine reports."""
    if workload.phase.queued:
        return None
    if workload.phase.ended:
        return LetGo() if is_over(workload, now) else None
    alive = tuple(pod for pod in pods if not pod.phase.ended)
    if workload.phase.leaving or workload.then is not None:
        if not alive:
            return Happened(PodsGone(now))
        return End(tuple(pod for pod in alive if pod.uid not in had))
    if timed_out(workload, now):
        return Happened(TimedOut(now))
    event = (_ending if workload.kind.ends else _keeping)(workload, pods, alive, now)
    if event is not None:
        return Happened(event)
    if followed := predecessors(workload, alive):
        return Succeed(followed)
    wanted = tuple(pod for pod in latest(pods, workload.revision) if pod.rank < workload.spec.replicas)
    return Start(wanted) if len(wanted) == workload.spec.replicas else None


def timed_out(workload: Workload, now: int) -> bool:
    return workload.timeout_seconds > 0 and ran_ms(workload, now) >= workload.timeout_seconds * 1000


def is_over(workload: Workload, now: int) -> bool:
    """Ended, and deleted or past the time for which the engine holds on to what ended."""
    if workload.ended_at is not None and workload.deleted_at is not None:
        return True
    return workload.ended_at is not None and now >= workload.ended_at + workload.spec.ttl_seconds * 1000


def next_look(workload: Workload, now: int) -> int | None:
    """When a workload has to be looked at again though nothing happened to it."""
    if workload.phase.ended:
        due = (workload.ended_at or 0) + workload.spec.ttl_seconds * 1000
        return due if due > now else None
    if workload.timeout_seconds and workload.running_since is not None:
        return now + max(0, workload.timeout_seconds * 1000 - ran_ms(workload, now))
    return None


def _ending(workload: Workload, pods: Sequence[Pod], alive: Sequence[Pod], now: int) -> Event | None:
    """Of something that ends: one failing pod fails the gang, and all have to succeed."""
    if (event := _broken(pods, alive, now)) is not None:
        return event
    if not alive and pods:
        return PodsEnded(now, True, "every pod exited with code 0")
    up = bool(alive) and all(pod.phase is PodPhase.RUNNING for pod in alive)
    if up and workload.phase is not Phase.RUNNING:
        return PodsUp(now)
    return None


def _broken(pods: Sequence[Pod], alive: Sequence[Pod], now: int) -> Event | None:
    """Of pods that belong together: what became of the first that failed, or was lost."""
    left = bool(alive)
    failed = next((pod for pod in pods if pod.phase is PodPhase.FAILED), None)
    if failed is not None:
        return PodsEnded(now, False, why(failed), left)
    lost = next((pod for pod in pods if pod.phase is PodPhase.LOST), None)
    return PodsLost(now, why(lost), left) if lost is not None else None


def _keeping(workload: Workload, pods: Sequence[Pod], alive: Sequence[Pod], now: int) -> Event | None:
    """Of something that is kept up: all of the present revision have to be ready."""
    if not workload.kind.rolls and (event := _broken(pods, alive, now)) is not None:
        return event  # the pods of what rolls are replaced one by one, but these have to queue again
    up = [pod for pod in latest(pods, workload.revision) if pod.phase is PodPhase.RUNNING and pod.ready]
    settled = len(up) == workload.spec.replicas == sum(not pod.phase.ended for pod in pods)
    if settled and workload.phase is not Phase.RUNNING:
        return PodsUp(now)
    if len(up) == workload.spec.replicas:
        return None
    message = _shortage(workload, pods, len(up))
    if workload.phase is Phase.RUNNING or (message and message != workload.message):
        return PodsShort(now, message or f"{len(up)} of {workload.spec.replicas} pods are up")
    return None


def _shortage(workload: Workload, pods: Sequence[Pod], up: int) -> str:
    """What keeps pods from staying up; empty when they have only not come up yet."""
    fallen = [
        pod
        for pod in latest(pods, workload.revision)
        if not pod.ready and not pod.phase.ended and pod.message and pod.started_at is not None
    ]
    if not fallen:
        return ""
    pod = max(fallen, key=lambda pod: pod.restarts)
    what = "the new revision does not stay up" if workload.phase is Phase.UPDATING else "not all pods stay up"
    count = f"{up} of {workload.spec.replicas} up"
    return f"{what} ({count}): pod {pod.name}, restarted {_times(pod.restarts)}: {pod.message}"


def _times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"


def why(pod: Pod) -> str:
    """How a pod ended, and what its engine has to say about it."""
    if pod.phase is PodPhase.LOST:
        return pod.message or f"pod {pod.name} was lost with its node"
    if pod.signal:
        return _more(f"pod {pod.name} was killed by signal {pod.signal} (exit code {128 + pod.signal})", pod.message)
    if pod.exit_code is None:
        return _more(f"pod {pod.name} could not be started", pod.message)
    return f"pod {pod.name} exited with code {pod.exit_code}"


def _more(fact: str, message: str) -> str:
    return f"{fact}. {message}" if message else fact
