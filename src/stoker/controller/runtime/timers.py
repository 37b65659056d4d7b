"""Workloads that have to be looked at again at a certain time, though nothing happens to them."""

import heapq


class Alarms:
    """One alarm a workload; a new one takes the place of the old."""

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def set(self, uid: str, at: int | None) -> None:
        if at is None:
            self._due.pop(uid, None)
        elif self._due.get(uid) != at:
            self._due[uid] = at
            heapq.heappush(self._heap, (at, uid))

    def ring(self, now: int) -> list[str]:
        """The workloads whose time has come."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, uid = heapq.heappop(self._heap)
            if self._due.get(uid) == at:
                del self._due[uid]
                found.append(uid)
        return found

    def next(self) -> int | None:
        """When the next one rings."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
