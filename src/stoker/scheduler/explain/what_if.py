"""Which edits would start a workload now, found by planning again with each of them.

A plan with an edit is the same as the plan without it up to the workload's turn. So the plan is made once and kept
at two points: when its workspace comes to the workload, and when nobody is served before it any more. A trial goes
on from there, unless the edit gives the workload another place in its queue.
"""

from collections.abc import Collection, Iterator

from stoker.scheduler.edits import Edit, size
from stoker.scheduler.line import ASLEEP, Line
from stoker.scheduler.planner import Planner
from stoker.scheduler.round import Round
from stoker.scheduler.snapshot import Waiting
from stoker.scheduler.turn import NOWHERE, Turn

EDITS = 5
"""As many are suggested at most."""
TRIALS = 8
"""As many are made at most."""


class Trials:
    """A plan, made with a look at one workload; `made` is how it ends."""

    def __init__(self, planner: Planner, waiting: Waiting) -> None:
        self._planner = planner
        self._waiting = waiting
        self.made = planner.round(planner.lines)
        self._reached: Round | None = None
        self._next: Round | None = None
        turn = self.made.turns[waiting.workspace_id]
        position = turn.line.position(waiting.uid)
        if turn.line.shapes[position] is not ASLEEP:
            self._go_to(turn, position)
        self.made.run()

    def _go_to(self, turn: Turn, position: int) -> None:
        turn.pause_at = position
        if not turn.paused:
            self.made.run()
        if turn.paused:
            self._reached = self._next = self.made.copy()
            if self.made.serving is None:
                self.made.run()
                self._next = self.made.copy()
        turn.pause_at = NOWHERE

    def that_start(self, edits: Collection[Edit]) -> Iterator[Edit]:
        """Those edits with which the workload starts at once, smallest first; of each kind the smallest."""
        found: set[object] = set()
        for edit in sorted(edits, key=lambda edit: size(edit, self._waiting))[:TRIALS]:
            kind = (type(edit), getattr(edit, "resource", None))
            if kind not in found and len(found) < EDITS and self.starts(edit.on(self._waiting)):
                found.add(kind)
                yield edit

    def starts(self, edited: Waiting) -> bool:
        """Whether the workload would start at once if it were like this."""
        lines = self._planner.with_edit(edited)
        trial = self._from_its_turn(lines[edited.workspace_id], edited) or self._planner.round(lines)
        trial.run(until=edited.uid)
        return edited.uid in trial.desk.started

    def _from_its_turn(self, line: Line, edited: Waiting) -> Round | None:
        """The plan at the point from which on the edit matters; None when it never comes there unedited."""
        uid, own = edited.uid, edited.workspace_id
        if self._reached is None or self._next is None:
            return None
        before = self._reached.turns[own]
        if line.by_uid[uid] != before.line.by_uid[uid]:
            return None
        now, then = before.would_borrow(line.shapes[before.at]), before.would_borrow(before.line.shapes[before.at])
        trial = (self._next if now == then else self._reached).copy()
        trial.turns[own].line = line
        trial.turns[own].pause_at = NOWHERE
        return trial
