"""Reads AMD GPUs through amdsmi, AMD's management library.

Every failure of the library is a missing value; without ROCm even its import fails, in several ways.
"""

import importlib
import math
from collections.abc import Mapping
from typing import Any

from stoker.domain.cluster.quantity import humanize_count
from stoker.telemetry.collectors.base import GpuSample

_MIB = 1024**2


class AmdSmi:
    def __init__(self, library: Any) -> None:
        self._library = library
        handles = library.amdsmi_get_processor_handles()
        self._handles = {library.amdsmi_get_gpu_device_bdf(handle).lower(): handle for handle in handles}

    def read_gpu(self, address: str, ecc_threshold: int) -> GpuSample | None:
        """The sample of the GPU at a PCI address; None if the library does not know it. A GPU with `ecc_threshold` or
        more uncorrectable errors is faulty."""
        handle = self._handles.get(address.lower())
        if handle is None:
            return None
        library = self._library
        memory = self._call("amdsmi_get_gpu_vram_usage", handle)
        power = self._call("amdsmi_get_power_info", handle)
        errors = _first_number(self._call("amdsmi_get_gpu_total_ecc_count", handle), "uncorrectable_count")
        degrees = self._call(
            "amdsmi_get_temp_metric",
            handle,
            library.AmdSmiTemperatureType.HOTSPOT,
            library.AmdSmiTemperatureMetric.CURRENT,
        )
        total = _first_number(memory, "vram_total")
        return GpuSample(
            -1,
            _first_number(self._call("amdsmi_get_gpu_activity", handle), "gfx_activity") / 100,
            _first_number(memory, "vram_used") * _MIB,
            0.0 if math.isnan(total) else total * _MIB,
            _first_number(power, "current_socket_power", "average_socket_power"),
            float(degrees) if isinstance(degrees, int | float) else math.nan,
            (f"Its memory had {humanize_count(int(errors), 'uncorrectable error')}.",)
            if errors >= ecc_threshold
            else (),
        )

    def close(self) -> None:
        self._call("amdsmi_shut_down")

    def _call(self, name: str, *arguments: object) -> Any:
        try:
            return getattr(self._library, name)(*arguments)
        except (AttributeError, OSError, self._library.AmdSmiException):
            return None


def load_amd_smi() -> AmdSmi | None:
    """None if the library cannot be used."""
    try:
        library = importlib.import_module("amdsmi")
        library.amdsmi_init()
        return AmdSmi(library)
    except Exception:  # missing ROCm: KeyError; missing library: OSError; refusal: AmdSmiException
        return None


def _first_number(answer: Any, *names: str) -> float:
    """The first of these values that is a number; an unknown value is "N/A"."""
    for name in names if isinstance(answer, Mapping) else ():
        value = answer.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return math.nan
