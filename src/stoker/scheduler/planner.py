"""Plans, one after the other, for a cluster that changes a little at a time.

What is expensive to set up is kept from plan to plan: the lines in order, the nodes by free room, who holds what.
A plan itself works on copies and looks only at what could start, so its cost follows the number of workloads it
starts and the shapes it tries, not the number that wait. A plan after changes is the plan from scratch.
"""

from collections.abc import Iterable, Mapping

from msgspec import structs

from stoker.domain.node import DEFAULT_POOL
from stoker.domain.resources import NONE, Resources
from stoker.scheduler.change import Change
from stoker.scheduler.decisions import Fail, Place, Plan, Preempt
from stoker.scheduler.desk import Desk
from stoker.scheduler.guarantees import Guarantees, promise
from stoker.scheduler.holders import Holders
from stoker.scheduler.hope import Hope
from stoker.scheduler.line import NEVER, Line, Shapes
from stoker.scheduler.nodes import Nodes
from stoker.scheduler.round import Round
from stoker.scheduler.snapshot import NodeRoom, Snapshot, Waiting
from stoker.scheduler.turn import Turn
from stoker.scheduler.waits import Waits

REBUILD = 8
"""A line of which more than one in so many change is sorted anew."""
MANY = 1000
"""Shapes that nobody has any more are kept up to about so many."""


def plan(snapshot: Snapshot) -> Plan:
    """Who starts, who leaves, who fails and why the others wait."""
    return Planner(snapshot).plan()


class Planner:
    """A cluster in the form in which it is quickly planned."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.nodes = Nodes({}, {}, {})
        self.holders = Holders()
        self.hope = Hope()
        self.lines: dict[int, Line] = {}
        self.cluster = NONE
        self._guarantees = Guarantees()
        self._totals: dict[str, Resources] = {}
        self._workspaces: dict[str, int] = {}
        self._failed: dict[str, str] = {}
        self._shapes: Shapes = {}
        self.change(
            Change(
                now=snapshot.now,
                waiting=snapshot.waiting,
                placed=snapshot.placed,
                nodes=snapshot.nodes,
                queues=snapshot.queues,
            )
        )

    def replan(self, change: Change) -> Plan:
        """The plan after a change."""
        self.change(change)
        return self.plan()

    def plan(self) -> Plan:
        made = self.round(self.lines)
        made.run()
        return Plan(
            tuple(
                Place(uid, nodes, promise(made.desk, self.waiting(uid), self.now))
                for uid, nodes in made.desk.started.items()
            ),
            tuple(Preempt(uid, for_uid) for uid, for_uid in made.desk.preempted.items()),
            tuple(Fail(uid, dependency) for uid, dependency in sorted(self._failed.items())),
            Waits(made, self.now),
        )

    def round(self, lines: Mapping[int, Line]) -> Round:
        """A plan of these lines that is still to be made."""
        desk = Desk(self.nodes, self.holders, self.hope, self.cluster)
        turns = {
            workspace_id: Turn(lines[workspace_id], self.holders.queue(workspace_id), desk.accounts[workspace_id])
            for workspace_id in sorted(lines)
        }
        return Round(desk, turns)

    @property
    def wakes_at(self) -> int | None:
        """When the next start time comes, or the next guarantee ends; until then nothing changes by itself."""
        due = min((line.wakes_at for line in self.lines.values()), default=NEVER)
        due = min(due, self._guarantees.next_end)
        return None if due == NEVER else due

    def waiting(self, uid: str) -> Waiting:
        line = self.lines[self._workspaces[uid]]
        return line.waiting[line.position(uid)]

    def with_edit(self, edited: Waiting) -> Mapping[int, Line]:
        """The lines as they would be with one workload changed."""
        line = self.lines[edited.workspace_id]
        return {**self.lines, edited.workspace_id: line.changed({edited.uid: edited}, (), self._shapes)}

    def change(self, change: Change) -> None:
        """Take in what is different."""
        self.now = change.now
        if change.nodes or change.lost_nodes:
            self.nodes.change(change.nodes, change.lost_nodes)
            self._count(change.nodes, change.lost_nodes)
        self.holders.change_queues(change.queues, change.lost_queues)
        placed = self._guarantees.change(change.placed, change.not_placed, change.now)
        before = self.holders.change(placed, change.not_placed)
        touched = self.hope.change(placed, before)
        self.hope.refresh({*touched, *(node.name for node in change.nodes), *change.lost_nodes}, self.nodes)
        if len(self._shapes) > 2 * len(self._workspaces) + MANY:
            self._shapes = {}  # a shape that is made twice is only tried twice
        self._change_lines(change.waiting, change.not_waiting)
        self._wake()

    def _count(self, changed: Iterable[NodeRoom], lost: Iterable[str]) -> None:
        for name in lost:
            self.cluster -= self._totals.pop(name, NONE)
        for node in changed:
            self.cluster += node.total - self._totals.get(node.name, NONE)
            self._totals[node.name] = node.total

    def _change_lines(self, waiting: Iterable[Waiting], gone: Iterable[str]) -> None:
        added: dict[int, dict[str, Waiting]] = {}
        removed: dict[int, set[str]] = {}
        for uid in gone:
            self._forget(uid, removed)
        for each in waiting:
            self._forget(each.uid, removed)
            if each.failed_dependency:
                self._failed[each.uid] = each.failed_dependency
            else:
                self._workspaces[each.uid] = each.workspace_id
                somewhere = each if each.pools else structs.replace(each, pools=(DEFAULT_POOL,))
                added.setdefault(each.workspace_id, {})[each.uid] = somewhere
        for workspace_id in {*added, *removed}:
            self._change_line(workspace_id, added.get(workspace_id, {}), removed.get(workspace_id, set()))

    def _forget(self, uid: str, removed: dict[int, set[str]]) -> None:
        self._failed.pop(uid, None)
        workspace_id = self._workspaces.pop(uid, None)
        if workspace_id is not None:
            removed.setdefault(workspace_id, set()).add(uid)

    def _change_line(self, workspace_id: int, added: Mapping[str, Waiting], removed: set[str]) -> None:
        self.holders.account(workspace_id)
        old = self.lines.get(workspace_id)
        if old is None or (len(added) + len(removed)) * REBUILD > len(old.keys):
            kept = [each for each in old.waiting if each.uid not in removed] if old else []
            self.lines[workspace_id] = self._line(workspace_id, [*kept, *added.values()])
        else:
            self.lines[workspace_id] = old.changed(added, removed, self._shapes)

    def _wake(self) -> None:
        """Lines in which a start time has come, or whose workspace has changed its ways, are made anew."""
        for workspace_id, line in self.lines.items():
            if not line.is_current(self.now, self.holders.queue(workspace_id).preemption):
                self.lines[workspace_id] = self._line(workspace_id, line.waiting)

    def _line(self, workspace_id: int, waiting: Iterable[Waiting]) -> Line:
        return Line(waiting, self.now, self.holders.queue(workspace_id).preemption, self._shapes)
