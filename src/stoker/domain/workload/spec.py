"""A workload: what was asked for, where it stands, and the pods that carry it."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from stoker.domain.node import DEFAULT_POOL
from stoker.domain.resources import Resources

MOST_LABELS = 256
"""Labels of one workload, and annotations: each may be a row of the ledger in every hour."""


class Kind(StrEnum):
    PYTORCH_JOB = "PyTorchJob"
    JOB = "Job"
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    AUTHORING = "Authoring"

    @property
    def ends(self) -> bool:
        """Whether it is over when its pods are; the others are kept up until they are stopped."""
        return self in {Kind.PYTORCH_JOB, Kind.JOB}

    @property
    def rolls(self) -> bool:
        """Whether its pods are replaced one by one, and stand for themselves."""
        return self in {Kind.DEPLOYMENT, Kind.STATEFUL_SET}


class Category(StrEnum):
    BUILD = "Build"
    TRAIN = "Train"
    DEPLOY = "Deploy"


CATEGORY = {
    Kind.PYTORCH_JOB: Category.TRAIN,
    Kind.JOB: Category.TRAIN,
    Kind.DEPLOYMENT: Category.DEPLOY,
    Kind.STATEFUL_SET: Category.DEPLOY,
    Kind.AUTHORING: Category.BUILD,
}


class Phase(StrEnum):
    CREATING = "Creating"
    PENDING = "Pending"
    INITIALIZING = "Initializing"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    UPDATING = "Updating"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    RESUMING = "Resuming"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    DELETING = "Deleting"
    UNKNOWN = "Unknown"

    @property
    def terminal(self) -> bool:
        """Never left again."""
        return self in _TERMINAL

    @property
    def ended(self) -> bool:
        """Nothing of it runs, and only a resume changes that."""
        return self in _ENDED

    @property
    def queued(self) -> bool:
        """Waits to be placed."""
        return self in _QUEUED

    @property
    def leaving(self) -> bool:
        """Its pods are on their way out."""
        return self in _LEAVING


_TERMINAL = frozenset({Phase.COMPLETED, Phase.FAILED})
_ENDED = _TERMINAL | {Phase.STOPPED}
_QUEUED = frozenset({Phase.PENDING, Phase.RESUMING})
_LEAVING = frozenset({Phase.STOPPING, Phase.TERMINATING, Phase.DELETING})


class PodPhase(StrEnum):
    """LOST is a pod whose end nobody saw: its node or its keeper has gone."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    LOST = "Lost"

    @property
    def ended(self) -> bool:
        return self in _PODS_ENDED


_PODS_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.LOST})


class ConditionType(StrEnum):
    QUEUED = "Queued"
    DISPATCHED = "Dispatched"
    RUNNING = "Running"
    UPDATING = "Updating"
    PREEMPTED = "Preempted"
    FAILOVER = "Failover"
    TIMED_OUT = "TimedOut"
    STOPPED = "Stopped"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Condition(Struct, frozen=True):
    type: ConditionType
    reason: str
    message: str
    at: int


class PortProtocol(StrEnum):
    TCP = "TCP"
    UDP = "UDP"


RESERVED_ENV = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "RANK",
        "LOCAL_RANK",
        "PET_NNODES",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "PET_NPROC_PER_NODE",
    }
)
"""Variables that are Stoker's to say, whatever the user sets them to."""


class Service(Struct, frozen=True):
    """A port under which the replicas are reached together."""

    port: int
    target_port: int
    protocol: PortProtocol = PortProtocol.TCP
    node_port: int = 0
    service_type: str = "ClusterIP"


class Spec(Struct, frozen=True):
    """What was asked for. `shown` keeps quantities as they were sent, to be shown again."""

    image: str = ""
    entry_point: str = ""
    resources: Resources = Resources()
    replicas: int = 1
    env: Mapping[str, str] = {}
    specified_nodes: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    service: Service | None = None
    dependencies: tuple[str, ...] = ()
    start_after: int | None = None
    node_pools: tuple[str, ...] = (DEFAULT_POOL,)
    tolerate_all: bool = False
    supervised: bool = False
    ttl_seconds: int = 60
    shown_cpu: str = ""
    shown_gpu: str = ""
    shown_memory: str = ""
    shown_arguments: str = ""
    """What at the end of the entry point was sent apart from the command."""

    @property
    def command_and_arguments(self) -> tuple[str, str]:
        """The two as they were sent; all of it is the command once something else is run."""
        end = f" {self.shown_arguments}"
        if self.shown_arguments and self.entry_point.endswith(end):
            return self.entry_point.removesuffix(end), self.shown_arguments
        return self.entry_point, ""

    @property
    def total(self) -> Resources:
        return self.resources * self.replicas


class Wait(Struct, frozen=True):
    """Why a workload waits: a word that stays, and a sentence with the numbers of now."""

    code: str
    sentence: str


FROM_CLI = "cli"
"""What `origin_api` says of a workload that was submitted on our own command line."""
CLI_AGENT = "stoker-cli"
"""By this name our own command line is known."""


class Workload(Struct, frozen=True, kw_only=True):
    """One workload in all its life. Every change of it makes `version` one more."""

    uid: str
    slug: str
    name: str
    description: str = ""
    kind: Kind
    cluster_id: str
    workspace_id: int
    namespace: str
    user_id: str
    user_name: str
    origin_api: str
    spec: Spec
    priority: int = 80
    preemptible: bool = False
    timeout_seconds: int = 0
    max_retry: int = 0

    phase: Phase = Phase.PENDING
    version: int = 1
    revision: int = 1
    attempt: int = 0
    """How often it was dispatched; 0 before the first time."""
    retries: int = 0
    requeued: bool = False
    """Goes before others of its workspace: it was running already and lost its place without fault."""
    not_before: int | None = None
    then: Phase | None = None
    """What it becomes once its pods are gone."""
    message: str = ""
    waiting: str = ""
    """Why it waits, as the scheduler last said; it moves without a change of version."""
    waiting_code: str = ""
    """The same in a word."""
    submitted_at: int
    phase_at: int
    started_at: int | None = None
    ended_at: int | None = None
    running_since: int | None = None
    ran_ms: int = 0
    """Milliseconds of all the runs before the present one."""
    waited_ms: int = 0
    """Milliseconds of all the times in the queue before the present one."""
    pools: tuple[str, ...] = ()
    """The node pools that its pods were last placed in; none before the first time."""
    guaranteed_until: int | None = None
    """Until then it keeps its place though it is preemptible; only what holds a place has such a time."""
    deleted_at: int | None = None

    @property
    def category(self) -> Category:
        return CATEGORY[self.kind]

    @property
    def current_pools(self) -> tuple[str, ...]:
        """Where it is, or where it waits to be."""
        return self.pools or self.spec.node_pools


class Pod(Struct, frozen=True, kw_only=True):
    """One process tree, or one container group, of one attempt."""

    uid: str
    workload_uid: str
    name: str
    attempt: int
    revision: int
    rank: int
    node: str
    resources: Resources
    devices: tuple[int, ...] = ()
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    restarts: int = 0
    port: int = 0
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
