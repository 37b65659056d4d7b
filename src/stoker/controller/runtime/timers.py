"""Timers of workloads that have to be synced at a certain time even if nothing happens to them."""

import heapq


class TimerQueue:
    """Every workload has at most one timer; a new one replaces it."""

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def schedule(self, uid: str, at: int | None) -> None:
        if at is None:
            self._due.pop(uid, None)
        elif self._due.get(uid) != at:
            self._due[uid] = at
            heapq.heappush(self._heap, (at, uid))

    def pop_due(self, now: int) -> list[str]:
        """The workloads whose timers have expired."""
        expired = []
        while self._heap and self._heap[0][0] <= now:
            at, uid = heapq.heappop(self._heap)
            if self._due.get(uid) == at:
                del self._due[uid]
                expired.append(uid)
        return expired

    def next_due(self) -> int | None:
        """When the next timer expires."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
