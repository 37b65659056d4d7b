"""Specs of submissions by workload type; the same structs are read back.

A client may send null for fields that it leaves out. Unsupported fields are declared, so that the error can name them.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from stoker.api.compat.management.schemas import EnvName, EnvValue
from stoker.domain.workload.spec import MAX_LABELS
from stoker.wire.base import RequestBody

NonNegativeNumber = Annotated[float, Meta(ge=0, le=1e9)]
MemoryQuantity = Annotated[str, Meta(min_length=1, max_length=64, examples=["4Gi"])]
Port = Annotated[int, Meta(ge=1, le=65535)]
Replicas = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[int, Meta(ge=0, le=315_360_000)]
Command = Annotated[str, Meta(min_length=1, max_length=1_000_000)]
NodePools = Annotated[list[Annotated[str, Meta(min_length=1, max_length=63)]], Meta(max_length=100)]

UNSUPPORTED_MESSAGE = "there is nothing like it here. Leave it out."


class SpecBody(RequestBody, frozen=True, kw_only=True, omit_defaults=True):
    """The base of the structs inside a submission."""


class Compute(SpecBody, frozen=True, kw_only=True):
    """The resources of one pod. If both request and limit are given, the limit is used."""

    cpu_core_request: NonNegativeNumber | None = None
    cpu_core_limit: NonNegativeNumber | None = None
    cpu_memory_request: MemoryQuantity | None = None
    cpu_memory_limit: MemoryQuantity | None = None
    gpu_devices_request: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    gpu_request_type: Literal["portion", "memory", "migProfile"] | None = None
    gpu_portion_request: Annotated[float, Meta(ge=0, le=1)] | None = None
    gpu_portion_limit: Annotated[float, Meta(ge=0, le=1)] | None = None
    large_shm_request: bool | None = None
    gpu_memory_request: Any = None
    gpu_memory_limit: Any = None
    extended_resources: Any = None
    mig_profile: Any = None


class EnvironmentVariable(SpecBody, frozen=True, kw_only=True):
    name: EnvName
    value: EnvValue | None = None
    exclude: bool | None = None
    description: str | None = None
    secret: Any = None
    config_map: Any = None
    pod_field_ref: Any = None
    user_credential: Any = None


class LabelBody(SpecBody, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=317)]
    value: Annotated[str, Meta(max_length=1024)] | None = None
    exclude: bool | None = None


Labels = Annotated[list[LabelBody | None], Meta(max_length=MAX_LABELS)]


class PortBody(SpecBody, frozen=True, kw_only=True):
    container: Port
    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    external: Port | None = None
    tool_type: str | None = None
    tool_name: str | None = None
    name: str | None = None
    exclude: bool | None = None


class ServingPort(SpecBody, frozen=True, kw_only=True):
    container: Port
    protocol: Literal["http", "grpc"] | None = None
    cluster_local_access_only: bool | None = None
    authorization_type: Any = None
    authorized_users: Any = None
    authorized_groups: Any = None


class AutoScaling(SpecBody, frozen=True, kw_only=True):
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


class WorkloadSpec(SpecBody, frozen=True, kw_only=True):
    """The fields of all types."""

    image: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    command: Command | None = None
    args: Command | None = None
    compute: Compute | None = None
    environment_variables: list[EnvironmentVariable | None] | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    node_pools: NodePools | None = None
    priority_class: Annotated[str, Meta(max_length=63)] | None = None
    preemptibility: Literal["preemptible", "non-preemptible"] | None = None
    category: Annotated[str, Meta(max_length=63)] | None = None
    ports: list[PortBody | None] | None = None
    # accepted without effect
    image_pull_policy: Literal["Always", "Never", "IfNotPresent"] | None = None
    create_home_dir: bool | None = None
    related_urls: Any = None
    # rejected unless empty
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
    """The fields of types that run to completion."""

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
    # of MPI only, which is rejected; the vendor's client sends them with every framework
    slots_per_worker: Any = None
    ssh_auth_mount_path: Any = None
    mpi_launcher_creation_policy: Any = None


class InferenceSpec(WorkloadSpec, frozen=True, kw_only=True):
    autoscaling: AutoScaling | None = None
    serving_port: ServingPort | None = None
    serving_configuration: Any = None


AnySpec = WorkspaceSpec | TrainingSpec | DistributedSpec | InferenceSpec

UNSUPPORTED_FIELDS = (
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
"""Fields that would change how a workload runs and are not supported."""
