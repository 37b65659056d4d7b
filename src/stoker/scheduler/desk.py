"""A plan under way: what is free now, what will be free once those who leave have left, and what is promised.

`now` is the room that can be used at once. `later` holds the nodes where that is not the whole story: somebody is
leaving, or somebody waits for what is left. What is promised later is not given away now.
"""

from collections.abc import Iterable, Sequence

from stoker.domain.resources import Resources
from stoker.scheduler.holders import Candidates, Holders, held_by, pods_of
from stoker.scheduler.nodes import Nodes
from stoker.scheduler.refusals import Refusals
from stoker.scheduler.room import Room, both, device_for, give, take_on
from stoker.scheduler.snapshot import Placed, Waiting


class Desk:
    def __init__(self, nodes: Nodes, holders: Holders, cluster: Resources) -> None:
        self.now = nodes.copy()
        self.holders = holders
        self.cluster = cluster
        self.accounts = {workspace_id: account.copy() for workspace_id, account in holders.accounts.items()}
        self.later: dict[str, Room] = {}
        self.leavers: dict[str, set[str]] = {}
        self.started: dict[str, tuple[str, ...]] = {}
        self.preempted: dict[str, str] = {}
        self.promised: dict[str, tuple[str, ...]] = {}
        self.candidates: dict[tuple[int, int], Candidates] = {}
        self.no_room = Refusals()
        self.no_victims = Refusals()
        self._named: dict[str, tuple[str, ...]] = {}
        self._fresh = -(1 << 20)
        for placed in holders.leaving.values():
            self._vacate(placed)

    def room_later(self, name: str) -> Room:
        return self.later.get(name) or self.now.rooms[name]

    def named(self, waiting: Waiting) -> tuple[str, ...]:
        """The nodes it names. When some of its pods are there already, those nodes first that have none."""
        names = waiting.specified_nodes
        if len(names) <= waiting.replicas:
            return names
        if waiting.uid not in self._named:
            placed = self.holders.placed.get(waiting.uid)
            there = set(placed.nodes) if placed else set()
            self._named[waiting.uid] = tuple(sorted(names, key=there.__contains__)[: waiting.replicas])
        return self._named[waiting.uid]

    def start(self, waiting: Waiting, nodes: Sequence[str]) -> None:
        """Place a workload now."""
        for name in nodes:
            room = self.now.rooms[name]
            device = device_for(room, waiting.each, self._next())
            self.now.set_room(name, take_on(room, waiting.each, device))
            if name in self.later:
                self.later[name] = take_on(self.later[name], waiting.each, device)
        self.started[waiting.uid] = tuple(nodes)
        self._plan(waiting)

    def promise(self, waiting: Waiting, nodes: Sequence[str], victims: Iterable[Placed]) -> None:
        """Keep room on these nodes for a workload that starts when others have left."""
        for name in nodes:
            room = self.room_later(name)
            device = device_for(room, waiting.each, self._next())
            self.later[name] = take_on(room, waiting.each, device)
            self.now.set_room(name, both(self.now.rooms[name], self.later[name]))
        awaited = {victim.uid for victim in victims}.union(*(self.leavers.get(name, ()) for name in nodes))
        self.promised[waiting.uid] = tuple(sorted(awaited))
        self._plan(waiting)

    def preempt(self, victim: Placed, for_uid: str) -> None:
        """Have a workload leave."""
        self.preempted[victim.uid] = for_uid
        self.accounts[victim.workspace_id].leaving += held_by(victim)
        self._vacate(victim)
        # What it leaves may be more than was needed, so others may hope again.
        self.no_victims = Refusals()

    def _vacate(self, placed: Placed) -> None:
        for name, device in pods_of(placed):
            if name in self.now.rooms:
                self.later[name] = give(self.room_later(name), placed.each, device)
                self.leavers.setdefault(name, set()).add(placed.uid)

    def _plan(self, waiting: Waiting) -> None:
        account = self.accounts[waiting.workspace_id]
        asked = waiting.each * waiting.replicas
        account.used += asked
        account.planned += asked

    def _next(self) -> int:
        self._fresh -= 1
        return self._fresh
