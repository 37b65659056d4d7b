"""A workload to submit, for callers that build it in Python. Fields that are left out take the server's defaults.

It differs from the server's request body: the script is bytes, the start time a `datetime`, and nothing is validated.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import UNSET, Struct, UnsetType


class _RequestStruct(Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class WorkloadType(_RequestStruct, frozen=True):
    kind: str
    version: str = "v1"


class ResourceRequest(_RequestStruct, frozen=True):
    """Resources of each replica, and the number of replicas."""

    cpu: str
    memory: str
    gpu: str = "0"
    replica: int = 1


class ServiceRequest(_RequestStruct, frozen=True):
    """A port that is forwarded to the replicas."""

    port: int
    protocol: str | UnsetType = UNSET
    target_port: int | UnsetType = UNSET
    node_port: int | UnsetType = UNSET
    service_type: str | UnsetType = UNSET


class ReadinessRequest(_RequestStruct, frozen=True):
    """A replica is ready when a GET of `path` succeeds; it fails if that takes longer than `timeout` seconds."""

    path: str = ""
    timeout: int = 0


class NewWorkload(_RequestStruct, frozen=True):
    """What to run. `entry_point` is the script itself, which is sent as Base64."""

    display_name: str
    group_version_kind: WorkloadType
    image: str
    resource: ResourceRequest
    entry_point: bytes | UnsetType = UNSET
    description: str | UnsetType = UNSET
    workspace_id: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    timeout: int | UnsetType = UNSET
    max_retry: int | UnsetType = UNSET
    env: Mapping[str, str] | UnsetType = UNSET
    specified_nodes: tuple[str, ...] | UnsetType = UNSET
    service: ServiceRequest | UnsetType = UNSET
    readiness: ReadinessRequest | UnsetType = UNSET
    customer_labels: Mapping[str, str] | UnsetType = UNSET
    annotations: Mapping[str, str] | UnsetType = UNSET
    ttl_seconds_after_finished: int | UnsetType = UNSET
    is_supervised: bool | UnsetType = UNSET
    is_tolerate_all: bool | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    dependencies: tuple[str, ...] | UnsetType = UNSET
    start_after: datetime | UnsetType = UNSET
