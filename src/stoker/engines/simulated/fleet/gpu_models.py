"""The GPU models of the simulated fleet, with published figures."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.quantity import GIB


class GpuModel(Struct, frozen=True):
    """`rise` is the temperature above ambient at full power, in degrees; `tflops` are dense BF16."""

    name: str
    memory_bytes: int
    idle_watts: float
    tdp_watts: float
    rise: float
    tflops: float

    @property
    def is_amd(self) -> bool:
        return self.name.startswith("AMD")


MI300X = GpuModel("AMD Instinct MI300X OAM", 192 * GIB, 138.0, 750.0, 52.0, 1307.0)
H100 = GpuModel("NVIDIA H100 80GB HBM3", 80 * GIB, 71.0, 700.0, 44.0, 989.0)
A100 = GpuModel("NVIDIA A100-SXM4-80GB", 80 * GIB, 56.0, 400.0, 36.0, 312.0)
MODELS = (MI300X, H100, A100)
MODELS_BY_NAME = {model.name: model for model in MODELS}


class ModelColumns(Struct, frozen=True):
    """The figures of many GPUs as arrays."""

    memory_bytes: NDArray[np.float64]
    idle_watts: NDArray[np.float32]
    tdp_watts: NDArray[np.float32]
    rise: NDArray[np.float32]


def model_columns(models: NDArray[np.int8]) -> ModelColumns:
    """`models` holds indexes into MODELS."""

    def figures(name: str) -> NDArray[np.float64]:
        return np.array([getattr(model, name) for model in MODELS], np.float64)[models]

    return ModelColumns(
        figures("memory_bytes"),
        figures("idle_watts").astype(np.float32),
        figures("tdp_watts").astype(np.float32),
        figures("rise").astype(np.float32),
    )
