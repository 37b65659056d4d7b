"""Clusters: what they are, how they are added and changed, and what a check of one finds."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from stoker.domain.diagnostics import CheckStatus
from stoker.wire.base import Name, RequestBody, SecretStruct, ShortText, Text, WireStruct
from stoker.wire.timestamps import Timestamp

Path = Annotated[str, Meta(max_length=1000)]
Pem = Annotated[str, Meta(min_length=1, max_length=100_000, description="PEM text.")]
Quantity = Annotated[str, Meta(max_length=40, description='Bytes, such as "1Gi".')]
PullPolicyName = Literal["missing", "always", "never"]
GpuVendorName = Literal["nvidia", "amd"]


class DockerView(WireStruct, frozen=True):
    """The settings of a Docker host. `gpus` is null if they are detected."""

    url: str = ""
    node_name: str = ""
    gpus: int | None = None
    gpu_model: str = ""
    gpu_vendor: str = ""
    gpu_memory: str = ""
    allowed_mounts: tuple[str, ...] = ()
    network: str = ""
    pull_policy: str = ""
    registry_auth_file: str = ""
    default_image: str = ""
    shm: str = ""
    working_dir: str = ""
    foreign_stop: bool = False


class ClusterView(WireStruct, frozen=True):
    """`unreachableSince` is null while the cluster can be reached. Settings are shown to admins only, and are null for
    a cluster that comes with the server. Credentials are never shown."""

    id: str
    name: str
    engine: str
    description: str
    simulated: bool
    reachable: bool
    unreachable_since: Timestamp | None
    unreachable_message: str
    nodes: int
    gpus: int
    has_credential: bool
    docker: DockerView | None
    created_at: Timestamp
    updated_at: Timestamp


class TlsBody(RequestBody, SecretStruct, frozen=True, kw_only=True):
    """The certificate authority of the daemon, and the certificate and key of this client."""

    ca: Pem
    certificate: Pem
    key: Pem


class DockerSettings(RequestBody, frozen=True, kw_only=True):
    """Settings of a Docker host; what is left out has its default, or is kept. `tls` is stored encrypted; `tlsDir` is a
    directory of the server with ca.pem, cert.pem and key.pem, which are read when they are needed. A `tls` of null
    removes the certificates."""

    url: Annotated[str, Meta(max_length=500, description="`unix:///PATH` or `tcp://HOST:PORT`.")] | UnsetType = UNSET
    tls: TlsBody | UnsetType | None = UNSET
    tls_dir: Path | UnsetType = UNSET
    node_name: ShortText | UnsetType = UNSET
    gpus: (
        Annotated[int, Meta(ge=0, le=1024, description="How many GPUs it has; null detects those of this machine.")]
        | UnsetType
        | None
    ) = UNSET
    gpu_model: ShortText | UnsetType = UNSET
    gpu_vendor: GpuVendorName | UnsetType = UNSET
    gpu_memory: Quantity | UnsetType = UNSET
    allowed_mounts: (
        Annotated[tuple[Path, ...], Meta(max_length=100, description="Directories that workloads may mount.")]
        | UnsetType
    ) = UNSET
    network: ShortText | UnsetType = UNSET
    pull_policy: PullPolicyName | UnsetType = UNSET
    registry_auth_file: Path | UnsetType = UNSET
    default_image: Text | UnsetType = UNSET
    shm: Quantity | UnsetType = UNSET
    working_dir: Path | UnsetType = UNSET
    foreign_stop: (
        Annotated[bool, Meta(description="Whether admins may stop containers that Stoker did not create.")] | UnsetType
    ) = UNSET


class CreateCluster(RequestBody, frozen=True, kw_only=True):
    name: Name
    description: Text = ""
    docker: DockerSettings


class EditCluster(RequestBody, frozen=True, kw_only=True):
    description: Text | UnsetType = UNSET
    docker: DockerSettings | UnsetType = UNSET


class FindingView(WireStruct, frozen=True):
    """`advice` is the command or setting that helps."""

    name: str
    verdict: CheckStatus
    message: str
    advice: str


class ClusterCheckView(WireStruct, frozen=True):
    """`ok` is false if a finding is broken."""

    ok: bool
    checks: tuple[FindingView, ...]
