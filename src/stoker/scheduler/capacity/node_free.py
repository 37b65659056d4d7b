"""What is free on one node, and how pods take it and give it back.

A pod takes whole devices, or a part of exactly one. `take_on` undoes `give` and the other way round.
"""

from bisect import insort

from msgspec import Struct

from stoker.domain.resources import MILLI, Resources
from stoker.scheduler.snapshot import NodeRoom

UNKNOWN = -1
"""The device of a pod that shares one, when nobody said which; also of a pod that shares none."""
BOUNDLESS = 1 << 62


class Room(Struct, frozen=True, gc=False):
    """`shares` are (free milli-GPUs, device) of the partly taken devices, fullest device first."""

    whole: int
    cpu: int
    memory: int
    shares: tuple[tuple[int, int], ...] = ()


FULL = Room(0, 0, 0)


def room_of(node: NodeRoom) -> Room:
    """A node that holds more than it has counts as full."""
    devices = node.shared_on or range(-2, -2 - len(node.shared_gpus), -1)
    shares = tuple(sorted(zip(node.shared_gpus, devices, strict=True)))
    return Room(max(0, node.whole_gpus), max(0, node.cpu_milli), max(0, node.memory_bytes), shares)


def whole_gpus(each: Resources) -> int:
    """Devices that one pod has for itself."""
    return -(-each.gpu_milli // MILLI) if each.gpu_milli >= MILLI else 0


def slots(room: Room, each: Resources) -> int:
    """How many such pods fit."""
    gpu, found = each.gpu_milli, BOUNDLESS
    if gpu >= MILLI:
        found = room.whole // -(-gpu // MILLI)
    elif gpu:
        found = room.whole * (MILLI // gpu)
        for free, _ in room.shares:
            found += free // gpu
    if each.cpu_milli:
        found = min(found, room.cpu // each.cpu_milli)
    if each.memory_bytes:
        found = min(found, room.memory // each.memory_bytes)
    return found


def device_for(room: Room, each: Resources, fresh: int) -> int:
    """The device that one more pod will share: the fullest that has enough, else a free one, to be called `fresh`."""
    if not 0 < each.gpu_milli < MILLI:
        return UNKNOWN
    return next((device for free, device in room.shares if free >= each.gpu_milli), fresh)


def take_on(room: Room, each: Resources, device: int) -> Room:
    """The room without one more pod that shares this device."""
    whole, shares = room.whole - whole_gpus(each), room.shares
    if 0 < each.gpu_milli < MILLI and device != UNKNOWN:
        free = _free_on(shares, device)
        whole -= free is None
        shares = _with_free(shares, device, (MILLI if free is None else free) - each.gpu_milli)
    return Room(whole, room.cpu - each.cpu_milli, room.memory - each.memory_bytes, shares)


def give(room: Room, each: Resources, device: int) -> Room:
    """The room once a pod has left. A device that is not among the shared ones was full."""
    whole, shares = room.whole + whole_gpus(each), room.shares
    if 0 < each.gpu_milli < MILLI and device != UNKNOWN:
        free = (_free_on(shares, device) or 0) + each.gpu_milli
        whole += free >= MILLI
        shares = _with_free(shares, device, free)
    return Room(whole, room.cpu + each.cpu_milli, room.memory + each.memory_bytes, shares)


def both(now: Room, later: Room) -> Room:
    """What may be taken now of a node of which no more than `later` may be gone later."""
    lent = {device: free for free, device in later.shares}
    whole = min(now.whole, later.whole)
    spare = later.whole - whole
    shares: list[tuple[int, int]] = []
    for free, device in now.shares:
        if device in lent:
            insort(shares, (min(free, lent[device]), device))
        elif spare > 0:  # the device will be wholly free, and nobody was promised all of it
            spare -= 1
            insort(shares, (free, device))
    return Room(whole, min(now.cpu, later.cpu), min(now.memory, later.memory), tuple(shares))


def _free_on(shares: tuple[tuple[int, int], ...], device: int) -> int | None:
    for free, index in shares:
        if index == device:
            return free
    return None


def _with_free(shares: tuple[tuple[int, int], ...], device: int, free: int) -> tuple[tuple[int, int], ...]:
    others = [share for share in shares if share[1] != device]
    if 0 <= free < MILLI:
        insort(others, (free, device))
    return tuple(others)
