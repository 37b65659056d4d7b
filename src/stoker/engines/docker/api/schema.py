"""What the Docker Engine API answers, as far as it is used. Fields that are absent or null have their default."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct, field

_SECOND_NS = 1_000_000_000
_UNSET_YEAR = "0001-"
_TIME_PATTERN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")

T = TypeVar("T")


class PingInfo(Struct, frozen=True):
    api_version: str
    server: str


class SystemInfo(Struct, frozen=True, rename="pascal"):
    name: str = ""
    cpus: int = field(name="NCPU", default=0)
    mem_total: int = 0
    server_version: str = ""
    operating_system: str = ""
    live_restore_enabled: bool = False
    system_time: str = ""


class ContainerSummary(Struct, frozen=True, rename="pascal"):
    """One row of the list of containers."""

    id: str
    state: str = ""
    names: list[str] | None = None
    labels: dict[str, str] | None = None


class ContainerState(Struct, frozen=True, rename="pascal"):
    status: str = ""
    oom_killed: bool = field(name="OOMKilled", default=False)
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    started_at: str = ""
    finished_at: str = ""


class ImageConfig(Struct, frozen=True, rename="pascal"):
    """The configuration of an image or of a container."""

    image: str = ""
    env: list[str] | None = None
    cmd: list[str] | None = None
    entrypoint: list[str] | None = None
    working_dir: str = ""
    labels: dict[str, str] | None = None


class DeviceRequest(Struct, frozen=True, rename="pascal"):
    driver: str = ""
    count: int = 0
    device_ids: list[str] | None = field(name="DeviceIDs", default=None)
    capabilities: list[list[str]] | None = None


class DeviceMapping(Struct, frozen=True, rename="pascal"):
    path_on_host: str = ""


class HostConfig(Struct, frozen=True, rename="pascal"):
    runtime: str = ""
    network_mode: str = ""
    nano_cpus: int = 0
    memory: int = 0
    device_requests: list[DeviceRequest] | None = None
    devices: list[DeviceMapping] | None = None


class PortBinding(Struct, frozen=True, rename="pascal"):
    host_ip: str = ""
    host_port: str = ""


class EndpointSettings(Struct, frozen=True, rename="pascal"):
    ip_address: str = field(name="IPAddress", default="")


class NetworkSettings(Struct, frozen=True, rename="pascal"):
    ports: dict[str, list[PortBinding] | None] | None = None
    networks: dict[str, EndpointSettings | None] | None = None


class ContainerInspect(Struct, frozen=True, rename="pascal"):
    id: str
    name: str = ""
    created: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    config: ImageConfig = ImageConfig()
    host_config: HostConfig = HostConfig()
    network_settings: NetworkSettings = NetworkSettings()

    @property
    def labels(self) -> Mapping[str, str]:
        return self.config.labels or {}


class ImageInspect(Struct, frozen=True, rename="pascal"):
    id: str
    config: ImageConfig | None = None


class CreatedContainer(Struct, frozen=True, rename="pascal"):
    id: str


class VolumeSummary(Struct, frozen=True, rename="pascal"):
    name: str
    labels: dict[str, str] | None = None


class VolumeList(Struct, frozen=True, rename="pascal"):
    volumes: list[VolumeSummary] | None = None


class NetworkSummary(Struct, frozen=True, rename="pascal"):
    id: str
    created: str = ""


class ExecInspect(Struct, frozen=True, rename="pascal"):
    running: bool = False
    exit_code: int | None = None


class EventActor(Struct, frozen=True):
    id: str = field(name="ID", default="")


class DaemonEvent(Struct, frozen=True):
    action: str = field(name="Action", default="")
    actor: EventActor = field(name="Actor", default=EventActor())


class ProgressDetail(Struct, frozen=True):
    current: int = 0
    total: int = 0


class PullProgress(Struct, frozen=True):
    """One line of the progress of a pull. `error` is set if it has failed."""

    status: str = ""
    id: str = ""
    progress: ProgressDetail | None = field(name="progressDetail", default=None)
    error: str = ""


class CpuUsage(Struct, frozen=True):
    total_usage: int = 0


class CpuStats(Struct, frozen=True):
    cpu_usage: CpuUsage = CpuUsage()


class ContainerMemoryStats(Struct, frozen=True):
    usage: int = 0
    stats: dict[str, int] | None = None


class ContainerStats(Struct, frozen=True):
    read: str = ""
    cpu_stats: CpuStats = CpuStats()
    memory_stats: ContainerMemoryStats = ContainerMemoryStats()


class ErrorMessage(Struct, frozen=True):
    message: str = ""


def decode(data: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(data, type=kind)


def parse_time_ns(text: str) -> int | None:
    """Epoch nanoseconds of an RFC 3339 timestamp with up to nine decimals; None for Docker's zero time."""
    found = _TIME_PATTERN.fullmatch(text)
    if found is None or found[1].startswith(_UNSET_YEAR):
        return None
    seconds = int(datetime.fromisoformat(found[1] + ("+00:00" if found[3] == "Z" else found[3])).timestamp())
    return seconds * _SECOND_NS + int((found[2] or "").ljust(9, "0"))


def parse_time_ms(text: str) -> int | None:
    nanoseconds = parse_time_ns(text)
    return None if nanoseconds is None else nanoseconds // 1_000_000
