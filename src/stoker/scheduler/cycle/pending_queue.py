"""The queue of one workspace, in the order in which it is served.

First what others were preempted for, then what was requeued, then by priority, submit time and uid. One exception
keeps preemption from going round in circles: where a workspace preempts, a requeued workload that is preemptible
only goes before others of its own priority. Otherwise it would take back the room it was just moved out of, and be
moved out again.

A line is never changed: `changed` makes the next one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from stoker.domain.resources import NONE, Resources
from stoker.scheduler.snapshot import Waiting

Key = tuple[int, int, bool, int, str]
NEVER = 1 << 62
RANKED = 2
"""The rank from which on a line goes strictly by priority."""


class Shape(Struct, frozen=True, eq=False):
    """What matters of a workload for where and whether it starts. Workloads of one shape share one object."""

    each: Resources
    replicas: int
    total: Resources
    ask: tuple[int, int, int, int]
    priority: int
    preemptible: bool
    specified_nodes: tuple[str, ...]
    pools: tuple[str, ...]
    tolerate_all: bool


ASLEEP = Shape(NONE, 0, NONE, (0, 0, 0, 0), 0, False, (), (), False)
"""The shape of everything that is not to start yet."""
Shapes = dict[tuple[Any, ...], Shape]


def shape_of(waiting: Waiting, shapes: Shapes) -> Shape:
    each, replicas = waiting.each, waiting.replicas
    ask = (each.gpu_milli, each.cpu_milli, each.memory_bytes, replicas)
    named = waiting.specified_nodes
    # Which of the named nodes are still wanted differs from one workload to the next.
    key = (
        ask,
        waiting.priority,
        waiting.preemptible,
        waiting.pools,
        waiting.tolerate_all,
        waiting.uid if named else "",
    )
    found = shapes.get(key)
    if found is None or found.specified_nodes != named:
        found = shapes[key] = Shape(
            each,
            replicas,
            each * replicas,
            ask,
            waiting.priority,
            waiting.preemptible,
            named,
            waiting.pools,
            waiting.tolerate_all,
        )
    return found


class Line:
    """Who waits in a workspace. `keys`, `waiting` and `shapes` run side by side."""

    __slots__ = ("by_uid", "keys", "made_at", "shapes", "waiting", "wakes_at", "yields")

    def __init__(self, waiting: Iterable[Waiting], now: int, yields: bool, shapes: Shapes) -> None:
        self.yields = yields
        ordered = sorted(((self.key_of(each), each) for each in waiting if not each.failed_dependency), key=_first)
        self.keys = [key for key, _ in ordered]
        self.waiting = [each for _, each in ordered]
        self.by_uid: dict[str, Key] = {key[4]: key for key in self.keys}
        self.made_at, self.wakes_at = now, NEVER
        self.shapes = [self._shape(each, shapes) for each in self.waiting]

    def changed(self, added: Mapping[str, Waiting], removed: Iterable[str], shapes: Shapes) -> "Line":
        """The line with some added or replaced, and some gone."""
        line = Line((), self.made_at, self.yields, shapes)
        line.keys, line.waiting, line.shapes = self.keys.copy(), self.waiting.copy(), self.shapes.copy()
        line.by_uid, line.wakes_at = self.by_uid.copy(), self.wakes_at
        for uid in (*removed, *added):
            line._remove(uid)
        for each in added.values():
            if not each.failed_dependency:
                line._insert(each, shapes)
        return line

    def key_of(self, waiting: Waiting) -> Key:
        """What decides its place."""
        first = waiting.requeued and not (waiting.preemptible and self.yields)
        rank = 0 if waiting.promised else 1 if first else RANKED
        return (rank, -waiting.priority, not waiting.requeued, waiting.submitted_at, waiting.uid)

    def position(self, uid: str) -> int:
        """How many are before it."""
        return bisect_left(self.keys, self.by_uid[uid])

    def ranked_from(self) -> int:
        return bisect_left(self.keys, (RANKED,))

    def is_current(self, now: int, yields: bool) -> bool:
        """Whether nothing has woken since it was made."""
        return self.yields == yields and self.made_at <= now < self.wakes_at

    def _shape(self, waiting: Waiting, shapes: Shapes) -> Shape:
        until = waiting.not_before
        if until is not None and until > self.made_at:
            self.wakes_at = min(self.wakes_at, until)
            return ASLEEP
        return ASLEEP if waiting.waits_for else shape_of(waiting, shapes)

    def _remove(self, uid: str) -> None:
        key = self.by_uid.pop(uid, None)
        if key is not None:
            at = bisect_left(self.keys, key)
            del self.keys[at], self.waiting[at], self.shapes[at]

    def _insert(self, waiting: Waiting, shapes: Shapes) -> None:
        key = self.key_of(waiting)
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.waiting.insert(at, waiting)
        self.shapes.insert(at, self._shape(waiting, shapes))
        self.by_uid[waiting.uid] = key


def _first(pair: tuple[Key, Waiting]) -> Key:
    return pair[0]
