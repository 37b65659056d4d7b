"""AMD's management library, where it is there and works. Without ROCm even its import fails, in ways of its own."""

import importlib
import math
from collections.abc import Mapping
from typing import Any

from stoker.telemetry.machine import GpuNow

_MIB = 1024**2


class Amdsmi:
    def __init__(self, library: Any) -> None:
        self._library = library
        handles = library.amdsmi_get_processor_handles()
        self._handles = {library.amdsmi_get_gpu_device_bdf(handle).lower(): handle for handle in handles}

    def gpu(self, address: str) -> GpuNow | None:
        """What it says of the GPU at a PCI address; None if it does not know it."""
        handle = self._handles.get(address.lower())
        if handle is None:
            return None
        library = self._library
        memory = self._ask("amdsmi_get_gpu_vram_usage", handle)
        power = self._ask("amdsmi_get_power_info", handle)
        errors = _number(self._ask("amdsmi_get_gpu_total_ecc_count", handle), "uncorrectable_count")
        degrees = self._ask(
            "amdsmi_get_temp_metric",
            handle,
            library.AmdSmiTemperatureType.HOTSPOT,
            library.AmdSmiTemperatureMetric.CURRENT,
        )
        total = _number(memory, "vram_total")
        return GpuNow(
            -1,
            _number(self._ask("amdsmi_get_gpu_activity", handle), "gfx_activity") / 100,
            _number(memory, "vram_used") * _MIB,
            0.0 if math.isnan(total) else total * _MIB,
            _number(power, "current_socket_power", "average_socket_power"),
            float(degrees) if isinstance(degrees, int | float) else math.nan,
            (f"Its memory had {errors:.0f} uncorrectable errors.",) if errors > 0 else (),
        )

    def close(self) -> None:
        self._ask("amdsmi_shut_down")

    def _ask(self, name: str, *arguments: object) -> Any:
        try:
            return getattr(self._library, name)(*arguments)
        except (AttributeError, OSError, self._library.AmdSmiException):
            return None


def load() -> Amdsmi | None:
    """None where it cannot be used."""
    try:
        library = importlib.import_module("amdsmi")
        library.amdsmi_init()
        return Amdsmi(library)
    except Exception:  # a missing ROCm is a KeyError, a missing library an OSError, a refusal an error of its own
        return None


def _number(answer: Any, *names: str) -> float:
    """The first of these that is a number; amdsmi says "N/A" where it does not know."""
    for name in names if isinstance(answer, Mapping) else ():
        value = answer.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return math.nan
