"""Samples of the GPUs of one machine, one struct each; a missing value is NaN."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from stoker.domain.cluster.samples import GpuFault, GpuSamples, encode_uuids


class GpuSample(Struct, frozen=True):
    device: int
    utilization: float = math.nan
    memory_used: float = math.nan
    memory_total: float = 0.0
    power: float = math.nan
    temperature: float = math.nan
    faults: tuple[str, ...] = ()
    uuid: str = ""


def build_node_samples(at: int, node: str, gpus: Sequence[GpuSample]) -> GpuSamples:
    """The samples of one node."""
    return GpuSamples(
        at=at,
        nodes=(node,),
        node=np.zeros(len(gpus), np.int32),
        device=np.array([gpu.device for gpu in gpus], np.int16),
        utilization=np.array([gpu.utilization for gpu in gpus], np.float32),
        memory_used=np.array([gpu.memory_used for gpu in gpus], np.float64),
        memory_total=np.array([gpu.memory_total for gpu in gpus], np.float64),
        power=np.array([gpu.power for gpu in gpus], np.float32),
        temperature=np.array([gpu.temperature for gpu in gpus], np.float32),
        faults=tuple(GpuFault(node, gpu.device, message, gpu.uuid) for gpu in gpus for message in gpu.faults),
        uuid=encode_uuids(gpu.uuid for gpu in gpus) if any(gpu.uuid for gpu in gpus) else None,
    )
