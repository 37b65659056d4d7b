"""Readings of the GPUs of one machine, one struct each; what a GPU does not say is NaN."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from stoker.domain.readings import GpuFault, Readings


class GpuNow(Struct, frozen=True):
    device: int
    utilization: float = math.nan
    memory_used: float = math.nan
    memory_total: float = 0.0
    power: float = math.nan
    temperature: float = math.nan
    faults: tuple[str, ...] = ()


def of_one_machine(at: int, node: str, gpus: Sequence[GpuNow]) -> Readings:
    return Readings(
        at=at,
        nodes=(node,),
        node=np.zeros(len(gpus), np.int32),
        device=np.array([gpu.device for gpu in gpus], np.int16),
        utilization=np.array([gpu.utilization for gpu in gpus], np.float32),
        memory_used=np.array([gpu.memory_used for gpu in gpus], np.float64),
        memory_total=np.array([gpu.memory_total for gpu in gpus], np.float64),
        power=np.array([gpu.power for gpu in gpus], np.float32),
        temperature=np.array([gpu.temperature for gpu in gpus], np.float32),
        faults=tuple(GpuFault(node, gpu.device, message) for gpu in gpus for message in gpu.faults),
    )
