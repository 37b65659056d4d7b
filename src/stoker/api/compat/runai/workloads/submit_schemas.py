"""What a submission says of a workload, for each type of them; the same shapes are read back.

A client may send null for whatever it leaves out. What has no counterpart here is known by name and refused by name, so
that nobody believes in a volume that is not there.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from stoker.api.bodies import Body
from stoker.api.safe.shapes import EnvName, EnvValue
from stoker.domain.workload import MOST_LABELS

Amount = Annotated[float, Meta(ge=0, le=1e9)]
Size = Annotated[str, Meta(min_length=1, max_length=64, examples=["4Gi"])]
Port = Annotated[int, Meta(ge=1, le=65535)]
Replicas = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[int, Meta(ge=0, le=315_360_000)]
Command = Annotated[str, Meta(min_length=1, max_length=1_000_000)]
NodePools = Annotated[list[Annotated[str, Meta(min_length=1, max_length=63)]], Meta(max_length=100)]

SERVED_AS_NOTHING = "there is nothing like it here. Leave it out."


class Spec(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The base of what is inside a submission."""


class Compute(Spec, frozen=True, kw_only=True):
    """What one pod gets. There is one amount of each: of a request and a limit, the limit counts."""

    cpu_core_request: Amount | None = None
    cpu_core_limit: Amount | None = None
    cpu_memory_request: Size | None = None
    cpu_memory_limit: Size | None = None
    gpu_devices_request: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    gpu_request_type: Literal["portion", "memory", "migProfile"] | None = None
    gpu_portion_request: Annotated[float, Meta(ge=0, le=1)] | None = None
    gpu_portion_limit: Annotated[float, Meta(ge=0, le=1)] | None = None
    large_shm_request: bool | None = None
    gpu_memory_request: Any = None
    gpu_memory_limit: Any = None
    extended_resources: Any = None
    mig_profile: Any = None


class Variable(Spec, frozen=True, kw_only=True):
    name: EnvName
    value: EnvValue | None = None
    exclude: bool | None = None
    description: str | None = None
    secret: Any = None
    config_map: Any = None
    pod_field_ref: Any = None
    user_credential: Any = None


class Label(Spec, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=317)]
    value: Annotated[str, Meta(max_length=1024)] | None = None
    exclude: bool | None = None


Labels = Annotated[list[Label | None], Meta(max_length=MOST_LABELS)]


class PortBody(Spec, frozen=True, kw_only=True):
    container: Port
    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    external: Port | None = None
    tool_type: str | None = None
    tool_name: str | None = None
    name: str | None = None
    exclude: bool | None = None


class ServingPort(Spec, frozen=True, kw_only=True):
    container: Port
    protocol: Literal["http", "grpc"] | None = None
    cluster_local_access_only: bool | None = None
    authorization_type: Any = None
    authorized_users: Any = None
    authorized_groups: Any = None


class AutoScaling(Spec, frozen=True, kw_only=True):
    min_replicas: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    max_replicas: Replicas | None = None
    initial_replicas: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    metric: Any = None
    metric_threshold: Any = None
    metric_threshold_percentage: Any = None
    activation_replicas: Any = None
    concurrency_hard_limit: Any = None
    scale_to_zero_retention_seconds: Any = None
    scale_down_delay_seconds: Any = None
    initialization_timeout_seconds: Any = None


class WorkloadSpec(Spec, frozen=True, kw_only=True):
    """What all types have."""

    image: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    command: Command | None = None
    args: Command | None = None
    compute: Compute | None = None
    environment_variables: list[Variable | None] | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    node_pools: NodePools | None = None
    priority_class: Annotated[str, Meta(max_length=63)] | None = None
    preemptibility: Literal["preemptible", "non-preemptible"] | None = None
    category: Annotated[str, Meta(max_length=63)] | None = None
    ports: list[PortBody | None] | None = None
    # taken, and of no consequence here
    image_pull_policy: Literal["Always", "Never", "IfNotPresent"] | None = None
    create_home_dir: bool | None = None
    related_urls: Any = None
    # refused when there is anything in them
    storage: Any = None
    security: Any = None
    tolerations: Any = None
    node_affinity_required: Any = None
    node_type: Any = None
    pod_affinity: Any = None
    probes: Any = None
    image_pull_secrets: Any = None
    exposed_urls: Any = None
    working_dir: Any = None


class BatchSpec(WorkloadSpec, frozen=True, kw_only=True):
    """What those have that are run until they end, or are stopped."""

    backoff_limit: Annotated[int, Meta(ge=0, le=50)] | None = None
    auto_deletion_time_after_completion_seconds: Seconds | None = None
    restart_policy: Literal["Always", "Never", "OnFailure"] | None = None
    stdin: bool | None = None
    tty: bool | None = None
    terminate_after_preemption: Any = None
    termination_grace_period_seconds: Any = None


class WorkspaceSpec(BatchSpec, frozen=True, kw_only=True):
    pass


class TrainingSpec(BatchSpec, frozen=True, kw_only=True):
    parallelism: Replicas | None = None
    completions: Replicas | None = None


class DistributedSpec(BatchSpec, frozen=True, kw_only=True):
    distributed_framework: Literal["PyTorch", "MPI", "TF", "XGBoost", "JAX"] | None = None
    num_workers: Replicas | None = None
    min_replicas: Replicas | None = None
    max_replicas: Replicas | None = None
    clean_pod_policy: Literal["None", "All", "Running"] | None = None
    # of MPI alone, which is refused; the vendor's client sends them with every framework
    slots_per_worker: Any = None
    ssh_auth_mount_path: Any = None
    mpi_launcher_creation_policy: Any = None


class InferenceSpec(WorkloadSpec, frozen=True, kw_only=True):
    autoscaling: AutoScaling | None = None
    serving_port: ServingPort | None = None
    serving_configuration: Any = None


AnySpec = WorkspaceSpec | TrainingSpec | DistributedSpec | InferenceSpec

REFUSED = (
    "storage",
    "security",
    "tolerations",
    "node_affinity_required",
    "node_type",
    "pod_affinity",
    "probes",
    "image_pull_secrets",
    "exposed_urls",
    "working_dir",
    "terminate_after_preemption",
    "termination_grace_period_seconds",
    "serving_configuration",
)
"""Fields of a spec that would change how a workload runs, and that nothing here can do."""
