"""Chooses the GPUs of pods.

The planner decides on nodes. The device indexes of a pod are decided here, once, and engines use what they are given.
"""

from collections.abc import Mapping, Sequence

from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.placement import free_milli_by_device
from stoker.scheduler.cache import ClusterCache


class DeviceAllocator:
    """The free GPUs of nodes while the placements of one plan are dispatched: an allocated GPU is not free for the
    next placement."""

    def __init__(self, cache: ClusterCache) -> None:
        self.nodes = cache.nodes
        self._cache = cache
        self._free: dict[str, dict[int, int]] = {}

    def allocate(self, node_names: Sequence[str], pod_request: Resources) -> list[tuple[int, ...]] | None:
        """Devices for one pod on each of these nodes. None, with nothing allocated, if one of them has too few."""
        allocated: list[tuple[int, ...]] = []
        for name in node_names:
            devices = self._allocate_on(name, pod_request)
            if devices is None:
                for earlier_name, earlier_devices in zip(node_names, allocated, strict=False):
                    self._adjust_free(earlier_name, earlier_devices, pod_request, 1)
                return None
            allocated.append(devices)
        return allocated

    def _allocate_on(self, name: str, pod_request: Resources) -> tuple[int, ...] | None:
        node = self.nodes.get(name)
        if node is None:
            return None
        if name not in self._free:
            self._free[name] = free_milli_by_device(node, self._cache.pods_on_node(name))
        devices = choose_devices(self._free[name], pod_request)
        if devices is not None:
            self._adjust_free(name, devices, pod_request, -1)
        return devices

    def _adjust_free(self, name: str, devices: Sequence[int], pod_request: Resources, sign: int) -> None:
        for index in devices:
            self._free[name][index] += sign * min(pod_request.gpu_milli, MILLI)


def choose_devices(free: Mapping[int, int], pod_request: Resources) -> tuple[int, ...] | None:
    """Devices for one pod from the free milli-GPUs by device; None if there are too few. A fraction of a GPU goes to
    the device with the least free capacity that fits it; whole GPUs are the free ones with the lowest indexes."""
    if not pod_request.gpu_milli:
        return ()
    if pod_request.gpu_milli < MILLI:
        fitting = sorted((milli, index) for index, milli in free.items() if milli >= pod_request.gpu_milli)
        return (fitting[0][1],) if fitting else None
    whole = sorted(index for index, milli in free.items() if milli == MILLI)
    count = pod_request.gpu_milli // MILLI
    return tuple(whole[:count]) if len(whole) >= count else None
