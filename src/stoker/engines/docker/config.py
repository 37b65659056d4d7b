"""The settings of one Docker cluster."""

from enum import StrEnum
from urllib.parse import urlsplit

from msgspec import Struct

from stoker.domain.errors import bad_request

UNIX_SCHEME = "unix"
TCP_SCHEME = "tcp"
HOST_NETWORK = "host"
DEFAULT_SHM_BYTES = 1024**3
"""Data loaders of training frameworks pass batches through /dev/shm; Docker's own default of 64 MiB is too small."""
DEFAULT_TLS_PORT = 2376
DEFAULT_PORT = 2375


class PullPolicy(StrEnum):
    """When an image is pulled: if the host does not have it, before every start, or never."""

    MISSING = "missing"
    ALWAYS = "always"
    NEVER = "never"


class GpuVendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"


class TlsConfig(Struct, frozen=True):
    """The certificates for a daemon on TCP, each as PEM text or as the path of a file."""

    ca: str = ""
    certificate: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return "TlsConfig()"  # a log line or a traceback must not show the key


class DockerConfig(Struct, frozen=True, kw_only=True):
    url: str = "unix:///var/run/docker.sock"
    tls: TlsConfig | None = None
    node_name: str = ""
    """The name of the node; empty is the name that the daemon reports."""
    gpus: int | None = None
    """The number of GPUs; None detects those of this machine, if the daemon is on it."""
    gpu_model: str = ""
    gpu_vendor: GpuVendor = GpuVendor.NVIDIA
    """The vendor of declared GPUs."""
    gpu_memory_bytes: int = 0
    allowed_mounts: tuple[str, ...] = ()
    """Directories of the host; workloads may mount these and what is below them."""
    network: str = ""
    """The network of pods: the name of an existing one, `host`, or empty for one that the engine creates."""
    pull_policy: PullPolicy = PullPolicy.MISSING
    registry_auth_file: str = ""
    """The path of a Docker `config.json` with credentials of registries."""
    default_image: str = ""
    """The image of workloads that name none."""
    shm_bytes: int = DEFAULT_SHM_BYTES
    working_dir: str = "/work"
    """Where the volume of a workload is mounted in its pods."""

    @property
    def is_local(self) -> bool:
        """Whether the daemon is on this machine."""
        return urlsplit(self.url).scheme == UNIX_SCHEME

    @property
    def socket_path(self) -> str:
        return urlsplit(self.url).path

    @property
    def host(self) -> str:
        """The address of the daemon's machine, as seen from here."""
        return "127.0.0.1" if self.is_local else urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (DEFAULT_TLS_PORT if self.tls else DEFAULT_PORT)


def check_config(config: DockerConfig) -> None:
    """Reject settings that cannot work, before anything is stored."""
    try:
        parts = urlsplit(config.url)
        _ = parts.port
    except ValueError as error:
        raise bad_request("url", f'"{config.url}" is not an address: {error}.') from error
    if parts.scheme == UNIX_SCHEME:
        if not parts.path.startswith("/") or parts.netloc:
            raise bad_request("url", f'"{config.url}" has no absolute path. Write unix:///var/run/docker.sock.')
        if config.tls:
            raise bad_request("tls", "is for a daemon on TCP; this one is on a Unix socket.")
    elif parts.scheme == TCP_SCHEME:
        if not parts.hostname:
            raise bad_request("url", f'"{config.url}" has no host. Write tcp://HOST:{DEFAULT_TLS_PORT}.')
    else:
        raise bad_request("url", f'"{config.url}" is neither unix:///PATH nor tcp://HOST:PORT.')
    if config.gpus is not None and not 0 <= config.gpus <= 1024:
        raise bad_request("gpus", "must be between 0 and 1024.")
    for path in config.allowed_mounts:
        if not path.startswith("/") or ".." in path.split("/"):
            raise bad_request("allowed_mounts", f'"{path}" is not an absolute path.')
    if not config.working_dir.startswith("/") or config.working_dir.strip("/") == "":
        raise bad_request("working_dir", f'"{config.working_dir}" is not an absolute path below /.')
    if config.shm_bytes < 0:
        raise bad_request("shm_bytes", "must not be negative.")
