"""GPUs of a Docker host: which it has, how a container gets some, and which ones a container holds."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.cluster.node import Device, DeviceRef
from stoker.engines import gpu_devices
from stoker.engines.docker.api.schema import ContainerInspect, DeviceRequest
from stoker.engines.docker.config import DockerConfig, GpuVendor
from stoker.engines.pod_env import AMD_MODEL_PREFIX, VISIBLE_DEVICES_VARIABLES

NVIDIA_DRIVER = "nvidia"
NVIDIA_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
NO_NVIDIA_DEVICES = "void"
"""Images of CUDA ask for all GPUs by default; this value refuses."""
KFD_PATH = "/dev/kfd"
DRI_PATH = "/dev/dri"
_FIRST_RENDER_MINOR = 128
_RENDER_PATTERN = re.compile(r"/dev/dri/renderD(\d+)\Z")
_CDI_PATTERN = re.compile(r"nvidia\.com/gpu=(.+)\Z")
_HARDWARE_UUID = re.compile(r"(GPU|MIG)-")
_DECLARED_MODELS = {GpuVendor.NVIDIA: "NVIDIA GPU", GpuVendor.AMD: "AMD GPU"}


class HostGpus(Struct, frozen=True):
    """The GPUs of a host. `render_minors` are the numbers of the render nodes of AMD GPUs, by index; those that are
    not known are in order."""

    devices: tuple[Device, ...] = ()
    render_minors: tuple[int, ...] = ()

    @property
    def are_amd(self) -> bool:
        return bool(self.devices) and self.devices[0].model.startswith(AMD_MODEL_PREFIX)

    def render_minor(self, index: int) -> int:
        return self.render_minors[index] if index < len(self.render_minors) else _FIRST_RENDER_MINOR + index


def find_gpus(config: DockerConfig, node_name: str) -> HostGpus:
    """The GPUs of the host: those that the cluster declares, else the detected ones if it is this machine. Reads files
    and drivers."""
    minors = gpu_devices.amd_render_minors() if config.is_local else ()
    return HostGpus(_list_devices(config, node_name), minors)


def _list_devices(config: DockerConfig, node_name: str) -> tuple[Device, ...]:
    if config.gpus is None:
        return gpu_devices.detect() if config.is_local else ()
    model = config.gpu_model or _DECLARED_MODELS[config.gpu_vendor]
    if config.gpu_vendor is GpuVendor.AMD and not model.startswith(AMD_MODEL_PREFIX):
        model = f"{AMD_MODEL_PREFIX} {model}"
    return tuple(
        Device(index, f"{node_name}-gpu-{index}", model, config.gpu_memory_bytes) for index in range(config.gpus)
    )


def request_devices(wanted: Sequence[DeviceRef], gpus: HostGpus) -> dict[str, object]:
    """The part of a container's host configuration that gives it these GPUs."""
    if not wanted:
        return {}
    if gpus.are_amd:
        paths = [KFD_PATH, *(f"{DRI_PATH}/renderD{gpus.render_minor(device.index or 0)}" for device in wanted)]
        return {
            "Devices": [{"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in paths]
        }
    request = {"Driver": NVIDIA_DRIVER, "DeviceIDs": _nvidia_ids(wanted), "Capabilities": [["gpu"]]}
    return {"DeviceRequests": [request]}


def device_env(wanted: Sequence[DeviceRef], gpus: HostGpus) -> dict[str, str]:
    """The variables for the GPUs of a container, in which its own are numbered from 0."""
    env = dict.fromkeys(VISIBLE_DEVICES_VARIABLES, ",".join(map(str, range(len(wanted)))))
    if not wanted:
        return env | {NVIDIA_VARIABLE: NO_NVIDIA_DEVICES}
    return env if gpus.are_amd else env | {NVIDIA_VARIABLE: ",".join(_nvidia_ids(wanted))}


def held_devices(container: ContainerInspect, gpus: HostGpus) -> tuple[DeviceRef, ...]:
    """The GPUs that the configuration of a container gives it."""
    found: dict[int, Device] = {}
    for device in _held(container, gpus):
        found[device.index] = device
    return tuple(DeviceRef(index, found[index].uuid) for index in sorted(found))


def _held(container: ContainerInspect, gpus: HostGpus) -> Iterable[Device]:
    host, devices = container.host_config, gpus.devices
    for request in host.device_requests or []:
        yield from _requested(request, devices)
    if host.runtime == NVIDIA_DRIVER:
        yield from _visible(container, devices)
    if gpus.are_amd:
        for mapping in host.devices or []:
            yield from _rendered(mapping.path_on_host, gpus)


def _requested(request: DeviceRequest, devices: Sequence[Device]) -> Iterable[Device]:
    if request.driver == "cdi":
        names = [found[1] for name in request.device_ids or [] if (found := _CDI_PATTERN.match(name))]
        return _named(names, devices)
    asks_for_gpus = any("gpu" in group for group in request.capabilities or [])
    if request.driver != NVIDIA_DRIVER and not asks_for_gpus:
        return ()
    if request.device_ids:
        return _named(request.device_ids, devices)
    return devices if request.count < 0 else devices[: request.count]


def _visible(container: ContainerInspect, devices: Sequence[Device]) -> Iterable[Device]:
    """With NVIDIA's runtime the variable of the container decides."""
    env = _env(container)
    value = env.get(NVIDIA_VARIABLE, "")
    return () if value in {"", "none", NO_NVIDIA_DEVICES} else _named(value.split(","), devices)


def _named(names: Sequence[str], devices: Sequence[Device]) -> list[Device]:
    """GPUs by index, by UUID or by the beginning of one."""
    if "all" in names:
        return list(devices)
    return [
        device
        for device in devices
        if any(
            name == str(device.index) or (_HARDWARE_UUID.match(name) and device.uuid.startswith(name)) for name in names
        )
    ]


def _rendered(path: str, gpus: HostGpus) -> list[Device]:
    if path.rstrip("/") == DRI_PATH:
        return list(gpus.devices)
    found = _RENDER_PATTERN.match(path)
    return [device for device in gpus.devices if found and gpus.render_minor(device.index) == int(found[1])]


def _nvidia_ids(wanted: Sequence[DeviceRef]) -> list[str]:
    return [device.uuid if _HARDWARE_UUID.match(device.uuid) else str(device.index) for device in wanted]


def _env(container: ContainerInspect) -> Mapping[str, str]:
    pairs = (text.partition("=") for text in container.config.env or [])
    return {name: value for name, _, value in pairs}
