"""A plan under way: what is free now, what will be free once those who leave have left, and what is promised.

`now` is the room that can be used at once; `later` the room there will be. What is promised later is not given away
now. All of it only shrinks, but for `later` when somebody is asked to leave.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from copy import copy
from enum import Enum

from stoker.domain.resources import NONE, Resources
from stoker.scheduler.holders import Holders, Row, held_by, offer_of, pods_of
from stoker.scheduler.hope import Hope
from stoker.scheduler.nodes import Nodes
from stoker.scheduler.refusals import Refusals
from stoker.scheduler.room import both, device_for, give, take_on
from stoker.scheduler.snapshot import Placed, Waiting


class When(Enum):
    """Which room is meant: there at once, there when those who leave have left, or there if all left who could."""

    NOW = 0
    LATER = 1
    HOPED = 2


class Desk:
    def __init__(self, nodes: Nodes, holders: Holders, hope: Hope, cluster: Resources) -> None:
        self.now = nodes.copy()
        self.later = self.now
        self.holders = holders
        self.hope = hope
        self.cluster = cluster
        self.accounts = {workspace_id: account.copy() for workspace_id, account in holders.accounts.items()}
        self.yielding = holders.yielding.copy()
        self.leavers: dict[str, set[str]] = {}
        self.leaving: dict[int, set[str]] = {}
        self.started: dict[str, tuple[str, ...]] = {}
        self.preempted: dict[str, str] = {}
        self.promised: dict[str, tuple[tuple[str, ...], bool]] = {}
        self.borrowed: set[str] = set()
        """Those that were started on room that their workspace is not owed."""
        self._wanted: tuple[set[str], set[str]] = (set(), set())
        """The pools and the nodes on which something that is inside its quota waits for room."""
        self.refusals = Refusals()
        self._own: dict[tuple[int, int], tuple[Row, Resources]] = {}
        self._over: dict[int, Row] | None = None
        self._named: dict[str, tuple[str, ...]] = {}
        self._fresh = -(1 << 20)
        for placed in holders.leaving.values():
            self._vacate(placed)

    def copy(self) -> "Desk":
        """The same desk, to go on from here in another way."""
        desk = copy(self)
        desk.now = self.now.copy()
        desk.later = desk.now if self.later is self.now else self.later.copy()
        desk.accounts = {workspace_id: copy(account) for workspace_id, account in self.accounts.items()}
        desk.yielding = {workspace_id: row.copy() for workspace_id, row in self.yielding.items()}
        desk.leavers = {name: uids.copy() for name, uids in self.leavers.items()}
        desk.leaving = {workspace_id: uids.copy() for workspace_id, uids in self.leaving.items()}
        desk.started, desk.preempted = self.started.copy(), self.preempted.copy()
        desk.promised, desk.refusals = self.promised.copy(), self.refusals.copy()
        desk.borrowed, desk._wanted = self.borrowed.copy(), (self._wanted[0].copy(), self._wanted[1].copy())
        desk._own, desk._named, desk._over = self._own.copy(), self._named.copy(), None
        return desk

    def room(self, when: When) -> Nodes:
        match when:
            case When.NOW:
                return self.now
            case When.LATER:
                return self.later
            case When.HOPED:
                return self.hope.nodes

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

    def own_yielding(self, workspace_id: int, priority: int) -> tuple[Row, Resources]:
        """What a workspace would give up itself for something of this priority, and how much that is."""
        key = (workspace_id, priority)
        if key not in self._own:
            row = self.yielding.get(workspace_id, []) if self.holders.queue(workspace_id).preemption else []
            own = row[: bisect_left(row, priority, key=lambda offer: offer[1].priority)]
            self._own[key] = (own, sum((held for _, _, held in own), NONE))
        return self._own[key]

    def borrowers(self, workspace_id: int) -> dict[int, Row]:
        """What others would have to give up: the preemptible workloads of workspaces over their quota."""
        if self._over is None:
            self._over = {other: row for other, row in self.yielding.items() if row and self.accounts[other].is_over}
        return {other: row for other, row in self._over.items() if other != workspace_id}

    def start(self, waiting: Waiting, nodes: Sequence[str]) -> None:
        """Place a workload now."""
        each = waiting.each
        for name, pods in Counter(nodes).items():
            room, later = self.now.rooms[name], self.later.rooms[name]
            for _ in range(pods):
                device = device_for(room, each, self._next())
                room, later = take_on(room, each, device), take_on(later, each, device)
            self.now.set_room(name, room)
            if self.later is not self.now:
                self.later.set_room(name, later)
        self.started[waiting.uid] = tuple(nodes)
        self.accounts[waiting.workspace_id].plan(each * waiting.replicas)

    def promise(self, waiting: Waiting, nodes: Sequence[str]) -> None:
        """Keep room on these nodes for a workload that starts when others have left."""
        each = waiting.each
        for name, pods in Counter(nodes).items():
            later = self.later.rooms[name]
            for _ in range(pods):
                later = take_on(later, each, device_for(later, each, self._next()))
            self.later.set_room(name, later)
            self.now.set_room(name, both(self.now.rooms[name], later))
        account, asked = self.accounts[waiting.workspace_id], each * waiting.replicas
        self.promised[waiting.uid] = (tuple(nodes), account.within(asked))
        account.plan(asked)

    def want(self, waiting: Waiting) -> None:
        """Note where something that is owed room finds none."""
        pools, nodes = self._wanted
        nodes.update(waiting.specified_nodes)
        pools.update(() if waiting.specified_nodes else waiting.pools)

    def is_wanted(self, node: str) -> bool:
        """Whether something that is owed room waits for this node."""
        pools, nodes = self._wanted
        return node in nodes or self.now.homes[node][0] in pools

    def awaited(self, waiting: Waiting) -> tuple[str, ...]:
        """Who has to leave before a promise is kept: those on its nodes, and, if its workspace has used up its
        quota, those of its workspace."""
        nodes, inside = self.promised[waiting.uid]
        found = {uid for name in nodes for uid in self.leavers.get(name, ())}
        if not inside:
            found.update(self.leaving.get(waiting.workspace_id, ()))
        return tuple(sorted(found))

    def preempt(self, victim: Placed, for_uid: str) -> None:
        """Have a workload leave."""
        self.preempted[victim.uid] = for_uid
        held, workspace_id = held_by(victim), victim.workspace_id
        self.accounts[workspace_id].kept -= held
        row = self.yielding[workspace_id]
        if row is self.holders.yielding[workspace_id]:
            row = self.yielding[workspace_id] = row.copy()
        del row[bisect_left(row, offer_of(victim))]
        self._own.clear()
        self._over = None
        self._vacate(victim)
        self.refusals.forget(When.LATER)

    def _vacate(self, placed: Placed) -> None:
        if self.later is self.now:
            self.later = self.now.copy()
        self.leaving.setdefault(placed.workspace_id, set()).add(placed.uid)
        for name, device, size in pods_of(placed):
            if name in self.later.rooms:
                self.later.set_room(name, give(self.later.rooms[name], size, device))
                self.leavers.setdefault(name, set()).add(placed.uid)

    def _next(self) -> int:
        self._fresh -= 1
        return self._fresh
