"""The decision itself: whose turn it is, and what becomes of it.

Workspaces take turns. The next turn goes to the workspace whose next workload is inside its quota before one that
would borrow; then to one that was promised room, to one that was requeued, to the workspace that uses the smallest
share of its quota (of the cluster, if it has none), and last by priority, submit time and uid. So every workspace
grows towards its quota at the same pace however much it submits, nobody borrows what its owner is asking for at that
moment, and the same snapshot always gives the same plan. In its turn a workspace starts the first workload of its
line that can start.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from stoker.scheduler.desk import Desk
from stoker.scheduler.fit import pack
from stoker.scheduler.line import Shape
from stoker.scheduler.preemption import make_room
from stoker.scheduler.room import slots
from stoker.scheduler.snapshot import Waiting
from stoker.scheduler.turn import Turn


def decide(desk: Desk, turns: Mapping[int, Turn], until: str = "") -> None:
    """Serve every workspace as far as it goes, or until it is known what becomes of one workload."""
    heap = [_entry(desk, turn, workspace_id) for workspace_id, turn in turns.items() if not turn.over]
    heapify(heap)
    while heap:
        _, workspace_id = heappop(heap)
        turn = turns[workspace_id]
        _serve(desk, turn)
        if not turn.over:
            heappush(heap, _entry(desk, turn, workspace_id))
        if until and (until in desk.started or (until in turn.line.by_uid and turn.over)):
            return


def _entry(desk: Desk, turn: Turn, workspace_id: int) -> tuple[tuple[object, ...], int]:
    return turn.key(turn.account.share(desk.cluster)), workspace_id


def _serve(desk: Desk, turn: Turn) -> None:
    """Go along the line until something starts, is promised room, or has to let other workspaces go first."""
    while not turn.over:
        if turn.next_borrows() and not turn.borrowing:
            return
        waiting, shape = turn.waiting, turn.shape
        nodes = find(desk, waiting, shape) if shape.preemptible or turn.account.within(shape.total) else None
        if nodes is not None:
            desk.start(waiting, nodes)
            turn.go_on()
            return
        promised = make_room(desk, waiting, shape)
        turn.pass_by(promised)
        if promised:
            return


def find(desk: Desk, waiting: Waiting, shape: Shape) -> Sequence[str] | None:
    """Where a workload can start now."""
    if shape.specified_nodes:
        names = desk.named(waiting)
        return names if all(_free(desk, shape, name) for name in names) else None
    where = (shape.pools, shape.tolerate_all)
    if desk.no_room.cover(where, shape.ask):
        return None
    for pool in shape.pools:
        found = pack(desk.now, desk.now.of_pool(pool, shape.tolerate_all), shape.each, shape.replicas)
        if found is not None:
            return sorted(found)
    desk.no_room.add(where, shape.ask)
    return None


def _free(desk: Desk, shape: Shape, name: str) -> bool:
    home = desk.now.homes.get(name)
    if home is None or not (home[1] or shape.tolerate_all):
        return False
    return slots(desk.now.rooms[name], shape.each) >= 1
