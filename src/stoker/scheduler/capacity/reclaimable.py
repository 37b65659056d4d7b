"""The room there would be if everything that is preemptible, or leaves already, were gone.

An upper bound that is kept from plan to plan: what does not fit here is not worth looking for victims.
"""

from collections.abc import Iterable

from stoker.scheduler.holders import Offer, offer_of, pods_of
from stoker.scheduler.nodes import Nodes
from stoker.scheduler.room import FULL, Room, give
from stoker.scheduler.snapshot import Placed


class Hope:
    def __init__(self) -> None:
        self.nodes = Nodes({}, {}, {})
        self._here: dict[str, dict[str, Offer]] = {}

    def change(self, changed: Iterable[Placed], gone: Iterable[Placed]) -> set[str]:
        """Take in who came and who went; gives the nodes on which that matters."""
        touched: set[str] = set()
        for placed in gone:
            if placed.preemptible or placed.leaving:
                for name in placed.nodes:
                    self._here.get(name, {}).pop(placed.uid, None)
                touched.update(placed.nodes)
        for placed in changed:
            if placed.preemptible or placed.leaving:
                offer = offer_of(placed)
                for name in placed.nodes:
                    self._here.setdefault(name, {})[placed.uid] = offer
                touched.update(placed.nodes)
        return touched

    def refresh(self, names: Iterable[str], nodes: Nodes) -> None:
        """Work out these nodes again."""
        for name in names:
            home = nodes.homes.get(name)
            self.nodes.stand(name, home, self._emptied(name, nodes.rooms[name]) if home else FULL)

    def on(self, name: str) -> Iterable[Offer]:
        """Who would leave this node."""
        return self._here.get(name, {}).values()

    def _emptied(self, name: str, room: Room) -> Room:
        for _, placed, _ in self.on(name):
            for node, device, size in pods_of(placed):
                if node == name:
                    room = give(room, size, device)
        return room
