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
from stoker.scheduler.turn import Key, Turn


class Round:
    """All workspaces taking turns. `serving` is the one whose turn was broken off."""

    def __init__(self, desk: Desk, turns: Mapping[int, Turn], serving: int | None = None) -> None:
        self.desk = desk
        self.turns = turns
        self.serving = serving

    def copy(self) -> "Round":
        """The same round, to go on from here in another way."""
        desk = self.desk.copy()
        turns = {number: turn.copy(desk.accounts[number]) for number, turn in self.turns.items()}
        return Round(desk, turns, self.serving)

    def run(self, until: str = "") -> None:
        """Go on to the end, until it is known what becomes of one workload, or to where a turn is to pause.

        A turn pauses twice: when it comes to that workload, and, if others are served before it, when it is next.
        """
        heap = [self._entry(number) for number, turn in self.turns.items() if not turn.over and number != self.serving]
        heapify(heap)
        while heap or self.serving is not None:
            number = heappop(heap)[1] if self.serving is None else self.serving
            turn, self.serving = self.turns[number], number
            turn.place = None
            if turn.paused or serve(self.desk, turn):
                return
            self.serving = None
            if until and (until in self.desk.started or (until in turn.line.by_uid and turn.over)):
                return
            if turn.paused:
                return
            if not turn.over:
                heappush(heap, self._entry(number))

    def _entry(self, number: int) -> tuple[Key, int]:
        """A workspace keeps the place it was given until it is served."""
        turn = self.turns[number]
        if turn.place is None:
            turn.place = turn.key(turn.account.share(self.desk.cluster))
        return turn.place, number


def serve(desk: Desk, turn: Turn) -> bool:
    """Go along the line until something starts, is promised room, or has to let other workspaces go first.

    True when the turn was broken off by a pause.
    """
    account, line = turn.account, turn.line
    while not turn.over:
        shape, waiting = line.shapes[turn.at], line.waiting[turn.at]
        borrows = shape.preemptible and turn.would_borrow(shape)
        if borrows and not turn.borrowing:
            break
        may = not (borrows and turn.owed) and (shape.preemptible or account.within(shape.total))
        nodes = search(desk, When.NOW, waiting, shape) if may else None
        if nodes is not None:
            desk.start(waiting, nodes)
            if borrows:
                desk.borrowed.add(waiting.uid)
            turn.go_on()
            break
        promised = make_room(desk, waiting, shape)
        if not promised and account.within_later(shape.total):
            desk.want(waiting)
        turn.pass_by(promised)
        if promised:
            break
        if turn.at == turn.pause_at:
            return True
    return False
