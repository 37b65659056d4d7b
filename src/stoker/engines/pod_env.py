"""Builds the environment of a pod. Stoker sets ranks, rendezvous and visible GPUs; for all other variables the user
wins."""

from collections.abc import Sequence

from msgspec import Struct

from stoker.domain.cluster.gpu_identity import AMD_UUID, NVIDIA_UUID
from stoker.domain.cluster.node import Device
from stoker.domain.cluster.resources import MILLI
from stoker.domain.workload.model import Workload
from stoker.domain.workload.pod import Pod

VISIBLE_DEVICES_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
CUDA_ORDER_ENV = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""CUDA numbers devices as NVML does; its default order is by speed."""
RENDEZVOUS_VARIABLES = ("MASTER_PORT", "PET_MASTER_PORT")
RENDEZVOUS_PORTS = range(25_000, 30_000)
"""Rendezvous ports of attempts. Services never get one of these; the kernel's ephemeral ports and the node ports of
Kubernetes are above them.
"""
AMD_MODEL_PREFIX = "AMD"
"""How the model of every AMD device begins."""


class PodEnv(Struct, frozen=True):
    """`overridden` lists variables of the user that were replaced."""

    env: dict[str, str]
    overridden: tuple[str, ...] = ()


def build_pod_env(
    workload: Workload, pod: Pod, *, master_address: str, master_port: int, devices: Sequence[Device] = ()
) -> PodEnv:
    """The environment of a pod. `devices` are the GPUs at the indexes of the pod, as far as its node has them."""
    gpus = -(-workload.spec.resources.gpu_milli // MILLI)
    ours = (
        _rendezvous_env(workload, pod, master_address, master_port, gpus)
        | _visible_devices_env(pod.devices, gpus, devices)
        | CUDA_ORDER_ENV
    )
    facts = {
        "POD_NAME": pod.name,
        "WORKLOAD_ID": workload.slug,
        "WORKLOAD_KIND": str(workload.kind),
        "WORKSPACE": workload.namespace,
        "NODE_NAME": pod.node,
        "GPUS_PER_NODE": str(gpus),
    }
    if pod.port:
        facts["PORT"] = str(pod.port)
    reserved = {*ours, *VISIBLE_DEVICES_VARIABLES}
    wanted = workload.spec.env
    overridden = sorted(name for name in wanted if name in reserved and wanted[name] != ours.get(name))
    free = {name: value for name, value in wanted.items() if name not in reserved}
    return PodEnv(facts | free | ours, tuple(overridden))


def _rendezvous_env(workload: Workload, pod: Pod, address: str, port: int, gpus: int) -> dict[str, str]:
    """The rendezvous variables of torch's env:// and of torchrun (PET_). Replicas of a Deployment or a StatefulSet have
    no peers: each is a world of size 1."""
    pods, rank = (1, 0) if workload.uses_rolling_update else (workload.spec.replicas, pod.rank)
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(pods),
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "PET_NNODES": str(pods),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(port),
        "PET_NPROC_PER_NODE": str(max(gpus, 1)),
    }


def _visible_devices_env(indexes: tuple[int, ...], gpus: int, devices: Sequence[Device]) -> dict[str, str]:
    """The visible GPUs; empty where the engine chooses the devices. They are named by UUID where the runtime of their
    vendor takes it, because their indexes may change while the pod waits to start."""
    if gpus and not indexes:
        return {}
    numbers = ",".join(map(str, indexes))
    if not (devices and devices[0].model.startswith(AMD_MODEL_PREFIX)):
        named = _join_uuids(indexes, devices) if all(NVIDIA_UUID.fullmatch(device.uuid) for device in devices) else ""
        return dict.fromkeys(VISIBLE_DEVICES_VARIABLES, numbers) | {"CUDA_VISIBLE_DEVICES": named or numbers}
    named = _join_uuids(indexes, devices) if all(AMD_UUID.fullmatch(device.uuid) for device in devices) else ""
    # HIP numbers the devices that ROCR leaves visible
    counted = ",".join(map(str, range(len(indexes))))
    return {"ROCR_VISIBLE_DEVICES": named or numbers, "HIP_VISIBLE_DEVICES": counted, "CUDA_VISIBLE_DEVICES": counted}


def _join_uuids(indexes: tuple[int, ...], devices: Sequence[Device]) -> str:
    """The UUIDs of the devices at these indexes, in this order; empty if one is missing or does not exist."""
    uuids = {device.index: device.uuid for device in devices if not device.pretend}
    return ",".join(uuids[index] for index in indexes) if uuids.keys() >= set(indexes) else ""
