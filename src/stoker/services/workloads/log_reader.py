"""Reads the log of one pod forward, a piece at a time: stored chunks first, then the lines that only the engine has.

A reader holds one piece, never the whole log: a stored chunk (0.25 to 2 MiB) or at most `MAX_PIECE_LINES` lines of the
engine. Lines are numbered alike in both, so a line that moves from the engine to the store meanwhile is read once.
"""

from msgspec import Struct

from stoker.domain.cluster.engine_access import LogTailer
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import log_chunks
from stoker.store.telemetry.log_chunks import LogChunkHeader, TimestampedLine

MAX_PIECE_LINES = 5_000
GAP_MESSAGE = "[stoker] Older lines are missing here: the log exceeded its limit while it was read."


class LogQuery(Struct, frozen=True, kw_only=True):
    """`attempt` None is the newest attempt with this pod; `text` is a substring of the line, ignoring case."""

    tail: int = 1000
    since: int = 0
    text: str = ""
    attempt: int | None = None

    def filter_lines(self, lines: list[TimestampedLine]) -> list[TimestampedLine]:
        if self.since:
            lines = [line for line in lines if line[0] >= self.since]
        if not self.text:
            return lines
        text = self.text.casefold()
        return [line for line in lines if text in line[1].casefold()]


class LogPosition(Struct):
    """A position between two lines: `lines_after_chunk` lines after the end of chunk `chunk_number`.

    `engine_position` is the same position in the engine's log, or one before it.
    """

    chunk_number: int = -1
    engine_position: int = 0
    lines_after_chunk: int = 0


class LogReader:
    def __init__(self, store: Store, source: LogTailer, cluster_id: str, pod_uid: str, query: LogQuery) -> None:
        self._store = store
        self._source = source
        self._cluster_id = cluster_id
        self._pod_uid = pod_uid
        self._query = query
        self._position = LogPosition()
        self._lines_to_skip = 0

    async def seek_to_tail(self, asked_at: int) -> int:
        """Move to the first of the last `tail` lines and return their number.

        Lines printed after `asked_at` do not delay this.
        """
        uid, query = self._pod_uid, self._query
        number, position = await self._store.read_inline(lambda tx: log_chunks.last_chunk(tx, uid))
        self._position = LogPosition(number, position)
        count = 0
        while (piece := await self._read_piece()) is not None:
            count += len(query.filter_lines(piece))
            if piece[-1:] and piece[-1][0] > asked_at:
                break
        self._position = LogPosition(number, position)
        if count < query.tail:
            first, stored = await self._store.read(
                lambda tx: _find_start_chunk(tx, uid, number, query, query.tail - count)
            )
            self._position = LogPosition(first - 1)
            count += stored
        self._lines_to_skip = max(0, count - query.tail)
        return count - self._lines_to_skip

    async def read_next(self) -> list[TimestampedLine] | None:
        """The matching lines of the next piece, possibly none; None at the current end of the log."""
        piece = await self._read_piece()
        if piece is None:
            return None
        matching = self._query.filter_lines(piece)
        skipped = min(self._lines_to_skip, len(matching))
        self._lines_to_skip -= skipped
        return matching[skipped:]

    async def _read_piece(self) -> list[TimestampedLine] | None:
        while True:
            if chunk := await self._next_chunk():
                return await self._read_chunk(chunk)
            new_lines = await self._source.tail(
                self._cluster_id, self._pod_uid, self._position.engine_position, MAX_PIECE_LINES
            )
            if new_lines:
                self._position.lines_after_chunk += len(new_lines)
                self._position.engine_position = new_lines[-1].position
                return [(line.at, line.text) for line in new_lines]
            if not await self._next_chunk():  # the lines may have moved to the store meanwhile
                return None

    async def _next_chunk(self) -> LogChunkHeader | None:
        return await self._store.read_inline(
            lambda tx: log_chunks.next_chunk(tx, self._pod_uid, self._position.chunk_number)
        )

    async def _read_chunk(self, chunk: LogChunkHeader) -> list[TimestampedLine]:
        """The lines of a chunk that were not already read from the engine."""
        position = self._position
        has_gap = 0 <= position.chunk_number < chunk.number - 1
        read_count, lines = position.lines_after_chunk, []
        if chunk.position > position.engine_position:
            lines = (await self._store.read(lambda tx: log_chunks.read_lines(tx, self._pod_uid, chunk.number)))[
                read_count:
            ]
            position.engine_position = chunk.position
        position.chunk_number, position.lines_after_chunk = chunk.number, max(0, read_count - chunk.lines)
        return [(chunk.first_at, GAP_MESSAGE), *lines] if has_gap else lines


def _find_start_chunk(transaction: Transaction, uid: str, newest: int, query: LogQuery, wanted: int) -> tuple[int, int]:
    """The chunk with the first of the last `wanted` matching lines, and the number of matches from that chunk on."""
    first, found = newest + 1, 0
    while found < wanted and (chunk := log_chunks.previous_chunk(transaction, uid, first, query.since)):
        first = chunk.number
        if query.text or chunk.first_at < query.since:
            found += len(query.filter_lines(log_chunks.read_lines(transaction, uid, first)))
        else:
            found += chunk.lines
    return first, found
