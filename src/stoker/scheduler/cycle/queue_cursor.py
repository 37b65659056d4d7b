"""How far a plan has come in one workspace's line.

Under `fifo` the first that cannot start stops the line. Under `balance` it is skipped, and nothing of lower priority
goes past it; what names its nodes is skipped without holding up others. What is not to start yet holds up nobody.
"""

from copy import copy

from stoker.domain.identity import QueuePolicy
from stoker.scheduler.accounts import Account
from stoker.scheduler.line import ASLEEP, Line, Shape
from stoker.scheduler.snapshot import Queue

LOWEST = -(1 << 62)
NOWHERE = -1
Key = tuple[bool, bool, bool, float, int, int, str]


class Turn:
    __slots__ = (
        "account",
        "at",
        "barrier",
        "barriers",
        "borrowing",
        "fifo",
        "line",
        "over",
        "owed",
        "pause_at",
        "place",
        "ranked_from",
        "refused",
        "started",
        "stopped_at",
    )

    def __init__(self, line: Line, queue: Queue, account: Account) -> None:
        self.line = line
        self.account = account
        self.fifo = queue.policy is QueuePolicy.FIFO
        self.at, self.over = 0, False
        self.refused = {ASLEEP}
        self.borrowing = False
        self.barrier = LOWEST
        self.barriers: list[tuple[int, int, str]] = []
        """Position, priority and uid of each that nothing lower goes past."""
        self.started: list[int] = []
        self.stopped_at: int | None = None
        self.owed = False
        """Something was promised room: until it has started, nothing of its workspace goes over the quota."""
        self.pause_at = NOWHERE
        self.place: Key | None = None
        self.ranked_from = line.ranked_from()
        self._seek()

    @property
    def paused(self) -> bool:
        return self.at == self.pause_at

    def copy(self, account: Account) -> "Turn":
        turn = copy(self)
        turn.account = account
        turn.refused = self.refused.copy()
        turn.barriers = self.barriers.copy()
        turn.started = self.started.copy()
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
        self.started.append(self.at)
        self.at += 1
        self._seek()

    def pass_by(self, promised: bool) -> None:
        """The next one has not started; when it was promised room, others of its shape may still be."""
        self.owed = self.owed or promised
        if self.fifo:
            self.stopped_at, self.over = self.at, True
            return
        shape = self.line.shapes[self.at]
        if shape.priority > self.barrier and not shape.specified_nodes:
            self.barrier = shape.priority
            self.barriers.append((self.at, shape.priority, self.line.keys[self.at][4]))
        if not promised:
            self.refused.add(shape)
        self.at += 1
        self._seek()

    def _seek(self) -> None:
        shapes, refused, at = self.line.shapes, self.refused, self.at
        end = len(shapes)
        while at < end:
            shape = shapes[at]
            if shape not in refused or at == self.pause_at:
                if shape.priority >= self.barrier:
                    break
                if at >= self.ranked_from:
                    at = end
                    break
            at += 1
        self.at, self.over = at, at >= end
