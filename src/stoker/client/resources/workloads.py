"""Operations on workloads: those of the management API, and those that the native API adds."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from stoker.client.new_workload import NewWorkload, ReadinessRequest
from stoker.client.resources.operations import (
    MANAGEMENT_BASE_PATH,
    ApiResource,
    F,
    list_operation,
    operation,
    stream_operation,
)
from stoker.client.results import BatchResult, PodLogLine
from stoker.wire.management import (
    CreatedWorkload,
    DryRunOutcome,
    PodContainersView,
    PodLogs,
    ServiceView,
    WorkloadDetailView,
    WorkloadSummaryView,
)
from stoker.wire.pages import CountedPage
from stoker.wire.workloads import (
    GpuMetricsView,
    LogSearchResult,
    TrainingMetrics,
    TrainingReport,
    WorkingDirectoryView,
    WorkloadEvent,
    WorkloadExplanation,
)

SCHEMAS_BASE_PATH = "/schemas"
STREAM_IDLE_TIMEOUT_SECONDS = 30.0
"""The server sends keep-alive comments more often than this."""


class WorkloadsResource(ApiResource[F]):
    @operation("POST", "/workloads", base=MANAGEMENT_BASE_PATH, creates=True, body="new")
    def create(self, new: NewWorkload | Mapping[str, object]) -> CreatedWorkload:
        """Submit a workload. A mapping is sent as the JSON body of the management API."""
        ...

    @operation("POST", "/workloads", base=MANAGEMENT_BASE_PATH, body="new", query={"dryRun": "true"})
    def dry_run(self, new: NewWorkload | Mapping[str, object]) -> DryRunOutcome:
        """Validate and schedule a workload without writing anything."""
        ...

    @operation("GET", "/working-directory")
    def working_directory(self, path: str, *, workspace: str = "") -> WorkingDirectoryView:
        """Whether a workload could start in a directory of the machine it would run on."""
        ...

    @operation("GET", "/workloads", base=MANAGEMENT_BASE_PATH)
    def page(
        self,
        *,
        workspace_id: str = "",
        cluster_id: str = "",
        user_id: str = "",
        user_name: str = "",
        phase: Sequence[str] = (),
        kind: Sequence[str] = (),
        description: str = "",
        workload_id: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        sort_by: str = "create_time",
        order: str = "desc",
        offset: int = 0,
        limit: int = 100,
    ) -> CountedPage[WorkloadSummaryView]:
        """One page of the list, with the length of the whole list."""
        ...

    @list_operation("/workloads", base=MANAGEMENT_BASE_PATH, page=CountedPage)
    def list(
        self,
        *,
        workspace_id: str = "",
        cluster_id: str = "",
        user_id: str = "",
        user_name: str = "",
        phase: Sequence[str] = (),
        kind: Sequence[str] = (),
        description: str = "",
        workload_id: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        sort_by: str = "create_time",
        order: str = "desc",
    ) -> WorkloadSummaryView:
        """Workloads of the caller's workspaces, newest first."""
        ...

    @operation("GET", "/workloads/{name}", base=MANAGEMENT_BASE_PATH)
    def get(self, name: str) -> WorkloadDetailView:
        """One workload by id, with its conditions and pods."""
        ...

    @operation("PATCH", "/workloads/{name}", base=MANAGEMENT_BASE_PATH)
    def edit(
        self,
        name: str,
        *,
        priority: int | UnsetType = UNSET,
        preemptible: bool | UnsetType = UNSET,
        replica: int | UnsetType = UNSET,
        cpu: str | UnsetType = UNSET,
        gpu: str | UnsetType = UNSET,
        memory: str | UnsetType = UNSET,
        image: str | UnsetType = UNSET,
        entry_point: bytes | UnsetType = UNSET,
        description: str | UnsetType = UNSET,
        timeout: int | UnsetType = UNSET,
        max_retry: int | UnsetType = UNSET,
        env: Mapping[str, str | None] | UnsetType = UNSET,
        specified_nodes: Sequence[str] | UnsetType = UNSET,
        readiness: ReadinessRequest | UnsetType | None = UNSET,
    ) -> None:
        """Change the given fields; an `env` value of None removes the variable. Running pods are replaced if needed."""
        ...

    @operation("DELETE", "/workloads/{name}", base=MANAGEMENT_BASE_PATH)
    def delete(self, name: str) -> None:
        """Stop a workload and hide it."""
        ...

    @operation("POST", "/workloads/{name}/stop", base=MANAGEMENT_BASE_PATH)
    def stop(self, name: str) -> None:
        """Stop a workload. One that has finished stays unchanged."""
        ...

    @operation("POST", "/workloads/{name}/suspend")
    def suspend(self, name: str) -> None:
        """Stop a workload so that it can be resumed. It is an error if the workload finished by itself."""
        ...

    @operation("POST", "/workloads/{name}/resume")
    def resume(self, name: str) -> None:
        """Queue a stopped workload again, as a new attempt."""
        ...

    @operation("POST", "/workloads/{name}/rollback")
    def rollback(self, name: str) -> None:
        """Create a new revision with the spec of the previous one."""
        ...

    @operation("POST", "/workloads/delete", base=MANAGEMENT_BASE_PATH)
    def delete_many(self, workload_ids: Sequence[str]) -> BatchResult:
        """Delete several workloads. Failures are part of the result."""
        ...

    @operation("POST", "/workloads/stop", base=MANAGEMENT_BASE_PATH)
    def stop_many(self, workload_ids: Sequence[str], *, grace_period_seconds: int | UnsetType = UNSET) -> BatchResult:
        """Stop several workloads. Failures are part of the result. The grace period is 30 seconds by default; 0 kills
        the pods immediately."""
        ...

    @operation("POST", "/workloads/clone", base=MANAGEMENT_BASE_PATH, creates=True)
    def clone(self, workload_ids: Sequence[str]) -> BatchResult:
        """Submit copies that belong to the caller."""
        ...

    @operation("GET", "/workloads/{name}/pods/{pod}/logs", base=MANAGEMENT_BASE_PATH)
    def logs(
        self,
        name: str,
        pod: str,
        *,
        tail_lines: int = 1000,
        since_seconds: int | None = None,
        grep: str = "",
        timestamps: bool = False,
        attempt: int | None = None,
    ) -> PodLogs:
        """The last log lines of a pod, also after it has finished."""
        ...

    @stream_operation(
        "/workloads/{name}/pods/{pod}/logs",
        base=MANAGEMENT_BASE_PATH,
        query={"follow": "true", "timestamps": "true"},
        idle_timeout_seconds=STREAM_IDLE_TIMEOUT_SECONDS,
    )
    def follow_logs(
        self,
        name: str,
        pod: str,
        *,
        tail_lines: int = 1000,
        since_seconds: int | None = None,
        grep: str = "",
        attempt: int | None = None,
    ) -> PodLogLine:
        """The last log lines of a pod, then each new line until the pod has finished."""
        ...

    @operation("GET", "/workloads/{name}/logs")
    def search_logs(
        self,
        name: str,
        *,
        text: str = "",
        since: datetime | None = None,
        attempt: int | None = None,
        limit: int = 1000,
    ) -> LogSearchResult:
        """The last log lines of all pods that contain a text."""
        ...

    @operation("GET", "/workloads/{name}/service", base=MANAGEMENT_BASE_PATH)
    def service(self, name: str) -> ServiceView:
        """The address of a workload's service; NOT_FOUND if it has none."""
        ...

    @operation("GET", "/workloads/{name}/pods/{pod}/containers", base=MANAGEMENT_BASE_PATH)
    def containers(self, name: str, pod: str) -> PodContainersView:
        """The containers of a pod, and the shells that exist in it."""
        ...

    @operation("GET", "/workloads/{name}/metrics")
    def metrics(
        self, name: str, *, start: datetime | None = None, end: datetime | None = None, step: int | None = None
    ) -> GpuMetricsView:
        """GPU metrics of a workload, by default of the last hour; `step` is in seconds."""
        ...

    @operation("GET", "/workloads/{name}/explain")
    def explain(self, name: str) -> WorkloadExplanation:
        """Why a workload is pending, and changes that would start it."""
        ...

    @operation("GET", "/workloads/{name}/training-metrics")
    def training(
        self, name: str, *, start: datetime | None = None, end: datetime | None = None, limit: int = 1000
    ) -> TrainingMetrics:
        """Training metrics reported by the code or found in the logs, at most `limit` points per metric."""
        ...

    @operation("POST", "/workloads/{name}/training-metrics", body="reports")
    def report_training(self, name: str, reports: Sequence[TrainingReport]) -> None:
        """Report metrics of a training run, at most 1000 reports per call."""
        ...

    @stream_operation("/events", idle_timeout_seconds=STREAM_IDLE_TIMEOUT_SECONDS)
    def events(self, *, workload: str = "", after: int | None = None) -> WorkloadEvent:
        """Events of workloads as they happen, after event `after` or from now on. The stream does not end."""
        ...

    @operation("GET", "/job.json", base=SCHEMAS_BASE_PATH)
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the body of `create`."""
        ...
