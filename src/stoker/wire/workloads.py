"""What is sent and answered about workloads, in the shape of that family: times are text, "" where there is none."""

from collections.abc import Mapping
from datetime import datetime
from typing import Self

import msgspec
from msgspec import UNSET, UnsetType

from stoker.client.exchange import Answer, Request, code_of, safe_code
from stoker.client.shapes import Shape
from stoker.client.sse import ServerEvent
from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import ErrorCode, StokerError

ENDED = frozenset({"Succeeded", "Failed", "Stopped"})


class GroupVersionKind(Shape, frozen=True):
    kind: str
    version: str = "v1"


class Size(Shape, frozen=True):
    """What each replica gets, and how many there are."""

    cpu: str
    memory: str
    gpu: str = "0"
    replica: int = 1


class ServicePort(Shape, frozen=True):
    """A port under which the replicas are reached together."""

    port: int
    protocol: str | UnsetType = UNSET
    target_port: int | UnsetType = UNSET
    node_port: int | UnsetType = UNSET
    service_type: str | UnsetType = UNSET


class NewWorkload(Shape, frozen=True):
    """What to run. `entry_point` is the script itself; it travels as Base64."""

    display_name: str
    group_version_kind: GroupVersionKind
    image: str
    resource: Size
    entry_point: bytes | UnsetType = UNSET
    description: str | UnsetType = UNSET
    workspace_id: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    timeout: int | UnsetType = UNSET
    max_retry: int | UnsetType = UNSET
    env: Mapping[str, str] | UnsetType = UNSET
    specified_nodes: tuple[str, ...] | UnsetType = UNSET
    service: ServicePort | UnsetType = UNSET
    customer_labels: Mapping[str, str] | UnsetType = UNSET
    annotations: Mapping[str, str] | UnsetType = UNSET
    ttl_seconds_after_finished: int | UnsetType = UNSET
    is_supervised: bool | UnsetType = UNSET
    is_tolerate_all: bool | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    dependencies: tuple[str, ...] | UnsetType = UNSET
    start_after: datetime | UnsetType = UNSET


class PortAddress(Shape, frozen=True):
    """A port that a service listens at, and the one of the replicas behind it."""

    name: str
    port: int
    target_port: int
    protocol: str


class ServiceAddress(Shape, frozen=True):
    """Where a service answers; `cluster_ip` is empty before it has a place."""

    service_name: str
    ports: tuple[PortAddress, ...]
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class CreatedWorkload(Shape, frozen=True):
    workload_id: str


class Rehearsal(Shape, frozen=True):
    """What a create would do; nothing was written."""

    dry_run: bool
    accepted: bool
    message: str
    scheduler_order: int


class Workload(Shape, frozen=True):
    workload_id: str
    display_name: str
    description: str
    workspace_id: str
    cluster_id: str
    user_id: str
    user_name: str
    phase: str
    priority: int
    resource: Size
    group_version_kind: GroupVersionKind
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
    def ended(self) -> bool:
        """Whether nothing of it runs; only a resume changes that."""
        return self.phase in ENDED


class Condition(Shape, frozen=True):
    type: str
    status: str
    last_transition_time: str
    reason: str
    message: str


class PodPlace(Shape, frozen=True):
    pod_id: str
    phase: str
    node_name: str
    ssh_addr: str | UnsetType = UNSET

    @property
    def ended(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}


class WorkloadDetail(Workload, frozen=True):
    """`pods` are those of the newest dispatch; `nodes` and `ranks` have one list per dispatch. Until
    `guaranteed_until`, if there is such a time, it is not preempted."""

    image: str
    entry_point: str
    is_supervised: bool
    max_retry: int
    ttl_seconds_after_finished: int
    preemptible: bool
    env: dict[str, str]
    conditions: tuple[Condition, ...]
    pods: tuple[PodPlace, ...]
    nodes: tuple[tuple[str, ...], ...]
    ranks: tuple[tuple[str, ...], ...]
    customer_labels: dict[str, str]
    annotations: dict[str, str]
    specified_nodes: tuple[str, ...]
    dependencies: tuple[str, ...]
    guaranteed_until: str = ""


