"""The identity of a GPU: its UUID. Its node and its index on that node are where it is now; both may change.

A GPU without a UUID is identified by node and index.
"""

import re
from typing import NamedTuple

NVIDIA_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""The UUIDs that CUDA_VISIBLE_DEVICES takes."""
AMD_UUID = re.compile(r"GPU-[0-9a-f]{16}", re.IGNORECASE)
"""The UUIDs that ROCR_VISIBLE_DEVICES takes."""
_HEX_DIGIT = re.compile(r"[0-9a-f]", re.IGNORECASE)
_AMD_SMI_UUID = re.compile(r"([0-9a-f]{2})ff[0-9a-f]{4}-0000-1000-80([0-9a-f]{2})-([0-9a-f]{12})", re.IGNORECASE)


class GpuId(NamedTuple):
    """A GPU with the place where it is, or was. The UUID is empty if it has none."""

    node: str
    device: int
    uuid: str = ""

    @property
    def key(self) -> str:
        return gpu_key(self.node, self.device, self.uuid)


def gpu_key(node: str, device: int | None, uuid: str) -> str:
    """What identifies a GPU within a cluster: its UUID, else node and index."""
    return uuid or f"{node}/{device}"


def is_other_gpu(uuid: str, other: str) -> bool:
    """Whether two UUIDs are certainly of different GPUs: they differ, and both are written in the same notation."""
    return bool(uuid and other) and uuid != other and _notation(uuid) == _notation(other)


def uuid_of_amd(unique_id: int) -> str:
    """The UUID that ROCr gives to an AMD GPU with this unique id; empty for 0, which means that it has none."""
    return f"GPU-{unique_id:016x}" if unique_id else ""


def normalize_uuid(uuid: str) -> str:
    """The UUID as ROCr or NVML writes it. amdsmi and AMD's exporter put the bytes of the unique id into an RFC 4122
    UUID, together with the PCI device id."""
    found = _AMD_SMI_UUID.fullmatch(uuid)
    return f"GPU-{''.join(found.groups()).lower()}" if found else uuid


def _notation(uuid: str) -> str:
    return _HEX_DIGIT.sub("0", uuid)
