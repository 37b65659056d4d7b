"""The frames in which a container without a terminal sends stdout and stderr over one connection: one byte for the
stream, three zero bytes, four bytes for the length, then the content."""

from collections.abc import AsyncIterator

from msgspec import Struct

STDOUT = 1
STDERR = 2
_HEADER_BYTES = 8


class StreamFrame(Struct, frozen=True):
    stream: int
    content: bytes


class FrameDecoder:
    """Frames from pieces of any size; what is incomplete waits for the next piece."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> list[StreamFrame]:
        """The frames that this piece completes."""
        self._buffer += piece
        frames = []
        at = 0
        while len(self._buffer) - at >= _HEADER_BYTES:
            length = int.from_bytes(self._buffer[at + 4 : at + _HEADER_BYTES], "big")
            end = at + _HEADER_BYTES + length
            if end > len(self._buffer):
                break
            frames.append(StreamFrame(self._buffer[at], bytes(self._buffer[at + _HEADER_BYTES : end])))
            at = end
        del self._buffer[:at]
        return frames


async def read_frames(pieces: AsyncIterator[bytes]) -> AsyncIterator[StreamFrame]:
    decoder = FrameDecoder()
    async for piece in pieces:
        for frame in decoder.feed(piece):
            yield frame


async def read_lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream of JSON objects."""
    buffer = b""
    async for piece in pieces:
        *lines, buffer = (buffer + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
    if buffer.strip():
        yield buffer
