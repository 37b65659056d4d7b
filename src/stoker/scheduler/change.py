"""What is different between two snapshots of a cluster."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec import Struct

from stoker.scheduler.snapshot import NodeRoom, Placed, Queue, Snapshot, Waiting

Item = TypeVar("Item")
Id = TypeVar("Id")


class Change(Struct, frozen=True, kw_only=True):
    """What is new or no longer as it was, and what is gone. A workload that ends also changes the room of its nodes."""

    now: int
    waiting: tuple[Waiting, ...] = ()
    not_waiting: tuple[str, ...] = ()
    placed: tuple[Placed, ...] = ()
    not_placed: tuple[str, ...] = ()
    nodes: tuple[NodeRoom, ...] = ()
    lost_nodes: tuple[str, ...] = ()
    queues: tuple[Queue, ...] = ()
    lost_queues: tuple[int, ...] = ()


def difference(before: Snapshot, after: Snapshot) -> Change:
    """The change that leads from one snapshot to the other."""
    waiting, not_waiting = _differing(before.waiting, after.waiting, lambda each: each.uid)
    placed, not_placed = _differing(before.placed, after.placed, lambda each: each.uid)
    nodes, lost_nodes = _differing(before.nodes, after.nodes, lambda each: each.name)
    queues, lost_queues = _differing(before.queues, after.queues, lambda each: each.workspace_id)
    return Change(
        now=after.now,
        waiting=waiting,
        not_waiting=not_waiting,
        placed=placed,
        not_placed=not_placed,
        nodes=nodes,
        lost_nodes=lost_nodes,
        queues=queues,
        lost_queues=lost_queues,
    )


def _differing(
    before: Iterable[Item], after: Iterable[Item], id_of: Callable[[Item], Id]
) -> tuple[tuple[Item, ...], tuple[Id, ...]]:
    had = {id_of(item): item for item in before}
    has = {id_of(item): item for item in after}
    changed = tuple(item for key, item in has.items() if (old := had.get(key)) is not item and old != item)
    return changed, tuple(key for key in had if key not in has)
