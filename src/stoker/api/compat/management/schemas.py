"""What `safe` takes and gives, field by field as its document says."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from stoker.api.bodies import Body
from stoker.domain.workload import MOST_LABELS, Kind, PortProtocol

DISPLAY_NAME = r"^[a-z]([-a-z0-9]{0,55}[a-z0-9])?$"

DisplayName = Annotated[
    str,
    Meta(
        pattern=DISPLAY_NAME,
        max_length=57,
        description='1 to 57 lower-case letters, digits and "-", beginning with a letter and not ending in "-"',
        examples=["my-training-job"],
    ),
]
Cpu = Annotated[str, Meta(min_length=1, max_length=64, examples=["500m"])]
Gpu = Annotated[str, Meta(min_length=1, max_length=64, examples=["8"])]
Memory = Annotated[str, Meta(min_length=1, max_length=64, examples=["16Gi"])]
Priority = Annotated[int, Meta(ge=0, le=2, description="0 normal, 1 high, 2 highest.")]
Timeout = Annotated[int, Meta(ge=0, le=315_360_000, description="Seconds; 0 is no timeout.")]
MaxRetry = Annotated[int, Meta(ge=0, le=50)]
Replica = Annotated[int, Meta(ge=1, le=100_000)]
EnvName = Annotated[
    str,
    Meta(
        pattern=r"^[^=\0]+$",
        max_length=256,
        description='a name of 1 to 256 characters without "="',
        examples=["NCCL_DEBUG"],
    ),
]
EnvValue = Annotated[str, Meta(max_length=131_072)]
Description = Annotated[str, Meta(max_length=10_000)]
Image = Annotated[str, Meta(min_length=1, max_length=1024)]
EntryPoint = Annotated[str, Meta(description="Base64 of the start-up script.", examples=["cHl0aG9uIHRyYWluLnB5"])]
Port = Annotated[int, Meta(ge=1, le=65535)]
NodeNames = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...], Meta(max_length=100_000)]
Ids = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(min_length=1, max_length=1000)]
LabelMap = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=317)], Annotated[str, Meta(max_length=1024)]],
    Meta(max_length=MOST_LABELS),
]


class GroupVersionKind(Body, frozen=True, kw_only=True):
    kind: Kind
    version: Literal["v1"]


class ResourceBody(Body, frozen=True, kw_only=True):
    cpu: Cpu
    memory: Memory
    replica: Replica
    gpu: Gpu = "0"


class ServiceBody(Body, frozen=True, kw_only=True):
    port: Port
    protocol: PortProtocol = PortProtocol.TCP
    target_port: Port | None = None
    node_port: Port | None = None
    service_type: Literal["ClusterIP", "NodePort"] = "ClusterIP"


class CreateWorkload(Body, frozen=True, kw_only=True):
    display_name: DisplayName
    group_version_kind: GroupVersionKind
    image: Image
    resource: ResourceBody
    description: Description = ""
    workspace_id: Annotated[str, Meta(max_length=63)] = ""
    entry_point: EntryPoint = ""
    priority: Priority = 0
    timeout: Timeout = 0
    max_retry: MaxRetry = 0
    env: dict[EnvName, EnvValue] = {}
    specified_nodes: NodeNames = ()
    service: ServiceBody | None = None
    customer_labels: LabelMap = {}
    annotations: LabelMap = {}
    ttl_seconds_after_finished: Annotated[int, Meta(ge=0, le=315_360_000)] = 60
    is_supervised: bool = False
    is_tolerate_all: bool = False
    preemptible: bool = False
    dependencies: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(max_length=1000)] = ()
    start_after: Annotated[str, Meta(max_length=40, description="RFC 3339.")] | None = None


class PatchWorkload(Body, frozen=True, kw_only=True):
    priority: Priority | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    replica: Replica | UnsetType = UNSET
    cpu: Cpu | UnsetType = UNSET
    gpu: Gpu | UnsetType = UNSET
    memory: Memory | UnsetType = UNSET
    image: Image | UnsetType = UNSET
    entry_point: EntryPoint | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    timeout: Timeout | UnsetType = UNSET
    max_retry: MaxRetry | UnsetType = UNSET
    env: dict[EnvName, EnvValue | None] | UnsetType = UNSET
    specified_nodes: NodeNames | UnsetType = UNSET


class BatchBody(Body, frozen=True, kw_only=True):
    workload_ids: Ids


class Created(Struct, frozen=True, rename="camel"):
    workload_id: str


class DryRun(Struct, frozen=True, rename="camel"):
    """What a create would do; nothing was written."""

    dry_run: bool
    accepted: bool
    message: str
    scheduler_order: int


class ResourceView(Struct, frozen=True):
    cpu: str
    gpu: str
    memory: str
    replica: int


class KindView(Struct, frozen=True):
    kind: str
    version: str


class ListItem(Struct, frozen=True, rename="camel", kw_only=True):
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


class ListAnswer(Struct, frozen=True, rename="camel"):
    total_count: int
    items: list[ListItem]


class ConditionView(Struct, frozen=True, rename="camel"):
    type: str
    status: str
    last_transition_time: str
    reason: str
    message: str


class PodView(Struct, frozen=True, rename="camel"):
    pod_id: str
    phase: str
    node_name: str


class ServicePort(Struct, frozen=True, rename="camel"):
    name: str
    port: int
    target_port: int
    protocol: str


class ServiceView(Struct, frozen=True, rename="camel"):
    service_name: str
    cluster_ip: str = field(default="", name="clusterIP")
    ports: list[ServicePort] = []


class Detail(Struct, frozen=True, rename="camel", kw_only=True):
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
    conditions: list[ConditionView]
    pods: list[PodView]
    nodes: list[list[str]]
    ranks: list[list[str]]
    customer_labels: dict[str, str]
    annotations: dict[str, str]
    specified_nodes: tuple[str, ...]
    dependencies: tuple[str, ...]


class BatchFailure(Struct, frozen=True, rename="camel"):
    workload_id: str
    error_code: str
    error_message: str


class BatchAnswer(Struct, frozen=True):
    """What worked and what did not, when not everything did."""

    succeeded: list[str]
    failed: list[BatchFailure]
