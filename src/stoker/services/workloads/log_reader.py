"""Reads one pod's log forward, a piece at a time: what is kept first, then what the pod itself has.

A reader holds one piece and never the log: a kept chunk (a quarter of a megabyte, and what one look at the pod can add
to it: two) or at most `PIECE_LINES` lines of the pod. A line has the same number in both, so none is read twice when it
moves from the pod to the store meanwhile.
"""

from msgspec import Struct

from stoker.domain.reach import LogSource
from stoker.store import log_chunks
from stoker.store.base import Store, Transaction
from stoker.store.log_chunks import Head, Line

PIECE_LINES = 5_000
GAP = "[stoker] Older lines are missing here: the log has grown over its limit while it was read."


class LogQuery(Struct, frozen=True, kw_only=True):
    """`attempt` of None is the newest attempt that has the pod; `text` is a part of the line, in any case."""

    tail: int = 1000
    since: int = 0
    text: str = ""
    attempt: int | None = None

    def matching(self, lines: list[Line]) -> list[Line]:
        if self.since:
            lines = [line for line in lines if line[0] >= self.since]
        if not self.text:
            return lines
        text = self.text.casefold()
        return [line for line in lines if text in line[1].casefold()]


class Place(Struct):
    """Between two lines of a log: behind so many lines that follow the chunk `number`. `position` is the same place in
    the engine's log, or before it."""

    number: int = -1
    position: int = 0
    taken: int = 0


class LogReader:
    def __init__(self, store: Store, source: LogSource, cluster_id: str, pod_uid: str, query: LogQuery) -> None:
        self._store = store
        self._source = source
        self._cluster_id = cluster_id
        self._uid = pod_uid
        self._query = query
        self._place = Place()
        self._skip = 0

    async def begin(self, asked_at: int) -> int:
        """Go to the first of the last lines that are asked for; how many these are. Nothing printed after `asked_at` is
        waited for."""
        uid, query = self._uid, self._query
        number, position = await self._store.peek(lambda tx: log_chunks.newest(tx, uid))
        self._place = Place(number, position)
        found = 0
        while (piece := await self._next()) is not None:
            found += len(query.matching(piece))
            if piece[-1:] and piece[-1][0] > asked_at:
                break
        self._place = Place(number, position)
        if found < query.tail:
            first, kept = await self._store.read(lambda tx: _back(tx, uid, number, query, query.tail - found))
            self._place = Place(first - 1)
            found += kept
        self._skip = max(0, found - query.tail)
        return found - self._skip

    async def next(self) -> list[Line] | None:
        """The lines of the next piece that match, perhaps none; None when there is nothing more now."""
        piece = await self._next()
        if piece is None:
            return None
        matching = self._query.matching(piece)
        skipped = min(self._skip, len(matching))
        self._skip -= skipped
        return matching[skipped:]

    async def _next(self) -> list[Line] | None:
        while True:
            if chunk := await self._following():
                return await self._kept(chunk)
            fresh = await self._source.tail(self._cluster_id, self._uid, self._place.position, PIECE_LINES)
            if fresh:
                self._place.taken += len(fresh)
                self._place.position = fresh[-1].position
                return [(line.at, line.text) for line in fresh]
            if not await self._following():  # it may have been kept, and let go of, while the pod was asked
                return None

    async def _following(self) -> Head | None:
        return await self._store.peek(lambda tx: log_chunks.after(tx, self._uid, self._place.number))

    async def _kept(self, chunk: Head) -> list[Line]:
        """What of a chunk was not read from the pod already."""
        place = self._place
        gap = 0 <= place.number < chunk.number - 1
        known, lines = place.taken, []
        if chunk.position > place.position:
            lines = (await self._store.read(lambda tx: log_chunks.lines_of(tx, self._uid, chunk.number)))[known:]
            place.position = chunk.position
        place.number, place.taken = chunk.number, max(0, known - chunk.lines)
        return [(chunk.first_at, GAP), *lines] if gap else lines


def _back(transaction: Transaction, uid: str, newest: int, query: LogQuery, wanted: int) -> tuple[int, int]:
    """The chunk that has the first of so many lines that match, and how many of them it and those after it have."""
    first, found = newest + 1, 0
    while found < wanted and (chunk := log_chunks.before(transaction, uid, first, query.since)):
        first = chunk.number
        if query.text or chunk.first_at < query.since:
            found += len(query.matching(log_chunks.lines_of(transaction, uid, first)))
        else:
            found += chunk.lines
    return first, found
