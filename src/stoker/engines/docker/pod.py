"""One pod of the engine: a container as Docker last reported it."""

from msgspec import structs

from stoker.domain.cluster.node import DeviceRef
from stoker.domain.workload.phase import PodPhase
from stoker.engines.docker.api.schema import ContainerInspect, parse_time_ms
from stoker.engines.docker.config import HOST_NETWORK
from stoker.engines.docker.labels import ContainerRecord
from stoker.engines.model import ContainerStatus, LaunchSpec, ObservedPod, PodAssignment
from stoker.engines.proxy.tcp import ReplicaAddress
from stoker.engines.replicas.exit_status import describe_exit, describe_out_of_memory, signal_of
from stoker.engines.replicas.replica import Replica

CREATED, RUNNING, PAUSED, RESTARTING, EXITED, REMOVING, DEAD = (
    "created",
    "running",
    "paused",
    "restarting",
    "exited",
    "removing",
    "dead",
)
MAIN_CONTAINER = "main"
LOST_MESSAGE = "Docker has ended it while it was restarted, so the command did not end by itself."
_UNKNOWN_EXIT_CODE = 255
"""What dockerd records for a container whose end it has not seen."""


class DockerPod(Replica):
    """`host` is the address of the Docker host."""

    def __init__(self, record: ContainerRecord, container: ContainerInspect, host: str) -> None:
        super().__init__()
        self._record = record
        self._host = host
        self._first_started_at: int | None = None
        self._ready_run: int | None = None
        self.container = container
        self.is_removed = False
        self.is_lost = False
        """Whether it ended because dockerd did."""
        self.stop_requested = False
        self.update(container)

    def update(self, container: ContainerInspect) -> None:
        self.container = container
        if self._first_started_at is None:
            self._first_started_at = parse_time_ms(container.state.started_at)

    @property
    def record(self) -> ContainerRecord:
        return self._record

    def adopt_revision(self, revision: int) -> None:
        """A running pod that a newer revision still lists belongs to that revision. Labels cannot change, so a later
        engine learns this when the launch spec is applied to it."""
        self._record = structs.replace(self._record, revision=revision)

    @property
    def status(self) -> str:
        return self.container.state.status

    @property
    def has_started(self) -> bool:
        return self.status != CREATED

    @property
    def is_running(self) -> bool:
        return self.status in {RUNNING, PAUSED, RESTARTING}

    @property
    def is_finished(self) -> bool:
        return self.is_removed or self.status in {EXITED, DEAD, REMOVING}

    @property
    def running_since(self) -> int | None:
        return parse_time_ms(self.container.state.started_at) if self.status in {RUNNING, PAUSED} else None

    @property
    def is_ready(self) -> bool:
        if self.running_since is None or self.is_finished:
            return False
        return self._record.check is None or self._ready_run == self.running_since

    def set_ready(self, ready: bool) -> None:
        self._ready_run = self.running_since if ready else None

    @property
    def address(self) -> ReplicaAddress | None:
        if not self._record.port or self.running_since is None:
            return None
        if self.container.host_config.network_mode == HOST_NETWORK:
            return ReplicaAddress(self._host, self._record.port)
        for key, bindings in (self.container.network_settings.ports or {}).items():
            if key.partition("/")[0] == str(self._record.port):
                for binding in bindings or []:
                    return ReplicaAddress(self._host, int(binding.host_port))
        return None

    @property
    def network_address(self) -> str:
        """Its address on its network; empty unless it runs."""
        networks = (self.container.network_settings.networks or {}).values()
        return next((endpoint.ip_address for endpoint in networks if endpoint and endpoint.ip_address), "")

    @property
    def was_ended_from_outside(self) -> bool:
        """Whether its exit code is that of a signal, or unknown."""
        state = self.container.state
        return (
            self.status == EXITED
            and not state.oom_killed
            and (signal_of(state.exit_code) is not None or state.exit_code == _UNKNOWN_EXIT_CODE)
        )

    def observed(self) -> ObservedPod:
        """The pod as `watch` reports it."""
        record, state = self._record, self.container.state
        finished = self.is_finished
        code = state.exit_code if finished and self.has_started and not self.is_lost else None
        return ObservedPod(
            uid=record.uid,
            name=record.name,
            workload_uid=record.workload_uid,
            engine_uid=self.container.id,
            attempt=record.attempt,
            revision=record.revision,
            rank=record.rank,
            node=record.node,
            phase=self._phase(),
            ready=self.is_ready,
            exit_code=code,
            signal=None if code is None else signal_of(code),
            message=self._message(),
            restarts=self.container.restart_count,
            port=record.port,
            created_at=parse_time_ms(self.container.created),
            started_at=self._first_started_at,
            ended_at=self._ended_at() if finished else None,
            devices=tuple(DeviceRef(device.index, device.uuid) for device in record.devices),
            resources=record.resources,
            containers=(
                ContainerStatus(
                    MAIN_CONTAINER, self.container.config.image, self.is_ready, self.container.restart_count, code
                ),
            ),
        )

    def _ended_at(self) -> int | None:
        """Docker may record the end of a short run before its start."""
        ended_at = parse_time_ms(self.container.state.finished_at)
        return None if ended_at is None else max(ended_at, self._first_started_at or ended_at)

    @property
    def _is_out_of_memory(self) -> bool:
        return self.container.state.oom_killed and self.container.state.exit_code != 0

    def _phase(self) -> PodPhase:
        if self.is_lost or self.status == DEAD:
            return PodPhase.LOST
        if self.is_finished:
            return PodPhase.SUCCEEDED if self.container.state.exit_code == 0 else PodPhase.FAILED
        return PodPhase.PENDING if self.status == CREATED else PodPhase.RUNNING

    def _message(self) -> str:
        state = self.container.state
        if self.is_lost:
            return LOST_MESSAGE
        if self.status == DEAD:
            return f"Docker could not remove it: {state.error}" if state.error else "Docker could not remove it."
        if self.is_finished or self.status == RESTARTING:
            ended = describe_exit(state.exit_code, signal_of(state.exit_code))
            if self._is_out_of_memory:
                ended = describe_out_of_memory(self._record.resources.memory_bytes)
            elif state.error:
                ended = f"{ended} Docker says: {state.error.rstrip('.')}.".lstrip()
            return ended if self.is_finished else f"{ended or 'The command ended.'} It starts again soon."
        if self.status == PAUSED:
            return "It is paused (docker pause)."
        return "" if self.is_ready else self.unready_reason


def rejected_pod(launch_spec: LaunchSpec, assignment: PodAssignment, reason: str) -> ObservedPod:
    """The report of a pod that will never have a container."""
    return ObservedPod(
        uid=assignment.uid,
        name=assignment.name,
        workload_uid=launch_spec.ref.uid,
        attempt=launch_spec.ref.attempt,
        revision=launch_spec.ref.revision,
        node=assignment.node,
        phase=PodPhase.FAILED,
        rank=assignment.rank,
        ready=False,
        message=reason,
        devices=assignment.devices,
        resources=launch_spec.main.resources,
    )
