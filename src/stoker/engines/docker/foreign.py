"""Containers that this installation has not made and that hold GPUs: what others run is shown, and never changed."""

import uuid
from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.phase import PodPhase
from stoker.engines.docker.api.schema import ContainerInspect, parse_time_ms
from stoker.engines.docker.gpus import HostGpus, held_devices
from stoker.engines.docker.pod import CREATED, MAIN_CONTAINER, PAUSED, RESTARTING, RUNNING
from stoker.engines.model import ContainerStatus, EnginePhase, ObservedPod, ObservedWorkload, OwnedObject
from stoker.engines.replicas.exit_status import describe_exit, signal_of

CONTAINER_KIND = "Container"
_COMPOSE = ("com.docker.compose.project", "com.docker.compose.service", "ComposeService")
_SWARM = ("com.docker.stack.namespace", "com.docker.swarm.service.name", "SwarmService")
_POD_PHASES = {
    EnginePhase.STARTING: PodPhase.PENDING,
    EnginePhase.RUNNING: PodPhase.RUNNING,
    EnginePhase.SUCCEEDED: PodPhase.SUCCEEDED,
    EnginePhase.FAILED: PodPhase.FAILED,
}


class ForeignContainer(Struct, frozen=True):
    """A container of somebody else with the GPUs that it holds."""

    container: ContainerInspect
    devices: tuple[DeviceRef, ...]


def find_foreign(container: ContainerInspect, gpus: HostGpus) -> ForeignContainer | None:
    """None if the container holds no GPUs."""
    held = held_devices(container, gpus)
    return ForeignContainer(container, held) if held else None


def derive_uid(cluster: uuid.UUID, seed: str) -> str:
    """A uid that is the same for the same object of one cluster."""
    return str(uuid.uuid5(cluster, seed))


def pod_uid_seed(container_id: str) -> str:
    """What the uid of the pod of a foreign container is derived from."""
    return f"pod/{container_id}"


def observed_workload(foreign: ForeignContainer, cluster: uuid.UUID) -> ObservedWorkload:
    container = foreign.container
    phase, state = _phase(container), container.state
    owners = _owners(container.labels, cluster)
    return ObservedWorkload(
        engine_ref=container.id,
        uid=derive_uid(cluster, container.id),
        kind=CONTAINER_KIND,
        name=container.name.lstrip("/"),
        namespace=owners[0].namespace if owners else "",
        phase=phase,
        message=_message(container, phase),
        resources=_resources(foreign),
        image=container.config.image,
        labels=dict(container.labels),
        owners=owners,
        created_at=parse_time_ms(container.created) or 0,
        started_at=parse_time_ms(state.started_at),
        ended_at=_ended_at(container, phase),
    )


def observed_pod(foreign: ForeignContainer, cluster: uuid.UUID, node: str) -> ObservedPod:
    container = foreign.container
    phase = _phase(container)
    code = container.state.exit_code if _has_ended(phase) else None
    running = phase is EnginePhase.RUNNING
    return ObservedPod(
        uid=derive_uid(cluster, pod_uid_seed(container.id)),
        name=container.name.lstrip("/"),
        workload_uid="",
        attempt=1,
        revision=1,
        owner_ref=container.id,
        engine_uid=container.id,
        node=node,
        phase=_POD_PHASES[phase],
        ready=running,
        exit_code=code,
        signal=None if code is None else signal_of(code),
        message=_message(container, phase),
        restarts=container.restart_count,
        created_at=parse_time_ms(container.created),
        started_at=parse_time_ms(container.state.started_at),
        ended_at=_ended_at(container, phase),
        devices=foreign.devices,
        resources=_resources(foreign),
        containers=(ContainerStatus(MAIN_CONTAINER, container.config.image, running, container.restart_count, code),),
    )


def _phase(container: ContainerInspect) -> EnginePhase:
    status = container.state.status
    if status == CREATED:
        return EnginePhase.STARTING
    if status in {RUNNING, PAUSED, RESTARTING}:
        return EnginePhase.RUNNING
    return EnginePhase.SUCCEEDED if container.state.exit_code == 0 else EnginePhase.FAILED


def _has_ended(phase: EnginePhase) -> bool:
    return phase in {EnginePhase.SUCCEEDED, EnginePhase.FAILED}


def _ended_at(container: ContainerInspect, phase: EnginePhase) -> int | None:
    return parse_time_ms(container.state.finished_at) if _has_ended(phase) else None


def _message(container: ContainerInspect, phase: EnginePhase) -> str:
    state = container.state
    return describe_exit(state.exit_code, signal_of(state.exit_code)) if _has_ended(phase) else ""


def _resources(foreign: ForeignContainer) -> Resources:
    host = foreign.container.host_config
    return Resources(len(foreign.devices) * MILLI, host.nano_cpus // 1_000_000, host.memory)


def _owners(labels: Mapping[str, str], cluster: uuid.UUID) -> tuple[OwnedObject, ...]:
    """The service of Compose or Swarm that the container belongs to."""
    for project_label, service_label, kind in (_COMPOSE, _SWARM):
        if service := labels.get(service_label):
            project = labels.get(project_label, "")
            return (OwnedObject(derive_uid(cluster, f"{kind}/{project}/{service}"), kind, service, project),)
    return ()
