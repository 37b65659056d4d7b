"""How far a plan has come in one workspace's line.

Under `fifo` the first that cannot start stops the line. Under `balance` it is skipped, and nothing of lower priority
goes past it; what names its nodes is skipped without holding up others. What is not to start yet holds up nobody.

Under `balance` a line is gone along twice: what would borrow is put off until all that is inside the quota has had
its turn, here and in the other workspaces. Otherwise an owner could stand behind somebody who borrows.
"""

from bisect import insort
from copy import copy

from stoker.domain.identity import QueuePolicy
from stoker.scheduler.accounts import Account
from stoker.scheduler.line import ASLEEP, Line, Shape
from stoker.scheduler.snapshot import Queue

LOWEST = -(1 << 62)
NOWHERE = -1
Key = tuple[bool, bool, bool, float, int, int, str]


class Turn:
    """`at` is the position of the one that is next; `over` is whether there is none."""

    def __init__(self, line: Line, queue: Queue, account: Account) -> None:
        self.line = line
        self.account = account
        self.fifo = queue.policy is QueuePolicy.FIFO
        self.at, self.over = 0, False
        self.pause_at = NOWHERE
        self.place: Key | None = None
        self.borrowing = False
        self.owed = False
        """Something was promised room: until it has started, nothing of its workspace goes over the quota."""
        self.started: list[int] = []
        self.stopped_at: int | None = None
        self.barriers: list[tuple[int, int, str]] = []
        """Position, priority and uid of each that nothing lower goes past."""
        self._barrier = LOWEST
        self._refused = {ASLEEP}
        self._handled: set[int] = set()
        self._put_off = NOWHERE
        self._put_off_barrier = LOWEST
        self._ranked_from = line.ranked_from()
        self._seek()

    @property
    def paused(self) -> bool:
        return self.at == self.pause_at

    def copy(self, account: Account) -> "Turn":
        turn = copy(self)
        turn.account = account
        turn.started, turn.barriers = self.started.copy(), self.barriers.copy()
        turn._refused, turn._handled = self._refused.copy(), self._handled.copy()
        return turn

    def would_borrow(self, shape: Shape) -> bool:
        """Whether this would be there on room that the workspace is not owed."""
        return shape.preemptible and not self.account.within_later(shape.total)

    def key(self, share: float) -> Key:
        """The smaller, the sooner the workspace is served."""
        rank, priority, fresh, submitted_at, uid = self.line.keys[self.at]
        self.borrowing = self.would_borrow(self.line.shapes[self.at])
        return (self.borrowing, rank != 0, fresh, share, priority, submitted_at, uid)

    def go_on(self) -> None:
        """The next one has started."""
        insort(self.started, self.at)
        self._handled.add(self.at)
        self._step()

    def put_off(self) -> bool:
        """Leave the next one until later; False when it has been left before, or must not be passed."""
        if self.fifo or self._put_off_barrier is None:
            return False
        return True

    def pass_by(self, promised: bool) -> None:
        """The next one has not started; when it was promised room, others of its shape may still be."""
        self.owed = self.owed or promised
        if self.fifo:
            self.stopped_at, self.over = self.at, True
            return
        shape = self.line.shapes[self.at]
        if shape.priority > self._barrier and not shape.specified_nodes:
            self._barrier = shape.priority
            self.barriers.append((self.at, shape.priority, self.line.keys[self.at][4]))
        if promised:
            self._handled.add(self.at)
        else:
            self._refused.add(shape)
        self._step()
