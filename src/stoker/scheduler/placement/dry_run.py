"""How far a gang is from having room in one pool, or on the nodes it names, while others are thought away."""

from collections.abc import Sequence

from stoker.scheduler.desk import Desk
from stoker.scheduler.fit import count, hopeful
from stoker.scheduler.holders import pods_of
from stoker.scheduler.line import Shape
from stoker.scheduler.room import Room, give, slots, take_on
from stoker.scheduler.snapshot import Placed


class Need:
    """Counts the replicas that would find room. Exact, as identical pods fill slots.

    With `anywhere`, others are thought away even where not all of them could be made to leave.
    """

    def __init__(self, desk: Desk, shape: Shape, pool: str, named: Sequence[str], anywhere: bool = False) -> None:
        self.desk = desk
        self.shape = shape
        self.pool = pool
        self.named = named
        self.anywhere = anywhere
        self._rooms: dict[str, Room] = {}
        self._useful: dict[str, bool] = {}
        if named:
            self.found = sum(self._held(desk.later.rooms[name]) for name in named if self._allows(name))
        else:
            sections = desk.later.of_pool(pool, shape.tolerate_all)
            self.found = count(desk.later, sections, shape.each, shape.replicas)

    @property
    def met(self) -> bool:
        return self.found >= self.shape.replicas

    def without(self, placed: Placed) -> bool:
        """Think a workload away; whether that could be of any use."""
        useful = False
        for name, device, size in pods_of(placed):
            if self._is_useful(name):
                room = self._room(name)
                self._set(name, room, give(room, size, device))
                useful = True
        return useful

    def put_back(self, placed: Placed) -> None:
        for name, device, size in pods_of(placed):
            if self._is_useful(name):
                room = self._room(name)
                self._set(name, room, take_on(room, size, device))

    def useful_nodes(self, most: int) -> list[str] | None:
        """The nodes where leaving helps; None when there are more than so many."""
        if self.named:
            return [name for name in self.named if self._is_useful(name)]
        found: list[str] = []
        for section in self.desk.hope.nodes.of_pool(self.pool, self.shape.tolerate_all):
            for name in hopeful(section, self.shape.each):
                if self._is_useful(name):
                    found.append(name)
                    if len(found) > most:
                        return None
        return found

    def _is_useful(self, name: str) -> bool:
        """Whether a pod may be on this node, and could fit if enough others left."""
        found = self._useful.get(name)
        if found is None:
            hope = self.desk.hope.nodes.rooms
            found = self._allows(name) and (self.anywhere or slots(hope[name], self.shape.each) > 0)
            self._useful[name] = found
        return found

    def _allows(self, name: str) -> bool:
        home = self.desk.now.homes.get(name)
        if home is None or not (home[1] or self.shape.tolerate_all):
            return False
        return name in self.named if self.named else home[0] == self.pool

    def _room(self, name: str) -> Room:
        return self._rooms.get(name) or self.desk.later.rooms[name]

    def _set(self, name: str, before: Room, after: Room) -> None:
        self.found += self._held(after) - self._held(before)
        self._rooms[name] = after

    def _held(self, room: Room) -> int:
        return min(slots(room, self.shape.each), 1 if self.named else self.shape.replicas)
