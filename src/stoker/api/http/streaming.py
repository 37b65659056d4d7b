"""Streamed responses, and the limit of how many one user may have open.

Only the chunk that is being written is in memory. The connection of a client that reads nothing for the request timeout
is closed; a response that cannot be completed is aborted, so it never looks complete.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from stoker.api.http.families import ApiFamily, encode_json
from stoker.api.http.negotiation import JSON_MEDIA_TYPE
from stoker.api.http.sse import SSE_MEDIA_TYPE
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError

RETRY_AFTER_SECONDS = 5

S = TypeVar("S")
T = TypeVar("T")


class Stream(Struct, frozen=True):
    """Returned by an endpoint instead of a result."""

    chunks: AsyncIterator[bytes]
    media_type: str = SSE_MEDIA_TYPE


class StreamedList(Struct, frozen=True):
    """A result that is a list, read in batches of which one is in memory."""

    batches: AsyncIterator[Sequence[Any]]

    def to_stream(self, family: ApiFamily, trace_id: str) -> Stream:
        return Stream(wrap_stream(family, trace_id, _json_array(self.batches)), JSON_MEDIA_TYPE)


async def list_or_stream(batches: AsyncIterator[Sequence[S]], view: Callable[[S], T]) -> list[T] | StreamedList:
    """A plain list if there is only one batch, else a streamed one."""
    first = await anext(batches, [])
    second = await anext(batches, None)
    if second is None:
        return [view(item) for item in first]
    return StreamedList(_map_batches((first, second), batches, view))


async def wrap_stream(family: ApiFamily, trace_id: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The family's envelope around a streamed result."""
    head, tail = family.wrap_result(b"\0", trace_id).split(b"\0")
    yield head
    async for chunk in chunks:
        yield chunk
    yield tail


async def _map_batches(
    first: Sequence[Sequence[S]], rest: AsyncIterator[Sequence[S]], view: Callable[[S], T]
) -> AsyncIterator[list[T]]:
    for batch in first:
        yield [view(item) for item in batch]
    async for batch in rest:
        yield [view(item) for item in batch]


async def _json_array(batches: AsyncIterator[Sequence[Any]]) -> AsyncIterator[bytes]:
    separator = b"["
    async for batch in batches:
        if batch:
            yield separator + encode_json(batch)[1:-1]
            separator = b","
    yield b"]" if separator == b"," else b"[]"


class StreamLimiter:
    """Counts the open streams of each user."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open_by_user: Counter[str] = Counter()

    async def open_response(self, stream: Stream, actor: Actor | None) -> "StreamedResponse":
        """The response, which counts until it ends; 429 if the user has too many."""
        user_id = actor.user_id if actor else ""
        if self._open_by_user[user_id] >= self._limit:
            await _close_stream(stream.chunks)
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"You have {self._limit} streams open, which is the limit per user.",
                hint="Close one, or have the setting stream_limit raised.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        self._open_by_user[user_id] += 1
        return StreamedResponse(stream, self, user_id)

    def release(self, user_id: str) -> None:
        self._open_by_user[user_id] -= 1
        if not self._open_by_user[user_id]:
            del self._open_by_user[user_id]


class StreamedResponse(StreamingResponse):
    def __init__(self, stream: Stream, limiter: StreamLimiter, user_id: str) -> None:
        super().__init__(stream.chunks, media_type=stream.media_type, headers={"Cache-Control": "no-store"})
        self._chunks = stream.chunks
        self._limiter = limiter
        self._user_id = user_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                self.body_iterator = _empty_stream()
            await super().__call__(scope, receive, send)
        finally:
            self._limiter.release(self._user_id)
            await _close_stream(self._chunks)


async def _empty_stream() -> AsyncIterator[bytes]:
    return
    yield b""


async def _close_stream(chunks: AsyncIterator[bytes]) -> None:
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()
