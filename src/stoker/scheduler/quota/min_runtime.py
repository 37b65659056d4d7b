"""Places that are guaranteed for a time: until it has passed, their holders count as not preemptible.

What starts on borrowed room is given no guarantee while a workload inside its quota waits for room there.
So nobody waits for longer than the guarantees that there were when it came, however many others come after it.
"""

from collections.abc import Iterable

from msgspec import structs

from stoker.scheduler.desk import Desk
from stoker.scheduler.line import NEVER
from stoker.scheduler.snapshot import Placed, Waiting


class Guarantees:
    """Who has been given one. `next_end` is when the next of them ends, or a little before."""

    def __init__(self) -> None:
        self.next_end = NEVER
        self._given: dict[str, Placed] = {}
        self._looked_at = 0

    def change(self, changed: Iterable[Placed], gone: Iterable[str], now: int) -> list[Placed]:
        """Take in what is placed. Gives all that is different, as it counts now: what changed, and those whose
        guarantee has ended since the last time."""
        found = {placed.uid: placed for placed in changed}
        for uid in gone:
            self._given.pop(uid, None)
        for uid, placed in found.items():
            self._given.pop(uid, None)
            if placed.guaranteed_until is not None and placed.preemptible:
                self._given[uid] = placed
                if placed.guaranteed_until > now:
                    self.next_end = min(self.next_end, placed.guaranteed_until)
        if not self._looked_at <= now < self.next_end:
            ends = {uid: placed.guaranteed_until or 0 for uid, placed in self._given.items()}
            turned = [uid for uid, end in ends.items() if (end > self._looked_at) is not (end > now)]
            found |= {uid: self._given[uid] for uid in turned}
            self.next_end = min((end for end in ends.values() if end > now), default=NEVER)
        self._looked_at = now
        return [_counted(placed, now) for placed in found.values()]


def guaranteed_until(placed: Placed) -> int | None:
    """Until when it keeps its place for no other reason, as it counts now."""
    return None if placed.preemptible else placed.guaranteed_until


def promise(desk: Desk, started: Waiting, now: int) -> int | None:
    """Until when a workload that starts now keeps its place."""
    seconds = desk.holders.queue(started.workspace_id).guaranteed_seconds
    if not seconds or not started.preemptible:
        return None
    if started.uid in desk.borrowed and any(map(desk.is_wanted, desk.started[started.uid])):
        return None
    return now + seconds * 1000


def _counted(placed: Placed, now: int) -> Placed:
    if placed.guaranteed_until is None or placed.guaranteed_until <= now:
        return placed
    return structs.replace(placed, preemptible=False)
