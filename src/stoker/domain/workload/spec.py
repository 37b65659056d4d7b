"""What a user asks for: the kind of a workload, its resources, replicas, service and readiness check."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.cluster.resources import Resources

MAX_LABELS = 256
"""Most labels, and most annotations, of one workload: each can add a row to every hour of the ledger."""
NO_IMAGE = "none"
"""The image to send where the API requires one and the engine needs none."""


class Kind(StrEnum):
    PYTORCH_JOB = "PyTorchJob"
    JOB = "Job"
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    AUTHORING = "Authoring"

    @property
    def runs_to_completion(self) -> bool:
        """Whether the workload finishes with its pods; other kinds run until they are stopped."""
        return self in {Kind.PYTORCH_JOB, Kind.JOB}

    @property
    def uses_rolling_update(self) -> bool:
        """Whether its pods are independent replicas that an update replaces one by one."""
        return self in {Kind.DEPLOYMENT, Kind.STATEFUL_SET}


KINDS = frozenset(str(kind) for kind in Kind)
"""The kinds that can be submitted. Foreign workloads have kinds of their own."""


class Category(StrEnum):
    BUILD = "Build"
    TRAIN = "Train"
    DEPLOY = "Deploy"


def runs_to_completion(kind: str) -> bool:
    """Whether workloads of this kind finish with their pods. Kinds that Stoker does not run itself do not count."""
    return kind in KINDS and Kind(kind).runs_to_completion


def uses_rolling_update(kind: str) -> bool:
    """Whether pods of this kind are independent replicas that an update replaces one by one."""
    return kind in KINDS and Kind(kind).uses_rolling_update


def category_of(kind: str) -> Category:
    """The category of a kind. A kind that Stoker does not run itself counts as training."""
    return CATEGORY_BY_KIND[Kind(kind)] if kind in KINDS else Category.TRAIN


def main_container_name(kind: str) -> str:
    """The name of the container that runs the workload's command."""
    return "pytorch" if kind in {Kind.PYTORCH_JOB, Kind.AUTHORING} else "main"


CATEGORY_BY_KIND = {
    Kind.PYTORCH_JOB: Category.TRAIN,
    Kind.JOB: Category.TRAIN,
    Kind.DEPLOYMENT: Category.DEPLOY,
    Kind.STATEFUL_SET: Category.DEPLOY,
    Kind.AUTHORING: Category.BUILD,
}


class PortProtocol(StrEnum):
    TCP = "TCP"
    UDP = "UDP"


RESERVED_ENV = frozenset(
    {
        "CUDA_DEVICE_ORDER",
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
"""Environment variables that Stoker sets; values from the user are ignored."""


class Service(Struct, frozen=True):
    """A port that balances connections over all replicas."""

    port: int
    target_port: int
    protocol: PortProtocol = PortProtocol.TCP
    node_port: int = 0
    service_type: str = "ClusterIP"


class ReadinessSpec(Struct, frozen=True):
    """Readiness check of a replica: an HTTP GET of `path`, or, without a path, a TCP connection to its port.

    `timeout_seconds` is the rollout deadline; 0 means the server's setting.
    """

    path: str = ""
    timeout_seconds: int = 0


class Spec(Struct, frozen=True):
    """The requested state of a workload. `shown_*` fields keep the user's own spelling for display."""

    image: str = ""
    entry_point: str = ""
    resources: Resources = Resources()
    replicas: int = 1
    env: Mapping[str, str] = {}
    specified_nodes: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    service: Service | None = None
    readiness: ReadinessSpec | None = None
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
    """The tail of `entry_point` that was submitted as arguments."""

    @property
    def command_and_arguments(self) -> tuple[str, str]:
        """Command and arguments as submitted; the arguments are empty once the entry point has changed."""
        suffix = f" {self.shown_arguments}"
        if self.shown_arguments and self.entry_point.endswith(suffix):
            return self.entry_point.removesuffix(suffix), self.shown_arguments
        return self.entry_point, ""

    @property
    def total_resources(self) -> Resources:
        return self.resources * self.replicas
