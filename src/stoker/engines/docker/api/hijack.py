"""Connections that change from HTTP to a stream of bytes in both directions, each of which can end on its own.

HTTP libraries cannot end one direction of a TLS connection, so these connections are opened here.
"""

import asyncio
import contextlib
import ssl
from typing import Protocol

_CHUNK_BYTES = 65_536
_MAX_HEAD_BYTES = 65_536
_END_OF_HEAD = b"\r\n\r\n"
_SWITCHING_PROTOCOLS = 101


class ByteChannel(Protocol):
    async def read(self) -> bytes:
        """Bytes; empty at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def close_writing(self) -> None: ...

    async def close(self) -> None: ...


class PlainChannel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(_CHUNK_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close_writing(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class TlsChannel:
    """TLS over a plain channel. To end a direction is a notice to the other side, which may go on sending."""

    def __init__(self, below: PlainChannel, context: ssl.SSLContext, host: str) -> None:
        self._below = below
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._receive():
                    raise ConnectionResetError("the connection was closed during the handshake") from None
            else:
                await self._flush()
                return

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(_CHUNK_BYTES)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._receive():
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await self._flush()

    async def close_writing(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # the other side has not ended its direction yet
            self._tls.unwrap()
        await self._flush()

    async def close(self) -> None:
        await self._below.close()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._below.write(self._outgoing.read())

    async def _receive(self) -> bool:
        data = await self._below.read()
        if data:
            self._incoming.write(data)
        return bool(data)


class HijackedStream:
    """A connection after its change; failures are its end."""

    def __init__(self, channel: ByteChannel, first: bytes) -> None:
        self._channel = channel
        self._first = first

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        try:
            return await self._channel.read()
        except OSError:  # also of TLS
            return b""

    async def write(self, data: bytes) -> None:
        """Write; what nobody reads any more is dropped."""
        with contextlib.suppress(OSError):
            await self._channel.write(data)

    async def close_writing(self) -> None:
        with contextlib.suppress(OSError):
            await self._channel.close_writing()

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            await self._channel.close()


async def upgrade(channel: ByteChannel, path: str, body: bytes) -> tuple[int, bytes]:
    """Ask for the change; the status of the answer, and what was sent behind its head."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    await channel.write(head.encode() + body)
    received = b""
    while _END_OF_HEAD not in received:
        piece = await channel.read()
        if not piece or len(received) > _MAX_HEAD_BYTES:
            raise ConnectionResetError("the answer is not HTTP")
        received += piece
    answer, _, rest = received.partition(_END_OF_HEAD)
    status = answer.split(maxsplit=2)[1]
    if not status.isdigit():
        raise ConnectionResetError("the answer is not HTTP")
    if int(status) != _SWITCHING_PROTOCOLS:
        length = _content_length(answer)
        while len(rest) < length and (piece := await channel.read()):
            rest += piece
    return int(status), rest


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0
