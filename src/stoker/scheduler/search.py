"""Where a workload fits, in the room there is now or in the room there will be."""

from collections.abc import Sequence

from stoker.scheduler.desk import Desk, When
from stoker.scheduler.fit import pack
from stoker.scheduler.line import Shape
from stoker.scheduler.nodes import Nodes
from stoker.scheduler.room import slots
from stoker.scheduler.snapshot import Waiting


def search(desk: Desk, when: When, waiting: Waiting, shape: Shape) -> Sequence[str] | None:
    """The node of each replica: the nodes it names, or nodes of the first of its pools that takes it whole."""
    nodes = desk.room(when)
    if shape.specified_nodes:
        names = desk.named(waiting)
        return names if all(_takes(nodes, shape, name) for name in names) else None
    where = (shape.pools, shape.tolerate_all)
    if desk.refusals.cover(when, where, shape.ask):
        return None
    for pool in shape.pools:
        found = pack(nodes, nodes.of_pool(pool, shape.tolerate_all), shape.each, shape.replicas)
        if found is not None:
            return sorted(found)
    desk.refusals.add(when, where, shape.ask)
    return None


def _takes(nodes: Nodes, shape: Shape, name: str) -> bool:
    home = nodes.homes.get(name)
    if home is None or not (home[1] or shape.tolerate_all):
        return False
    return slots(nodes.rooms[name], shape.each) >= 1
