"""Workload bodies of Run:ai's clients. Times that have not happened are null."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

PhaseReason = Literal["NonPreemptibleOverQuota", "OverLimit"]


class NumericRequest(Struct, frozen=True):
    request: float
    limit: float | None = None


class QuantityRequest(Struct, frozen=True):
    request: str
    limit: str | None = None


class ExtendedResource(Struct, frozen=True):
    resource: str
    quantity: str
    exclude: bool = False


class RequestedResources(Struct, frozen=True, rename="camel"):
    gpu: NumericRequest
    cpu: NumericRequest
    cpu_memory: QuantityRequest
    gpu_request_type: Literal["portion", "memory"] | None = None
    mig_profile: list[str] = []
    extended_resources: list[ExtendedResource] = []


class AllocatedResources(Struct, frozen=True, rename="camel"):
    gpu: float
    cpu: float
    cpu_memory: str
    mig_profile: list[str] = []
    extended_resources: list[ExtendedResource] = []


class ActionsSupport(Struct, frozen=True):
    delete: bool
    suspend: bool


class WorkloadCondition(Struct, frozen=True, rename="camel"):
    type: str
    status: str
    message: str
    reason: str
    last_transition_time: str


class RequestedPods(Struct, frozen=True):
    number: int
    min: int | None = None
    max: int | None = None
    parallelism: int | None = None
    completions: int | None = None


class ExternalConnection(Struct, frozen=True, rename="camel"):
    name: str
    tool_type: str
    connection_type: str
    container_port: int


class PendingMessage(Struct, frozen=True, rename="camel"):
    node_pool: str
    phase_reason: PhaseReason
    reason: str
    org_type: Literal["PROJECT", "DEPARTMENT"] | None
    user_message: str


class RunaiWorkload(Struct, frozen=True, kw_only=True, rename="camel"):
    tenant_id: int
    running_pods: int
    phase_updated_at: str
    k8s_phase_updated_at: str
    updated_at: str
    source: Literal["CLI", "Control-plane", "Other"]
    deleted_at: str | None
    type: str
    name: str
    id: str
    priority: int
    priority_class_name: str
    submitted_by: str
    cluster_id: str
    project_name: str
    project_id: str
    department_name: str
    department_id: str
    namespace: str
    created_at: str
    workload_requested_resources: RequestedResources
    pods_requested_resources: RequestedResources
    allocated_resources: AllocatedResources
    actions_support: ActionsSupport
    phase: str
    conditions: list[WorkloadCondition]
    phase_message: str
    k8s_phase: str
    requested_pods: RequestedPods
    requested_node_pools: list[str]
    current_node_pools: list[str]
    completed_at: str | None
    images: list[str]
    urls: list[str]
    datasources: list[Any]
    environments: list[Any]
    external_connections: list[ExternalConnection]
    distributed_framework: str | UnsetType = UNSET
    additional_fields: dict[str, str]
    preemptible: bool
    environment_variables: dict[str, str]
    command: str
    arguments: str
    phase_reason: PhaseReason | None = None
    idle_gpus: int
    idle_allocated_gpus: float
    total_pending_time_seconds: int
    total_running_time_seconds: int
    category: str
    guaranteed_runtime_ends_at: str | None
    source_api: Literal["WorkloadsV2"] | None = None
    topology: dict[str, Any] | None = None


class RunaiWorkloadDetail(RunaiWorkload, frozen=True, kw_only=True, rename="camel"):
    pending_scheduling_messages: list[PendingMessage] | None = None
