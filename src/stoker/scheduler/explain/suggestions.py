"""Changes to a waiting workload that could start it, from the smallest to the largest.

What leaves the request as it is comes first; what cuts it comes after, by how much it cuts.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, structs

from stoker.domain.quantity import GIB
from stoker.domain.resources import MILLI, Resources
from stoker.scheduler.accounts import Account
from stoker.scheduler.fit import count, pack
from stoker.scheduler.nodes import Nodes
from stoker.scheduler.reasons import Resource
from stoker.scheduler.room import slots
from stoker.scheduler.snapshot import Waiting


class AnyNode(Struct, frozen=True, tag_field="edit", tag="any_node"):
    def on(self, waiting: Waiting) -> Waiting:
        return structs.replace(waiting, specified_nodes=())

    def sentence(self) -> str:
        return "Name no nodes."


class OtherPool(Struct, frozen=True, tag_field="edit", tag="other_pool"):
    pool: str

    def on(self, waiting: Waiting) -> Waiting:
        return structs.replace(waiting, pools=(self.pool,))

    def sentence(self) -> str:
        return f"Use node pool {self.pool}."


class MakePreemptible(Struct, frozen=True, tag_field="edit", tag="make_preemptible"):
    """Borrow idle room beyond the quota, until its owner wants it back."""

    def on(self, waiting: Waiting) -> Waiting:
        return structs.replace(waiting, preemptible=True)

    def sentence(self) -> str:
        return "Make it preemptible, so that it may borrow idle room beyond the quota."


class RaisePriority(Struct, frozen=True, tag_field="edit", tag="raise_priority"):
    priority: int

    def on(self, waiting: Waiting) -> Waiting:
        return structs.replace(waiting, priority=self.priority)

    def sentence(self) -> str:
        return f"Raise its priority to {self.priority}."


class FewerReplicas(Struct, frozen=True, tag_field="edit", tag="fewer_replicas"):
    replicas: int

    def on(self, waiting: Waiting) -> Waiting:
        return structs.replace(waiting, replicas=self.replicas)

    def sentence(self) -> str:
        return f"Ask for {self.replicas} {'replicas' if self.replicas > 1 else 'replica'}."


class AskLess(Struct, frozen=True, tag_field="edit", tag="ask_less"):
    """Ask for less of one resource for each replica."""

    resource: Resource
    each: int

    def on(self, waiting: Waiting) -> Waiting:
        return structs.replace(waiting, each=with_amount(waiting.each, self.resource, self.each))

    def sentence(self) -> str:
        return f"Ask for {self.resource.shown(self.each)} per replica."


Edit = AnyNode | OtherPool | MakePreemptible | RaisePriority | FewerReplicas | AskLess


def size(edit: Edit, waiting: Waiting) -> tuple[float, int, str]:
    """How large a change it is: below 1 if all that was asked for stays, else 1 and the part that is cut."""
    match edit:
        case AnyNode():
            return 0.1, 0, ""
        case OtherPool(pool):
            return 0.2, 0, pool
        case MakePreemptible():
            return 0.3, 0, ""
        case RaisePriority(priority):
            return 0.4, priority, ""
        case FewerReplicas(replicas):
            return 2 - replicas / waiting.replicas, 0, ""
        case AskLess(resource, each):
            return 2 - each / resource.of(waiting.each), 1, resource


def kept_whole(waiting: Waiting, pools: Iterable[str]) -> Iterator[Edit]:
    """Ways to ask for the same elsewhere, or on other terms."""
    if waiting.specified_nodes:
        yield AnyNode()
    else:
        yield from (OtherPool(pool) for pool in pools if pool not in waiting.pools)
    if not waiting.preemptible:
        yield MakePreemptible()


def with_amount(each: Resources, resource: Resource, amount: int) -> Resources:
    match resource:
        case Resource.GPU:
            return structs.replace(each, gpu_milli=amount)
        case Resource.CPU:
            return structs.replace(each, cpu_milli=amount)
        case Resource.MEMORY:
            return structs.replace(each, memory_bytes=amount)


def cuts(waiting: Waiting, nodes: Nodes, account: Account) -> Iterator[Edit]:
    """The smallest cut of each kind that fits in this room and this quota."""

    def fits(edited: Waiting) -> bool:
        inside = edited.preemptible or account.within(edited.each * edited.replicas)
        return inside and has_room(edited, nodes)

    if not waiting.specified_nodes:
        most = _most(waiting.replicas - 1, lambda number: fits(structs.replace(waiting, replicas=number)))
        if most:
            yield FewerReplicas(most)
    for resource, unit in ((Resource.GPU, MILLI), (Resource.CPU, MILLI), (Resource.MEMORY, GIB)):
        asked = resource.of(waiting.each)

        def less(units: int, resource: Resource = resource, unit: int = unit) -> Waiting:
            return structs.replace(waiting, each=with_amount(waiting.each, resource, units * unit))

        most = _most((asked - 1) // unit, lambda units, less=less: fits(less(units)))
        if most:
            yield AskLess(resource, most * unit)


def has_room(waiting: Waiting, nodes: Nodes) -> bool:
    if waiting.specified_nodes:
        return all(_takes(waiting, nodes, name) for name in waiting.specified_nodes)
    for pool in waiting.pools:
        sections = nodes.of_pool(pool, waiting.tolerate_all)
        if waiting.replicas == 1:
            if pack(nodes, sections, waiting.each, 1) is not None:
                return True
        elif count(nodes, sections, waiting.each, waiting.replicas) >= waiting.replicas:
            return True
    return False


def _takes(waiting: Waiting, nodes: Nodes, name: str) -> bool:
    home = nodes.homes.get(name)
    return home is not None and (home[1] or waiting.tolerate_all) and slots(nodes.rooms[name], waiting.each) > 0


def _most(top: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `top` that fits, or 0; what fits fits with less."""
    low, high = 0, top
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
