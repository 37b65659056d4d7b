"""What the controller and an engine exchange: launch specs in one direction, observations in the other.

An observation is a full sync, which lists everything, a delta since the last observation, or the loss of contact.
"""

from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.cluster.node import DeviceRef, Node
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.ownership import OwnedObject
from stoker.domain.workload.phase import EnginePhase, PodPhase
from stoker.domain.workload.spec import ReadinessSpec, Service


class WorkloadRef(Struct, frozen=True, kw_only=True):
    """One attempt of a workload at one revision. `engine_ref` is the engine's own name for it, if it has one."""

    uid: str
    slug: str = ""
    namespace: str = ""
    attempt: int = 1
    revision: int = 1
    engine_ref: str = ""


class ContainerSpec(Struct, frozen=True, kw_only=True):
    """One container of each pod. An empty `entry_point` is the command of the image. `env` has the variables that are
    the same in every pod."""

    name: str = "main"
    image: str = ""
    entry_point: str = ""
    resources: Resources = Resources()
    env: Mapping[str, str] = {}


class Constraints(Struct, frozen=True):
    """Where pods may run, for engines that place them. Nodes are empty if any will do."""

    node_names: tuple[str, ...] = ()
    node_pools: tuple[str, ...] = ()
    tolerate_all: bool = False


class AdmissionHints(Struct, frozen=True):
    """What an engine with a queue of its own has to know."""

    queue: str = ""
    priority: int = 0
    preemptible: bool = False
    time_limit_seconds: int = 0
    not_before: int | None = None
    depends_on: tuple[str, ...] = ()
    max_retries: int = 0


class Rendezvous(Struct, frozen=True):
    """Where the ranks of a gang meet. The master address is empty unless Stoker has placed the pods."""

    port: int = 0
    world_size: int = 1
    master_address: str = ""


class PodAssignment(Struct, frozen=True):
    """One pod to run, with its node, its devices and its whole environment, where Stoker places pods."""

    uid: str
    name: str
    rank: int
    node: str
    devices: tuple[DeviceRef, ...]
    env: Mapping[str, str]
    port: int = 0


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """One attempt of a workload at one revision. `pods` lists the pods to run where Stoker places them, without those
    that have ended; they replace the pods of earlier revisions, one by one if `rolling_update` is set."""

    ref: WorkloadRef
    kind: str
    replicas: int = 1
    containers: tuple[ContainerSpec, ...]
    pods: tuple[PodAssignment, ...] = ()
    gang: bool = True
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    service: Service | None = None
    readiness: ReadinessSpec | None = None
    restart_on_exit: bool = False
    rolling_update: bool = False
    grace_seconds: float = 30.0
    workspace_id: int = 0
    constraints: Constraints = Constraints()
    admission: AdmissionHints = AdmissionHints()
    rendezvous: Rendezvous = Rendezvous()

    @property
    def main(self) -> ContainerSpec:
        """The container that runs the workload's own command."""
        return self.containers[0]


class ContainerStatus(Struct, frozen=True):
    """One container of a pod as the engine reports it."""

    name: str
    image: str = ""
    ready: bool = False
    restarts: int = 0
    exit_code: int | None = None


class ObservedPod(Struct, frozen=True):
    """A pod as the engine reports it. `uid` is the one that Stoker gave it, else one derived from the engine's own.
    `workload_uid` is empty if this installation has not launched it; then `owner_ref` names the observed workload that
    it belongs to."""

    uid: str
    name: str
    workload_uid: str
    attempt: int
    revision: int
    node: str
    phase: PodPhase
    owner_ref: str = ""
    owner_uid: str = ""
    """The object that owns it directly, such as a ReplicaSet; empty if that is the workload."""
    engine_uid: str = ""
    """The engine's own id, if it has one."""
    rank: int | None = None
    ready: bool = True
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    restarts: int = 0
    port: int = 0
    """The port it listens on, if the workload has a service."""
    created_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    devices: tuple[DeviceRef, ...] | None = None
    """The GPUs allocated to it; None if the engine does not know them."""
    resources: Resources = Resources()
    """All resources allocated to it."""
    containers: tuple[ContainerStatus, ...] = ()


class ObservedWorkload(Struct, frozen=True, kw_only=True):
    """A workload as the engine reports it. `workload_uid` is that of a workload that this installation has launched;
    it is empty for a foreign one, whose `uid` is the engine's own or derived from it. What ends and runs again has
    another uid."""

    engine_ref: str
    uid: str
    workload_uid: str = ""
    kind: str
    api_version: str = ""
    name: str
    namespace: str = ""
    phase: EnginePhase
    reason: str = ""
    message: str = ""
    attempt: int = 1
    replicas: int = 1
    resources: Resources = Resources()
    """What one replica requests."""
    image: str = ""
    user: str = ""
    queue: str = ""
    priority: int | None = None
    runs_to_completion: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owners: tuple[OwnedObject, ...] = ()
    """The objects below the workload that own its pods."""
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None


class ServiceEndpoint(Struct, frozen=True):
    """The address of a ready pod that listens on a TCP port of its own."""

    pod_uid: str
    workload_uid: str
    address: str


class EngineEvent(Struct, frozen=True):
    """A message of the engine about a workload as a whole. It is why the pods in `pending_pods` have not started; the
    engine keeps trying to start them."""

    workload_uid: str
    attempt: int
    reason: str
    message: str
    pending_pods: tuple[str, ...] = ()


class FullSync(Struct, frozen=True):
    """Everything that the engine has, sent first and again after every gap. What is not listed is gone."""

    nodes: tuple[Node, ...]
    pods: tuple[ObservedPod, ...]
    events: tuple[EngineEvent, ...] = ()
    workloads: tuple[ObservedWorkload, ...] = ()


class Delta(Struct, frozen=True):
    """What changed since the last observation. `gone` lists the uids of pods that no longer exist, `gone_workloads`
    the engine refs of workloads that no longer exist."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    gone: tuple[str, ...] = ()
    events: tuple[EngineEvent, ...] = ()
    workloads: tuple[ObservedWorkload, ...] = ()
    gone_workloads: tuple[str, ...] = ()


SyncReport = FullSync | Delta


class Disconnected(Struct, frozen=True):
    """The engine cannot be reached since this time. A full sync follows when it is back."""

    since: int
    message: str


Observation = SyncReport | Disconnected


class LogRef(Struct, frozen=True):
    """The log of one container of a pod; an empty name is the main container."""

    pod_uid: str
    container: str = ""
