"""Responses of the management API: workloads, their pods, services and logs. Times are text, empty when not set."""

from typing import Self

from msgspec import UNSET, UnsetType, field

from stoker.domain.errors import ErrorCode, StokerError
from stoker.wire.base import WireStruct
from stoker.wire.errors import code_of_management_number, management_error_number

FINISHED_WORKLOAD_PHASES = frozenset({"Succeeded", "Failed", "Stopped"})
FINISHED_POD_PHASES = frozenset({"Succeeded", "Failed"})


class CreatedWorkload(WireStruct, frozen=True):
    workload_id: str


class DryRunOutcome(WireStruct, frozen=True):
    """What a create would do; nothing was written."""

    dry_run: bool
    accepted: bool
    message: str
    scheduler_order: int


class ResourceView(WireStruct, frozen=True):
    cpu: str
    gpu: str
    memory: str
    replica: int


class KindView(WireStruct, frozen=True):
    kind: str
    version: str


class WorkloadSummaryView(WireStruct, frozen=True, kw_only=True):
    workload_id: str
    display_name: str
    description: str
    workspace_id: str
    cluster_id: str
    user_id: str
    user_name: str
    phase: str
    priority: int
    resource: ResourceView
    group_version_kind: KindView
    creation_time: str
    start_time: str
    end_time: str
    runtime: str
    scheduler_order: int
    dispatch_count: int
    is_tolerate_all: bool
    timeout: int
    seconds_until_timeout: int
    message: str

    @property
    def is_finished(self) -> bool:
        """Whether no pod runs; only a resume changes that."""
        return self.phase in FINISHED_WORKLOAD_PHASES


class ConditionView(WireStruct, frozen=True):
    type: str
    status: str
    last_transition_time: str
    reason: str
    message: str


class PodView(WireStruct, frozen=True):
    pod_id: str
    phase: str
    node_name: str

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED_POD_PHASES


class ReadinessView(WireStruct, frozen=True):
    path: str
    timeout: int


class WorkloadDetailView(WireStruct, frozen=True, kw_only=True):
    workload_id: str
    display_name: str
    description: str
    workspace_id: str
    cluster_id: str
    user_id: str
    user_name: str
    phase: str
    priority: int
    image: str
    entry_point: str
    resource: ResourceView
    is_supervised: bool
    max_retry: int
    timeout: int
    ttl_seconds_after_finished: int
    group_version_kind: KindView
    creation_time: str
    start_time: str
    end_time: str
    runtime: str
    seconds_until_timeout: int
    scheduler_order: int
    dispatch_count: int
    is_tolerate_all: bool
    preemptible: bool
    guaranteed_until: str
    message: str
    env: dict[str, str]
    conditions: tuple[ConditionView, ...]
    pods: tuple[PodView, ...]
    nodes: tuple[tuple[str, ...], ...]
    ranks: tuple[tuple[str, ...], ...]
    customer_labels: dict[str, str]
    annotations: dict[str, str]
    specified_nodes: tuple[str, ...]
    dependencies: tuple[str, ...]
    readiness: ReadinessView | UnsetType = UNSET

    @property
    def is_finished(self) -> bool:
        """Whether no pod runs; only a resume changes that."""
        return self.phase in FINISHED_WORKLOAD_PHASES


class ServicePort(WireStruct, frozen=True):
    name: str
    port: int
    target_port: int
    protocol: str


class ServiceView(WireStruct, frozen=True):
    service_name: str
    cluster_ip: str = field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()


class BatchFailure(WireStruct, frozen=True):
    workload_id: str
    error_code: str
    error_message: str

    @classmethod
    def from_error(cls, workload_id: str, error: StokerError) -> Self:
        return cls(workload_id, management_error_number(error.code), error.message)

    @property
    def error(self) -> StokerError:
        return StokerError(code_of_management_number(self.error_code) or ErrorCode.INTERNAL, self.error_message)


class BatchAnswer(WireStruct, frozen=True):
    """The outcome of a batch of which some operations failed."""

    succeeded: tuple[str, ...]
    failed: tuple[BatchFailure, ...]


class PodLogs(WireStruct, frozen=True):
    workload_id: str
    pod_id: str
    namespace: str
    logs: tuple[str, ...]


class ContainerView(WireStruct, frozen=True):
    name: str


class PodContainersView(WireStruct, frozen=True):
    containers: tuple[ContainerView, ...]
    shells: tuple[str, ...]
