"""Plans the pods of a launch spec: when each starts, and which older pods stop first.

The times of simulated pods are known in advance, so a rolling update is planned at once: each old pod is stopped when
the new pod of the rank before has been running for a while.
"""

from collections.abc import Sequence

from stoker.domain.workload.spec import Kind
from stoker.engines.model import LaunchSpec
from stoker.engines.simulated.pods.pod import PlannedPod, SimulatedAttempt, SimulatedPod
from stoker.engines.simulated.scenario import ANNOTATION_PREFIX, FRAMEWORK_ANNOTATION, Scenario

MIN_READY_SECONDS = 1.0
MAX_COMMAND_CHARACTERS = 200
FRAMEWORK_LABEL = "framework"


def build_attempt(launch_spec: LaunchSpec) -> SimulatedAttempt:
    """What is stored of a launch spec."""
    command = launch_spec.main.entry_point.strip().partition("\n")[0]
    labels = {**launch_spec.labels, **launch_spec.annotations}
    return SimulatedAttempt(
        workload_uid=launch_spec.ref.uid,
        slug=launch_spec.ref.slug,
        namespace=launch_spec.ref.namespace,
        kind=Kind(launch_spec.kind),
        attempt=launch_spec.ref.attempt,
        revision=launch_spec.ref.revision,
        replicas=max(1, len(launch_spec.pods)),
        gpu_milli=launch_spec.main.resources.gpu_milli,
        cpu_milli=launch_spec.main.resources.cpu_milli,
        memory_bytes=launch_spec.main.resources.memory_bytes,
        restart=launch_spec.restart_on_exit,
        command=command[:MAX_COMMAND_CHARACTERS],
        service_port=launch_spec.service.port if launch_spec.service else 0,
        framework=labels.get(FRAMEWORK_ANNOTATION, labels.get(FRAMEWORK_LABEL, "")),
        annotations={key: value for key, value in launch_spec.annotations.items() if key.startswith(ANNOTATION_PREFIX)},
    )


def plan_stops(launch_spec: LaunchSpec, there: Sequence[SimulatedPod], now: int, speed: float) -> list[tuple[str, int]]:
    """When each living pod that the launch spec does not list is asked to stop. A launch spec that was applied before
    has no missing ranks and puts no stop forward."""
    wanted = {pod.uid for pod in launch_spec.pods}
    ranks = sorted({pod.rank for pod in launch_spec.pods} - {pod.plan.rank for pod in there if pod.uid in wanted})
    last = len(ranks)
    turn = {rank: place for place, rank in enumerate(ranks)}
    each = round(_replacement_seconds(launch_spec) * 1000 / speed)
    stops = []
    for pod in there:
        if pod.uid in wanted or pod.is_finished(now):
            continue
        at = now + (turn.get(pod.plan.rank, last) * each if launch_spec.rolling_update else 0)
        if pod.stop_at is None or (ranks and pod.stop_at > at):
            stops.append((pod.uid, at))
    return stops


def plan_pods(
    launch_spec: LaunchSpec, told: Scenario, there: Sequence[SimulatedPod], now: int, speed: float
) -> tuple[PlannedPod, ...]:
    """The pods of the launch spec that do not exist yet. Each starts when the pods it replaces have ended."""
    known = {pod.uid for pod in there}
    delay = round(told.start_seconds * 1000 / speed)
    places = []
    for pod in launch_spec.pods:
        if pod.uid in known:
            continue
        before = [old for old in there if old.plan.rank == pod.rank or not launch_spec.rolling_update]
        free_at = max((end.at for old in before if (end := old.termination()) is not None), default=now)
        places.append(
            PlannedPod(
                uid=pod.uid,
                name=pod.name,
                rank=pod.rank,
                node=pod.node,
                devices=tuple(device.index for device in pod.devices if device.index is not None),
                port=pod.port,
                created_at=now,
                begins_at=max(now, free_at) + delay,
            )
        )
    return tuple(places)


def _replacement_seconds(launch_spec: LaunchSpec) -> float:
    """The longest time for an old pod to stop and the new one to start."""
    return min(launch_spec.grace_seconds, 2.0) + MIN_READY_SECONDS + 4.0
