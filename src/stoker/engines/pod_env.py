"""The variables of a pod. Ranks, the meeting point and the GPUs are Stoker's to say; in all others the user wins."""

from msgspec import Struct

from stoker.domain.resources import MILLI
from stoker.domain.workload import Pod, Workload

VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
AMD = "AMD"
"""How the model of every AMD device begins."""


class PodEnv(Struct, frozen=True):
    """`overridden`: variables of the user that did not get their value."""

    env: dict[str, str]
    overridden: tuple[str, ...] = ()


def pod_env(workload: Workload, pod: Pod, *, master_address: str, master_port: int, gpu_model: str = "") -> PodEnv:
    """What a pod is told about itself and its peers. `gpu_model` is that of the devices it was given."""
    gpus = -(-workload.spec.resources.gpu_milli // MILLI)
    ours = _ranks(workload, pod, master_address, master_port, gpus) | _visible(pod.devices, gpus, gpu_model)
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
    reserved = {*ours, *VISIBLE_DEVICES}
    wanted = workload.spec.env
    overridden = sorted(name for name in wanted if name in reserved and wanted[name] != ours.get(name))
    free = {name: value for name, value in wanted.items() if name not in reserved}
    return PodEnv(facts | free | ours, tuple(overridden))


def _ranks(workload: Workload, pod: Pod, address: str, port: int, gpus: int) -> dict[str, str]:
    """Where this pod stands among its peers, as torch's env:// and torchrun (PET_) read it. Replicas of a
    Deployment or a StatefulSet have no peers: each is a world of its own."""
    pods, rank = (1, 0) if workload.kind.rolls else (workload.spec.replicas, pod.rank)
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


def _visible(devices: tuple[int, ...], gpus: int, model: str) -> dict[str, str]:
    """Which GPUs the pod may use; nothing is said where the engine gives them out by itself."""
    if gpus and not devices:
        return {}
    numbers = ",".join(map(str, devices))
    if not model.startswith(AMD):
        return dict.fromkeys(VISIBLE_DEVICES, numbers)
    # HIP counts among the devices that ROCR has left
    counted = ",".join(map(str, range(len(devices))))
    return {"ROCR_VISIBLE_DEVICES": numbers, "HIP_VISIBLE_DEVICES": counted, "CUDA_VISIBLE_DEVICES": counted}
