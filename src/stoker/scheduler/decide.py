"""The decision itself: whose turn it is, and what becomes of it.

Workspaces take turns. The next turn goes to the workspace whose next workload is inside its quota before one that
would borrow; then to one that was promised room, to one that was requeued, to the workspace that uses the smallest
share of its quota (of the cluster, if it has none), and last by priority, submit time and uid. So every workspace
grows towards its quota at the same pace however much it submits, nobody borrows what its owner is asking for at that
moment, and the same snapshot always gives the same plan. In its turn a workspace starts the first workload of its
line that can start.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from stoker.scheduler.desk import Desk, When
from stoker.scheduler.preemption import make_room
from stoker.scheduler.search import search
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
    account, line = turn.account, turn.line
    while not turn.over:
        shape = line.shapes[turn.at]
        if shape.preemptible:
            if not turn.borrowing and not account.within_later(shape.total):
                return
            may = True
        else:
            may = account.within(shape.total)
        waiting = line.waiting[turn.at]
        nodes = search(desk, When.NOW, waiting, shape) if may else None
        if nodes is not None:
            desk.start(waiting, nodes)
            turn.go_on()
            return
        promised = make_room(desk, waiting, shape)
        turn.pass_by(promised)
        if promised:
            return
