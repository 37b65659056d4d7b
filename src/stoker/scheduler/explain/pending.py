"""What exactly is missing where a workload finds no room."""

from stoker.domain.resources import MILLI, Resources
from stoker.scheduler.desk import Desk
from stoker.scheduler.fit import count, hopeful
from stoker.scheduler.nodes import Nodes, Section
from stoker.scheduler.reasons import NodeTaken, NodeUnusable, NoRoom, Resource
from stoker.scheduler.room import Room
from stoker.scheduler.snapshot import Waiting


def short_on_named(desk: Desk, waiting: Waiting) -> NodeUnusable | NodeTaken:
    """The first of the nodes it names that does not take it."""
    names = desk.named(waiting)
    for name in names:
        home = desk.now.homes.get(name)
        if home is None or not (home[1] or waiting.tolerate_all):
            return NodeUnusable(name, home is not None)
    taken = [(name, desk.now.rooms[name]) for name in names if _missing(desk.now.rooms[name], waiting.each)]
    name, room = taken[0]
    resource = _missing(room, waiting.each)[0]
    return NodeTaken(name, resource, resource.of(waiting.each), free(room, resource, waiting.each))


def short_in_pools(nodes: Nodes, waiting: Waiting) -> NoRoom:
    """The first resource of which no node of its pools has enough, or how much of the gang fits."""
    each, replicas = waiting.each, waiting.replicas
    pools = [nodes.of_pool(pool, waiting.tolerate_all) for pool in waiting.pools]
    sections = [section for pool in pools for section in pool]
    number = sum(len(shelf) for section in sections for shelf in section.shelves)
    best = max((_best_gpus(section, each) for section in sections), default=0)
    if best < each.gpu_milli:
        return NoRoom(Resource.GPU, each.gpu_milli, replicas, 0, best, number)
    only_gpus = Resources(each.gpu_milli)
    rooms = [nodes.rooms[name] for section in sections for name in hopeful(section, only_gpus)]
    beside = (Resource.GPU,) if each.gpu_milli else ()
    for resource in (Resource.CPU, Resource.MEMORY):
        asked = resource.of(each)
        enough = [room for room in rooms if free(room, resource, each) >= asked]
        if asked and not enough:
            best = max((free(room, resource, each) for room in rooms), default=0)
            return NoRoom(resource, asked, replicas, 0, best, len(rooms), beside)
        rooms, beside = enough, (*beside, resource) if asked else beside
    fitting = max((count(nodes, pool, each, replicas) for pool in pools), default=0)
    first = next((resource for resource in Resource if resource.of(each)), Resource.GPU)
    return NoRoom(first, first.of(each), replicas, fitting, best, number)


def free(room: Room, resource: Resource, each: Resources) -> int:
    """What one pod could have of a resource on a node."""
    match resource:
        case Resource.GPU if 0 < each.gpu_milli < MILLI:
            return MILLI if room.whole else max((part for part, _ in room.shares), default=0)
        case Resource.GPU:
            return room.whole * MILLI
        case Resource.CPU:
            return room.cpu
        case Resource.MEMORY:
            return room.memory


def _missing(room: Room, each: Resources) -> list[Resource]:
    return [resource for resource in Resource if free(room, resource, each) < resource.of(each)]


def _best_gpus(section: Section, each: Resources) -> int:
    whole = max((number for number, shelf in enumerate(section.shelves) if shelf), default=0)
    if 0 < each.gpu_milli < MILLI and not whole:
        return section.shares[-1][0] if section.shares else 0
    return whole * MILLI
