"""Amounts of GPU, CPU and memory: whole numbers of milli-GPUs, milli-CPUs and bytes."""

from msgspec import Struct

MILLI = 1000


class Resources(Struct, frozen=True):
    gpu_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            self.gpu_milli + other.gpu_milli, self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            self.gpu_milli - other.gpu_milli, self.cpu_milli - other.cpu_milli, self.memory_bytes - other.memory_bytes
        )

    def __mul__(self, times: int) -> "Resources":
        return Resources(self.gpu_milli * times, self.cpu_milli * times, self.memory_bytes * times)

    def fits_in(self, capacity: "Resources") -> bool:
        """Whether no amount exceeds the capacity."""
        return (
            self.gpu_milli <= capacity.gpu_milli
            and self.cpu_milli <= capacity.cpu_milli
            and self.memory_bytes <= capacity.memory_bytes
        )


NO_RESOURCES = Resources()