class BatchFailure(Shape, frozen=True):
    workload_id: str
    error_code: str
    error_message: str

    @classmethod
    def of(cls, workload_id: str, error: StokerError) -> Self:
        """One that was met one by one, in the shape of a batch."""
        return cls(workload_id=workload_id, error_code=safe_code(error.code), error_message=error.message)

    @property
    def error(self) -> StokerError:
        code = code_of(self.error_code)
        return StokerError(ErrorCode(code) if code else ErrorCode.INTERNAL, self.error_message)


class Batch(Shape, frozen=True):
    """What was done to which; `clones` are the new ids in the order of those that succeeded."""

    succeeded: tuple[str, ...]
    failed: tuple[BatchFailure, ...] = ()
    clones: tuple[str, ...] = ()

    @classmethod
    def of_answer(cls, request: Request, answer: Answer) -> Self | None:
        """The batch that an answer tells of: nothing when all worked, a body when not, whatever the status."""
        clones = tuple(filter(None, answer.headers.get("x-workload-ids", "").split(",")))
        if answer.status == 204:
            asked = msgspec.json.decode(request.body, type=_Ids).workload_ids
            return cls(succeeded=tuple(dict.fromkeys(asked)), clones=clones)
        try:
            return msgspec.structs.replace(msgspec.json.decode(answer.body, type=cls), clones=clones)
        except msgspec.DecodeError:
            return None


class _Ids(Shape, frozen=True):
    workload_ids: tuple[str, ...]


class LogLine(Shape, frozen=True):
    """One line and when it was printed, in epoch milliseconds."""

    at: int
    text: str

    @classmethod
    def of_event(cls, event: ServerEvent) -> Self:
        """A line has no line feed in it; where an event has one, the line had a carriage return."""
        return cls.stamped(event.data.replace("\n", "\r"))

    @classmethod
    def stamped(cls, text: str) -> Self:
        """A line that begins with its time."""
        stamp, _, line = text.partition(" ")
        at = parse_rfc3339(stamp)
        return cls(at=0, text=text) if at is None else cls(at=at, text=line)


class PodLogs(Shape, frozen=True):
    workload_id: str
    pod_id: str
    namespace: str
    logs: tuple[str, ...]


class FoundLine(Shape, frozen=True):
    pod: str
    attempt: int
    at: datetime
    line: str


class FoundLines(Shape, frozen=True):
    """Lines of all pods, in the order of time."""

    items: tuple[FoundLine, ...]


class Container(Shape, frozen=True):
    name: str


class Containers(Shape, frozen=True):
    containers: tuple[Container, ...]
    shells: tuple[str, ...]


class WorkloadEvent(Shape, frozen=True):
    """One change of one workload; `phase` is the finest word there is for it."""

    seq: int
    at: datetime
    workload_id: str
    workspace: str
    kind: str
    phase: str
    reason: str
    message: str

    @classmethod
    def of_event(cls, event: ServerEvent) -> Self:
        return msgspec.json.decode(event.data, type=cls)


class Reason(Shape, frozen=True):
    code: str
    sentence: str


class Blocking(Shape, frozen=True):
    """A workload that holds or goes before what another waits for. Until `guaranteed_until` it is not preempted."""

    workload_id: str
    phase: str
    why: str
    resource: dict[str, str]
    guaranteed_until: datetime | None = None


class Edit(Shape, frozen=True):
    """A change that would help; `patch` is what to send."""

    sentence: str
    patch: dict[str, object]


class Explanation(Shape, frozen=True):
    """Why a workload stands where it does, and what would help."""

    workload_id: str
    phase: str
    reason: Reason
    order: int
    ahead: dict[str, str]
    blocking: tuple[Blocking, ...]
    edits: tuple[Edit, ...]


class MetricPoint(Shape, frozen=True):
    at: datetime
    step: int | None
    value: float


class TrainingCurve(Shape, frozen=True):
    """One metric: how many points it has, and the ones that were asked for."""

    metric: str
    count: int
    points: tuple[MetricPoint, ...]


class TrainingMetrics(Shape, frozen=True):
    items: tuple[TrainingCurve, ...]


class TrainingReport(Shape, frozen=True, omit_defaults=True):
    """Metrics of one moment, and of one step if there is one; without a time they are of now."""

    metrics: Mapping[str, float]
    step: int | None = None
    at: datetime | None = None
