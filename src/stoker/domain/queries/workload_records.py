"""The rows that a workload query is projected to: the Run:ai record and the fleet row."""

from collections.abc import Sequence

from msgspec import Struct

from stoker.domain.workload.model import Phase, Workload
from stoker.domain.workload.phase import Condition, StatusReason
from stoker.domain.workload.pod import Pod


class AllocationSummary(Struct, frozen=True):
    """Resources that the pods of a workload hold now; `idle_milli` counts GPUs past the idle threshold."""

    pods: int = 0
    running_pods: int = 0
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    idle_milli: int = 0


class WorkloadRecord(Struct, frozen=True):
    """A workload with its conditions, its allocation, and the names of its workspace and department."""

    workload: Workload
    workspace: str
    department_id: int
    department: str
    conditions: Sequence[Condition]
    allocation: AllocationSummary
    status: StatusReason = StatusReason("", "")
    """Why the workload is pending, or its state otherwise."""


class WorkloadRecordPage(Struct, frozen=True):
    """One page of records; `has_more` tells whether another page follows."""

    items: list[WorkloadRecord]
    has_more: bool
    at: int
    """The time up to which durations in the records are counted."""


class WorkloadWithPods(Struct, frozen=True):
    record: WorkloadRecord
    pods: Sequence[Pod]
    at: int


class FleetWorkload(Struct, frozen=True):
    """One workload as monitoring shows it; `gpus` is milli-GPUs by GPU model."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    cluster_id: str
    workspace_id: int
    engine: str
    phase: Phase
    attempt: int
    replicas: int
    started_at: int | None
    ended_at: int | None
    gpus: dict[str, int]
    api_version: str = ""
    """That of a foreign object; empty for workloads that were submitted here."""


class WorkloadFacets(Struct, frozen=True):
    """The namespaces and kinds of the workloads that exist, sorted."""

    namespaces: list[str]
    kinds: list[str]
