"""Answers that are written while they are made, and how many of them one user may have open.

Of such an answer only the piece that is being written is held. A reader that takes nothing for as long as a request may
take is cut off by the connection; an answer that cannot be finished is broken off, so it never looks whole.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from stoker.api.families import Family, encode
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import Actor

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
KEEP_ALIVE = b": keep-alive\n\n"
RETRY_SECONDS = 5

S = TypeVar("S")
T = TypeVar("T")


class Stream(Struct, frozen=True):
    """What an endpoint gives in place of a result."""

    pieces: AsyncIterator[bytes]
    media_type: str = EVENT_STREAM


class LongList(Struct, frozen=True):
    """A result that is a list in parts, of which only one is held."""

    parts: AsyncIterator[Sequence[Any]]

    def written(self, family: Family, trace_id: str) -> Stream:
        return Stream(enveloped(family, trace_id, _array(self.parts)), JSON)


async def listed(parts: AsyncIterator[Sequence[S]], view: Callable[[S], T]) -> list[T] | LongList:
    """A list that is read in parts: as it is when there is only one, else written while it is read."""
    first = await anext(parts, [])
    second = await anext(parts, None)
    if second is None:
        return [view(item) for item in first]
    return LongList(_viewed((first, second), parts, view))


async def enveloped(family: Family, trace_id: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The family's envelope around what is written while it is made."""
    head, tail = family.success(b"\0", trace_id).split(b"\0")
    yield head
    async for piece in pieces:
        yield piece
    yield tail


async def _viewed(
    begun: Sequence[Sequence[S]], rest: AsyncIterator[Sequence[S]], view: Callable[[S], T]
) -> AsyncIterator[list[T]]:
    for part in begun:
        yield [view(item) for item in part]
    async for part in rest:
        yield [view(item) for item in part]


async def _array(parts: AsyncIterator[Sequence[Any]]) -> AsyncIterator[bytes]:
    joint = b"["
    async for part in parts:
        if part:
            yield joint + encode(part)[1:-1]
            joint = b","
    yield b"]" if joint == b"," else b"[]"


class OpenStreams:
    """Counts the streams of each user."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    async def response(self, stream: Stream, actor: Actor | None) -> "StreamedResponse":
        """The answer, which counts until it has ended; 429 when the user has too many."""
        who = actor.user_id if actor else ""
        if self._open[who] >= self._limit:
            await _close(stream.pieces)
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"You have {self._limit} streams open, which is the limit of one user.",
                hint="Close one, or ask for the setting stream_limit to be raised.",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._open[who] += 1
        return StreamedResponse(stream, self, who)

    def closed(self, who: str) -> None:
        self._open[who] -= 1
        if not self._open[who]:
            del self._open[who]


class StreamedResponse(StreamingResponse):
    def __init__(self, stream: Stream, streams: OpenStreams, who: str) -> None:
        super().__init__(stream.pieces, media_type=stream.media_type, headers={"Cache-Control": "no-store"})
        self._pieces = stream.pieces
        self._streams = streams
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                self.body_iterator = _nothing()
            await super().__call__(scope, receive, send)
        finally:
            self._streams.closed(self._who)
            await _close(self._pieces)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _close(pieces: AsyncIterator[bytes]) -> None:
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()
