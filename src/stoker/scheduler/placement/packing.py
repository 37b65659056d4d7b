"""Where a gang goes: all its replicas or none.

A gang is packed on as few nodes as possible, and what is left of it goes where it fits most tightly, so that whole
nodes stay free. Its GPUs are of one model where one has room for all of it. What needs no GPU looks first at nodes
that have none to give. Identical pods make this exact: a gang fits if and only if the nodes' slots add up.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set

from stoker.domain.resources import MILLI, Resources
from stoker.scheduler.nodes import Nodes, Section
from stoker.scheduler.room import Room, slots, whole_gpus

NOBODY: frozenset[str] = frozenset()


def pack(nodes: Nodes, sections: Sequence[Section], each: Resources, replicas: int) -> list[str] | None:
    """The node of each replica; None when they do not all fit."""
    rooms = nodes.rooms
    if 0 < each.gpu_milli < MILLI:
        return _share(rooms, sections, each, replicas)
    found = _tightest(sections, whole_gpus(each), each * replicas, NOBODY, replicas)
    if found is not None:
        return [found] * replicas
    if replicas == 1:
        return None
    if not each.gpu_milli:
        return _cpu_gang(rooms, sections, each, replicas)
    for others in (*nodes.others.values(), NOBODY):
        found = _gpu_gang(rooms, sections, each, replicas, others)
        if found is not None:
            return found
    return None


def count(nodes: Nodes, sections: Sequence[Section], each: Resources, most: int, beside: Set[str] = NOBODY) -> int:
    """How many such pods fit, but no more than asked; the nodes named in `beside` are left out."""
    found = 0
    for section in sections:
        for name in hopeful(section, each):
            if name not in beside:
                found += slots(nodes.rooms[name], each)
                if found >= most:
                    return most
    return found


def hopeful(section: Section, each: Resources) -> Iterator[str]:
    """The nodes that have the GPUs and CPUs for one such pod, each once."""
    share = 0 < each.gpu_milli < MILLI
    for shelf in section.shelves[1 if share else whole_gpus(each) :]:
        for at in range(bisect_left(shelf, (each.cpu_milli,)), len(shelf)):
            yield shelf[at][2]
    if share and section.shelves:
        sharing = {name for _, name in section.shares[bisect_left(section.shares, (each.gpu_milli,)) :]}
        yield from (name for cpu, _, name in section.shelves[0] if name in sharing and cpu >= each.cpu_milli)


def _tightest(sections: Sequence[Section], gpus: int, ask: Resources, used: Set[str], times: int = 1) -> str | None:
    """The fullest node that has room for all of this at once."""
    cpu, memory = ask.cpu_milli, ask.memory_bytes
    for section in sections:
        for shelf in section.shelves[gpus * times :]:
            for at in range(bisect_left(shelf, (cpu,)), len(shelf)):
                spot = shelf[at]
                if spot[1] >= memory and spot[2] not in used:
                    return spot[2]
    return None


def _gpu_gang(
    rooms: dict[str, Room], sections: Sequence[Section], each: Resources, replicas: int, beside: Set[str]
) -> list[str] | None:
    """Nodes that hold most replicas first, and among them those with fewest free GPUs; `beside` are left out."""
    gpus = whole_gpus(each)
    if _at_most(sections, gpus) < replicas:
        return None
    top = max(len(section.shelves) for section in sections) - 1
    chosen: list[str] = []
    used = set(beside)
    short: dict[int, list[str]] = {}  # nodes that hold fewer than their GPUs would, for lack of CPUs or memory
    for level in range(top // gpus, 0, -1):
        for name in _level(sections, gpus, level, short):
            if name in beside:
                continue
            held = slots(rooms[name], each)
            if held < level:
                short.setdefault(held, []).append(name)
                continue
            left = replicas - len(chosen)
            if left <= level:
                last = _tightest(sections, gpus, each * left, used, left)
                return [*chosen, *[last or name] * left]
            chosen += [name] * level
            used.add(name)
    return None


def _at_most(sections: Sequence[Section], gpus: int) -> int:
    return sum(len(shelf) * (free // gpus) for section in sections for free, shelf in enumerate(section.shelves))


def _level(sections: Sequence[Section], gpus: int, level: int, short: dict[int, list[str]]) -> Iterator[str]:
    for free in range(level * gpus, (level + 1) * gpus):
        for section in sections:
            if free < len(section.shelves):
                yield from (spot[2] for spot in section.shelves[free])
    yield from short.get(level, ())


def _cpu_gang(rooms: dict[str, Room], sections: Sequence[Section], each: Resources, replicas: int) -> list[str] | None:
    chosen: list[str] = []
    used: set[str] = set()
    for section in sections:
        for shelf in section.shelves:
            for cpu, _, name in reversed(shelf):
                if cpu < each.cpu_milli:
                    break
                held = slots(rooms[name], each)
                left = replicas - len(chosen)
                if left <= held:
                    last = _tightest(sections, 0, each * left, used)
                    return [*chosen, *[last or name] * left]
                chosen += [name] * held
                used.add(name)
    return None


def _share(rooms: dict[str, Room], sections: Sequence[Section], each: Resources, replicas: int) -> list[str] | None:
    """Parts of GPUs: devices that are shared already first, and each node that is begun is filled."""
    chosen: list[str] = []
    used: set[str] = set()
    while len(chosen) < replicas:
        name = _shared(rooms, sections, each, used)
        if name is None:
            return None
        chosen += [name] * min(slots(rooms[name], each), replicas - len(chosen))
        used.add(name)
    return chosen


def _shared(rooms: dict[str, Room], sections: Sequence[Section], each: Resources, used: Set[str]) -> str | None:
    for section in sections:
        for at in range(bisect_left(section.shares, (each.gpu_milli,)), len(section.shares)):
            name = section.shares[at][1]
            room = rooms[name]
            if name not in used and room.cpu >= each.cpu_milli and room.memory >= each.memory_bytes:
                return name
        if found := _tightest((section,), 1, each, used):
            return found
    return None
