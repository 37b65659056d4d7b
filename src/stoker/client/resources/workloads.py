"""Every operation on workloads, each declared once: the documented family, and what our own adds to it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from stoker.client.fleet_shapes import Measured
from stoker.client.operation import SAFE, F, Resource, listing, operation, stream
from stoker.client.shapes import CountedPage
from stoker.client.workload_shapes import (
    Batch,
    Containers,
    CreatedWorkload,
    Explanation,
    FoundLines,
    LogLine,
    NewWorkload,
    PodLogs,
    Rehearsal,
    ServiceAddress,
    TrainingMetrics,
    TrainingReport,
    Workload,
    WorkloadDetail,
    WorkloadEvent,
)

SCHEMAS = "/schemas"
QUIET_SECONDS = 30.0
"""The server sends a sign of life more often than this."""


class Workloads(Resource[F]):
    @operation("POST", "/workloads", base=SAFE, creates=True, body="new")
    def create(self, new: NewWorkload | Mapping[str, object]) -> CreatedWorkload:
        """Submit a workload; a mapping is the body as the API's document has it."""
        ...

    @operation("POST", "/workloads", base=SAFE, body="new", fixed={"dryRun": "true"})
    def rehearse(self, new: NewWorkload | Mapping[str, object]) -> Rehearsal:
        """Everything a create checks, and nothing of what it writes."""
        ...

    @operation("GET", "/workloads", base=SAFE)
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
    ) -> CountedPage[Workload]:
        """One page of the list, and how many there are in all."""
        ...

    @listing("/workloads", base=SAFE, page=CountedPage)
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
    ) -> Workload:
        """The workloads of the caller's workspaces, newest first."""
        ...

    @operation("GET", "/workloads/{name}", base=SAFE)
    def get(self, name: str) -> WorkloadDetail:
        """One workload with its conditions and pods, by id."""
        ...

    @operation("PATCH", "/workloads/{name}", base=SAFE)
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
    ) -> None:
        """Change what is given; a variable of None is taken away. What runs is replaced where that is needed."""
        ...

    @operation("DELETE", "/workloads/{name}", base=SAFE)
    def delete(self, name: str) -> None:
        """Stop a workload and hide it."""
        ...

    @operation("POST", "/workloads/{name}/stop", base=SAFE)
    def stop(self, name: str) -> None:
        """Stop a workload; one that has ended stays as it is."""
        ...

    @operation("POST", "/workloads/{name}/suspend")
    def suspend(self, name: str) -> None:
        """Stop a workload, to be resumed later; one that has ended by itself is an error."""
        ...

    @operation("POST", "/workloads/{name}/resume")
    def resume(self, name: str) -> None:
        """Queue a stopped workload again, as a new attempt."""
        ...

    @operation("POST", "/workloads/delete", base=SAFE)
    def delete_many(self, workload_ids: Sequence[str]) -> Batch:
        """Delete many; what could not be deleted is in the result, not an error."""
        ...

    @operation("POST", "/workloads/stop", base=SAFE)
    def stop_many(self, workload_ids: Sequence[str]) -> Batch:
        """Stop many; what could not be stopped is in the result, not an error."""
        ...

    @operation("POST", "/workloads/clone", base=SAFE, creates=True)
    def clone(self, workload_ids: Sequence[str]) -> Batch:
        """Submit copies that belong to the caller."""
        ...

    @operation("GET", "/workloads/{name}/pods/{pod}/logs", base=SAFE)
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
        """The last lines of a pod; they stay when it has ended."""
        ...

    @stream(
        "/workloads/{name}/pods/{pod}/logs",
        base=SAFE,
        fixed={"follow": "true", "timestamps": "true"},
        quiet_seconds=QUIET_SECONDS,
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
    ) -> LogLine:
        """The last lines of a pod, then each new one until it has ended."""
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
    ) -> FoundLines:
        """The last lines of all pods that hold a text."""
        ...

    @operation("GET", "/workloads/{name}/service", base=SAFE)
    def service(self, name: str) -> ServiceAddress:
        """Where its service answers; not found when it has none."""
        ...

    @operation("GET", "/workloads/{name}/pods/{pod}/containers", base=SAFE)
    def containers(self, name: str, pod: str) -> Containers:
        """The containers of a pod, and the shells that exist in it."""
        ...

    @operation("GET", "/workloads/{name}/metrics")
    def metrics(
        self, name: str, *, start: datetime | None = None, end: datetime | None = None, step: int | None = None
    ) -> Measured:
        """What its GPUs did: the last hour, unless said otherwise; `step` is in seconds."""
        ...

    @operation("GET", "/workloads/{name}/explain")
    def explain(self, name: str) -> Explanation:
        """Why it stands where it does, and what would help."""
        ...

    @operation("GET", "/workloads/{name}/training-metrics")
    def training(
        self, name: str, *, start: datetime | None = None, end: datetime | None = None, limit: int = 1000
    ) -> TrainingMetrics:
        """What its code reported and its logs said of training, at most so many points of each metric."""
        ...

    @operation("POST", "/workloads/{name}/training-metrics", body="reports")
    def report_training(self, name: str, reports: Sequence[TrainingReport]) -> None:
        """Report metrics of a training run, up to 1000 at once."""
        ...

    @stream("/events", quiet_seconds=QUIET_SECONDS)
    def events(self, *, workload: str = "", after: int | None = None) -> WorkloadEvent:
        """Changes as they happen, after one of them or from now on. It does not end."""
        ...

    @operation("GET", "/job.json", base=SCHEMAS)
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what `create` takes."""
        ...
