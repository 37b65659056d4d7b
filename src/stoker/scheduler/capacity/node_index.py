"""The nodes of a cluster, kept so that the fullest one with enough room is found without looking at all.

Each pool keeps its usable nodes apart from the others. On a shelf stand the nodes with the same number of wholly
free GPUs, by free CPUs, memory and name; beside the shelves lies a list of the devices that are partly taken.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from stoker.scheduler.room import FULL, Room, room_of
from stoker.scheduler.snapshot import NodeRoom

Spot = tuple[int, int, str]
"""A node on a shelf: free CPUs, free memory, name."""
Home = tuple[str, bool]
"""Where a node stands: its pool, and whether it is usable."""


class Section:
    """The nodes of one home."""

    __slots__ = ("shares", "shelves")

    def __init__(self, shelves: list[list[Spot]] | None = None, shares: list[tuple[int, str]] | None = None) -> None:
        self.shelves = shelves or []
        self.shares = shares or []

    def copy(self) -> "Section":
        return Section([shelf.copy() for shelf in self.shelves], self.shares.copy())

    def put(self, name: str, room: Room) -> None:
        while len(self.shelves) <= room.whole:
            self.shelves.append([])
        insort(self.shelves[room.whole], (room.cpu, room.memory, name))
        for free, _ in room.shares:
            insort(self.shares, (free, name))

    def drop(self, name: str, room: Room) -> None:
        shelf = self.shelves[room.whole]
        del shelf[bisect_left(shelf, (room.cpu, room.memory, name))]
        for free, _ in room.shares:
            del self.shares[bisect_left(self.shares, (free, name))]


class Nodes:
    """The free room of every node. `homes`, `models` and `others` are never changed in place, so copies share them."""

    __slots__ = ("homes", "models", "others", "rooms", "sections")

    def __init__(self, rooms: dict[str, Room], homes: dict[str, Home], sections: dict[Home, Section]) -> None:
        self.rooms = rooms
        self.homes = homes
        self.sections = sections
        self.models: dict[str, str] = {}
        self.others: dict[str, frozenset[str]] = {}
        """Where there are GPUs of several models: for each of these the nodes that have another."""

    def copy(self) -> "Nodes":
        sections = {home: section.copy() for home, section in self.sections.items()}
        copied = Nodes(self.rooms.copy(), self.homes, sections)
        copied.models, copied.others = self.models, self.others
        return copied

    def of_pool(self, pool: str, tolerate_all: bool) -> tuple[Section, ...]:
        """Where a workload may look in a pool, the usable nodes first."""
        homes: Sequence[Home] = ((pool, True), (pool, False)) if tolerate_all else ((pool, True),)
        return tuple(self.sections[home] for home in homes if home in self.sections)

    def allows(self, name: str, pool: str, tolerate_all: bool) -> bool:
        home = self.homes.get(name)
        return home is not None and home[0] == pool and (home[1] or tolerate_all)

    def set_room(self, name: str, room: Room) -> None:
        section = self.sections[self.homes[name]]
        section.drop(name, self.rooms[name])
        section.put(name, room)
        self.rooms[name] = room

    def change(self, changed: Iterable[NodeRoom], lost: Iterable[str]) -> None:
        """Take in nodes that are new, that changed, or that are gone."""
        self.homes = self.homes.copy()
        models: dict[str, str] = {}
        for name in lost:
            self.stand(name, None)
            models[name] = ""
        for node in changed:
            self.stand(node.name, (node.pool, node.usable), room_of(node))
            models[node.name] = node.model
        if any(self.models.get(name, "") != model for name, model in models.items()):
            self._part({name: model for name, model in {**self.models, **models}.items() if model})

    def _part(self, models: dict[str, str]) -> None:
        self.models = models
        known = set(models.values())
        self.others = {
            each: frozenset(name for name, model in models.items() if model != each)
            for each in (sorted(known) if len(known) > 1 else ())
        }

    def stand(self, name: str, home: Home | None, room: Room = FULL) -> None:
        """Put a node where it belongs, or nowhere."""
        before = self.homes.pop(name, None)
        if before is not None:
            self.sections[before].drop(name, self.rooms.pop(name))
        if home is not None:
            self.homes[name] = home
            self.rooms[name] = room
            self.sections.setdefault(home, Section()).put(name, room)
