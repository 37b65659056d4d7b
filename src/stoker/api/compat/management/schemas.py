"""Request and response bodies of the management family, as its document defines them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from stoker.domain.workload.spec import MAX_LABELS, Kind, PortProtocol
from stoker.wire.base import RequestBody

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
GracePeriod = Annotated[
    int, Meta(ge=0, le=86_400, description="Seconds between SIGTERM and SIGKILL, 30 when left out; 0 kills at once.")
]
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
    Meta(max_length=MAX_LABELS),
]


class GroupVersionKind(RequestBody, frozen=True, kw_only=True):
    kind: Kind
    version: Literal["v1"]


class ResourceBody(RequestBody, frozen=True, kw_only=True):
    cpu: Cpu
    memory: Memory
    replica: Replica
    gpu: Gpu = "0"


class ServiceBody(RequestBody, frozen=True, kw_only=True):
    port: Port
    protocol: PortProtocol = PortProtocol.TCP
    target_port: Port | None = None
    node_port: Port | None = None
    service_type: Literal["ClusterIP", "NodePort"] = "ClusterIP"


class ReadinessBody(RequestBody, frozen=True, kw_only=True):
    """When a replica of a Deployment or StatefulSet is ready; by default when its port accepts connections."""

    path: Annotated[
        str,
        Meta(
            pattern=r"^(/[!-~]*)?$",
            max_length=1024,
            description='a path that begins with "/": ready when an HTTP GET of it answers 2xx or 3xx',
            examples=["/health"],
        ),
    ] = ""
    timeout: Annotated[
        int,
        Meta(
            ge=0,
            le=31_622_400,
            description="Seconds a replica may take to become ready; 0 is the setting rollout_deadline_seconds.",
        ),
    ] = 0


class CreateWorkload(RequestBody, frozen=True, kw_only=True):
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
    readiness: ReadinessBody | None = None
    customer_labels: LabelMap = {}
    annotations: LabelMap = {}
    ttl_seconds_after_finished: Annotated[int, Meta(ge=0, le=315_360_000)] = 60
    is_supervised: bool = False
    is_tolerate_all: bool = False
    preemptible: bool = False
    dependencies: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(max_length=1000)] = ()
    start_after: Annotated[str, Meta(max_length=40, description="RFC 3339.")] | None = None


class PatchWorkload(RequestBody, frozen=True, kw_only=True):
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
    readiness: ReadinessBody | UnsetType | None = UNSET


class BatchBody(RequestBody, frozen=True, kw_only=True):
    workload_ids: Ids


class StopBody(BatchBody, frozen=True, kw_only=True):
    grace_period_seconds: GracePeriod | None = None
