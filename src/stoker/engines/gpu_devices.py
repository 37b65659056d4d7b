"""Detects the GPUs of this machine, in the order of their runtime: NVML or /proc for NVIDIA, KFD for AMD.

NVML numbers GPUs by PCI bus id, and so does CUDA where CUDA_DEVICE_ORDER is PCI_BUS_ID. The minor numbers of the driver
may be in another order.
"""

import contextlib
from collections import Counter
from pathlib import Path

from msgspec import structs

from stoker.domain.cluster.gpu_identity import NVIDIA_UUID, uuid_of_amd
from stoker.domain.cluster.node import Device
from stoker.engines.pod_env import AMD_MODEL_PREFIX

_PRETEND_MODEL = "Pretend GPU"
_PRETEND_MEMORY_BYTES = 80 * 1024**3


def pretend(count: int) -> tuple[Device, ...]:
    """Pretend devices for tests and trials, named as such. They have no UUID."""
    return tuple(Device(index, "", _PRETEND_MODEL, _PRETEND_MEMORY_BYTES, pretend=True) for index in range(count))


def detect(root: Path = Path("/")) -> tuple[Device, ...]:
    """The GPUs that exist. A UUID that several of them have identifies none of them and is left out."""
    found = _detect_nvml() or _detect_nvidia_proc(root) or _detect_amd(root)
    count = Counter(device.uuid for device in found)
    return tuple(device if count[device.uuid] == 1 else structs.replace(device, uuid="") for device in found)


def _detect_nvml() -> tuple[Device, ...]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            Device(
                index,
                _decode(pynvml.nvmlDeviceGetUUID(handle)),
                _decode(pynvml.nvmlDeviceGetName(handle)),
                int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
            for index, handle in enumerate(handles)
        )
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _detect_nvidia_proc(root: Path) -> tuple[Device, ...]:
    """What the driver reports in /proc, without memory sizes. A GPU that was never used has no UUID yet."""
    devices = []
    for path in sorted(
        root.glob("proc/driver/nvidia/gpus/*/information"), key=lambda path: _pci_order(path.parent.name)
    ):
        facts = _read_properties(path, ":")
        uuid = facts.get("GPU UUID", "")
        devices.append(Device(len(devices), uuid if NVIDIA_UUID.fullmatch(uuid) else "", facts.get("Model", "")))
    return tuple(devices)


def _pci_order(bus_id: str) -> tuple[int, ...]:
    """The numbers of a bus id such as 0000:0a:00.0."""
    return tuple(int(number, 16) for number in bus_id.replace(".", ":").split(":"))


def amd_render_minors(root: Path = Path("/")) -> tuple[int, ...]:
    """The numbers of the render nodes of the AMD GPUs of this machine, in the order of their indexes."""
    minors = [facts.get("drm_render_minor", "") for facts in _amd_gpus(root)]
    return tuple(int(minor) for minor in minors if minor.isdigit())


def _amd_gpus(root: Path) -> list[dict[str, str]]:
    nodes = sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*"), key=lambda path: int(path.name))
    return [
        facts for node in nodes if int((facts := _read_properties(node / "properties", " ")).get("simd_count", "0"))
    ]


def _detect_amd(root: Path) -> tuple[Device, ...]:
    """The compute nodes of KFD, in the order of ROCR. The name of the card is in its DRM directory."""
    devices = []
    for index, facts in enumerate(_amd_gpus(root)):
        card = root / f"sys/class/drm/renderD{facts.get('drm_render_minor', '')}/device"
        name = _read_line(card / "product_name") or f"gfx{facts.get('gfx_target_version', '')}"
        model = name if name.startswith(AMD_MODEL_PREFIX) else f"{AMD_MODEL_PREFIX} {name}"
        memory = _read_line(card / "mem_info_vram_total")
        devices.append(Device(index, _amd_uuid(facts, card), model, int(memory) if memory.isdigit() else 0))
    return tuple(devices)


def _amd_uuid(facts: dict[str, str], card: Path) -> str:
    """The unique id is decimal in the topology of KFD and hexadecimal in the directory of the card."""
    in_topology = facts.get("unique_id", "")
    if in_topology.isdigit() and int(in_topology):
        return uuid_of_amd(int(in_topology))
    with contextlib.suppress(ValueError):
        return uuid_of_amd(int(_read_line(card / "unique_id"), 16))
    return ""


def _read_properties(path: Path, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in _read_text(path).splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _read_line(path: Path) -> str:
    return _read_text(path).strip()


def _read_text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _decode(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
