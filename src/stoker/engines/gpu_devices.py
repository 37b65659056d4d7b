"""The GPUs of this machine, in the order in which their runtime counts them: NVML or /proc for NVIDIA, KFD for AMD."""

import contextlib
from pathlib import Path

from stoker.domain.node import Device
from stoker.engines.environment import AMD

_MODEL = "Pretend GPU"
_PRETEND_MEMORY = 80 * 1024**3


def pretend(count: int) -> tuple[Device, ...]:
    """Devices for tests and trials, shown as such."""
    return tuple(Device(index, f"pretend-{index}", _MODEL, _PRETEND_MEMORY, pretend=True) for index in range(count))


def found(root: Path = Path("/")) -> tuple[Device, ...]:
    """What is really there."""
    return _nvml() or _nvidia_proc(root) or _amd(root)


def _nvml() -> tuple[Device, ...]:
    try:
        import pynvml  # pyrefly: ignore[missing-import]
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            Device(
                index,
                _text(pynvml.nvmlDeviceGetUUID(handle)),
                _text(pynvml.nvmlDeviceGetName(handle)),
                int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
            for index, handle in enumerate(handles)
        )
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _nvidia_proc(root: Path) -> tuple[Device, ...]:
    """What the driver itself says; it knows no memory size."""
    cards = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        facts = _facts(path, ":")
        if facts.get("Device Minor", "").isdigit():
            cards.append((int(facts["Device Minor"]), facts.get("GPU UUID", path.parent.name), facts.get("Model", "")))
    return tuple(Device(index, uuid, model) for index, (_, uuid, model) in enumerate(sorted(cards)))


def _amd(root: Path) -> tuple[Device, ...]:
    """The compute nodes of KFD, in the order that ROCR counts; what the card is called is in its DRM folder."""
    nodes = sorted(root.glob("sys/class/kfd/kfd/topology/nodes/*"), key=lambda path: int(path.name))
    gpus = [facts for node in nodes if int((facts := _facts(node / "properties", " ")).get("simd_count", "0"))]
    devices = []
    for index, facts in enumerate(gpus):
        card = root / f"sys/class/drm/renderD{facts.get('drm_render_minor', '')}/device"
        name = _line(card / "product_name") or f"gfx{facts.get('gfx_target_version', '')}"
        model = name if name.startswith(AMD) else f"{AMD} {name}"
        uuid = _line(card / "unique_id") or facts.get("unique_id", str(index))
        memory = _line(card / "mem_info_vram_total")
        devices.append(Device(index, f"GPU-{uuid}", model, int(memory) if memory.isdigit() else 0))
    return tuple(devices)


def _facts(path: Path, separator: str) -> dict[str, str]:
    pairs = (line.partition(separator) for line in _whole(path).splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _line(path: Path) -> str:
    return _whole(path).strip()


def _whole(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
