"""How far a gang is from having room in one pool, or on the nodes it names, while others are thought away."""

from collections.abc import Sequence

from stoker.scheduler.desk import Desk
from stoker.scheduler.fit import count, hopeful
from stoker.scheduler.holders import pods_of
from stoker.scheduler.line import Shape
from stoker.scheduler.room import Room, give, slots, take_on
from stoker.scheduler.snapshot import Placed


class Need:
    """Counts the replicas that would find room. Exact, as identical pods fill slots."""

    def __init__(self, desk: Desk, shape: Shape, pool: str, named: Sequence[str] = ()) -> None:
        self.desk = desk
        self.shape = shape
        self.pool = pool
        self.named = named
        self.rooms: dict[str, Room] = {}
        if named:
            self.found = sum(self._held(desk.room_later(name)) for name in named if self.allows(name))
        else:
            sections = desk.now.of_pool(pool, shape.tolerate_all)
            self.found = count(desk.now, sections, shape.each, shape.replicas, desk.later.keys())
            self.found += sum(self._held(room) for name, room in desk.later.items() if self.allows(name))

    @property
    def met(self) -> bool:
        return self.found >= self.shape.replicas

    def allows(self, name: str) -> bool:
        """Whether a pod may be on this node."""
        home = self.desk.now.homes.get(name)
        if home is None or not (home[1] or self.shape.tolerate_all):
            return False
        return name in self.named if self.named else home[0] == self.pool

    def without(self, placed: Placed) -> bool:
        """Think a workload away; whether it is in the way at all."""
        touched = False
        for name, device in pods_of(placed):
            if self.allows(name):
                room = self._room(name)
                self._set(name, room, give(room, placed.each, device))
                touched = True
        return touched

    def put_back(self, placed: Placed) -> None:
        for name, device in pods_of(placed):
            if self.allows(name):
                room = self._room(name)
                self._set(name, room, take_on(room, placed.each, device))

    def nodes(self) -> list[str]:
        """The nodes to keep for the gang once all that was thought away is on its way: those first where others
        leave, so that little lies idle until then."""
        if self.named:
            return list(self.named)
        chosen: list[str] = []
        later = [(self._held(room), name, room) for name, room in self.desk.later.items() if self.allows(name)]
        later.sort(key=lambda spot: (-spot[0], spot[2].whole, spot[2].cpu, spot[2].memory, spot[1]))
        for held, name, _ in later:
            chosen += [name] * min(held, self.shape.replicas - len(chosen))
        for section in self.desk.now.of_pool(self.pool, self.shape.tolerate_all):
            for name in hopeful(section, self.shape.each):
                if len(chosen) == self.shape.replicas:
                    return chosen
                if name not in self.desk.later:
                    held = self._held(self.desk.now.rooms[name])
                    chosen += [name] * min(held, self.shape.replicas - len(chosen))
        return chosen

    def _room(self, name: str) -> Room:
        return self.rooms.get(name) or self.desk.room_later(name)

    def _set(self, name: str, before: Room, after: Room) -> None:
        self.found += self._held(after) - self._held(before)
        self.rooms[name] = after

    def _held(self, room: Room) -> int:
        return min(slots(room, self.shape.each), 1 if self.named else self.shape.replicas)
