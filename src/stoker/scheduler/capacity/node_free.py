"""Free capacity of one node, and its allocation and release by pods.

A pod uses whole devices, or a fraction of exactly one. `allocate` and `release` are inverse.
"""

from bisect import insort

from msgspec import Struct

from stoker.domain.cluster.resources import MILLI, Resources
from stoker.scheduler.model import NodeInfo

UNKNOWN_DEVICE = -1
"""The device of a pod that shares none, or that shares an unknown one."""
UNLIMITED = 1 << 62


class NodeFree(Struct, frozen=True, gc=False):
    """`shared_devices` are (free milli-GPUs, device) of partly allocated devices, fullest device first."""

    whole_gpus: int
    cpu_milli: int
    memory_bytes: int
    shared_devices: tuple[tuple[int, int], ...] = ()


NOTHING_FREE = NodeFree(0, 0, 0)


def node_free_of(node: NodeInfo) -> NodeFree:
    """The free capacity of a node; an overcommitted node counts as full."""
    devices = node.shared_devices or range(-2, -2 - len(node.shared_free_milli), -1)
    shared = tuple(sorted(zip(node.shared_free_milli, devices, strict=True)))
    return NodeFree(max(0, node.free_whole_gpus), max(0, node.free_cpu_milli), max(0, node.free_memory_bytes), shared)


def whole_gpus_per_pod(pod_request: Resources) -> int:
    """Number of devices that one pod uses exclusively."""
    return -(-pod_request.gpu_milli // MILLI) if pod_request.gpu_milli >= MILLI else 0


def fit_count(node_free: NodeFree, pod_request: Resources) -> int:
    """Number of such pods that fit."""
    gpu, fits = pod_request.gpu_milli, UNLIMITED
    if gpu >= MILLI:
        fits = node_free.whole_gpus // -(-gpu // MILLI)
    elif gpu:
        fits = node_free.whole_gpus * (MILLI // gpu)
        for free, _ in node_free.shared_devices:
            fits += free // gpu
    if pod_request.cpu_milli:
        fits = min(fits, node_free.cpu_milli // pod_request.cpu_milli)
    if pod_request.memory_bytes:
        fits = min(fits, node_free.memory_bytes // pod_request.memory_bytes)
    return fits


def choose_shared_device(node_free: NodeFree, pod_request: Resources, fresh: int) -> int:
    """The device for one more pod with a fraction: the fullest with enough free, else a free one with id `fresh`."""
    if not 0 < pod_request.gpu_milli < MILLI:
        return UNKNOWN_DEVICE
    return next((device for free, device in node_free.shared_devices if free >= pod_request.gpu_milli), fresh)


def allocate(node_free: NodeFree, pod_request: Resources, device: int) -> NodeFree:
    """The free capacity after one more pod was placed."""
    whole_gpus, shared = node_free.whole_gpus - whole_gpus_per_pod(pod_request), node_free.shared_devices
    if 0 < pod_request.gpu_milli < MILLI and device != UNKNOWN_DEVICE:
        free = _free_milli_on(shared, device)
        whole_gpus -= free is None
        shared = _with_free_milli(shared, device, (MILLI if free is None else free) - pod_request.gpu_milli)
    return NodeFree(
        whole_gpus,
        node_free.cpu_milli - pod_request.cpu_milli,
        node_free.memory_bytes - pod_request.memory_bytes,
        shared,
    )


def release(node_free: NodeFree, pod_request: Resources, device: int) -> NodeFree:
    """The free capacity after a pod has terminated. A device that is not among the shared ones was full."""
    whole_gpus, shared = node_free.whole_gpus + whole_gpus_per_pod(pod_request), node_free.shared_devices
    if 0 < pod_request.gpu_milli < MILLI and device != UNKNOWN_DEVICE:
        free = (_free_milli_on(shared, device) or 0) + pod_request.gpu_milli
        whole_gpus += free >= MILLI
        shared = _with_free_milli(shared, device, free)
    return NodeFree(
        whole_gpus,
        node_free.cpu_milli + pod_request.cpu_milli,
        node_free.memory_bytes + pod_request.memory_bytes,
        shared,
    )


def intersect(idle: NodeFree, future_idle: NodeFree) -> NodeFree:
    """The part of `idle` that can be allocated now without exceeding `future_idle` later."""
    free_by_device = {device: free for free, device in future_idle.shared_devices}
    whole_gpus = min(idle.whole_gpus, future_idle.whole_gpus)
    spare = future_idle.whole_gpus - whole_gpus
    shared: list[tuple[int, int]] = []
    for free, device in idle.shared_devices:
        if device in free_by_device:
            insort(shared, (min(free, free_by_device[device]), device))
        elif spare > 0:  # the device will be entirely free, and no reservation needs all of it
            spare -= 1
            insort(shared, (free, device))
    return NodeFree(
        whole_gpus,
        min(idle.cpu_milli, future_idle.cpu_milli),
        min(idle.memory_bytes, future_idle.memory_bytes),
        tuple(shared),
    )


def _free_milli_on(shared: tuple[tuple[int, int], ...], device: int) -> int | None:
    for free, index in shared:
        if index == device:
            return free
    return None


def _with_free_milli(shared: tuple[tuple[int, int], ...], device: int, free: int) -> tuple[tuple[int, int], ...]:
    others = [share for share in shared if share[1] != device]
    if 0 <= free < MILLI:
        insort(others, (free, device))
    return tuple(others)
