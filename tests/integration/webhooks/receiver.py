"""A webhook receiver on this machine: records requests and returns scripted responses."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from msgspec import Struct
from standardwebhooks.webhooks import Webhook

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
HANG = b""
"""Say nothing, for ever."""


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {code} Said", f"content-length: {len(body)}", "connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Received(Struct, frozen=True):
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def payload(self) -> dict[str, Any]:
        return json.loads(self.body)

    def verified(self, secret: str) -> dict[str, Any]:
        """What it says, if it was signed with this secret just now."""
        return Webhook(secret).verify(self.body, self.headers)


class Receiver:
    """Gives the `answers` one after the other, and then OK."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[bytes] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?team=1"

    @classmethod
    @contextlib.asynccontextmanager
    async def listening(cls, tls: ssl.SSLContext | None = None) -> AsyncIterator[Self]:
        receiver = cls()
        server = await asyncio.start_server(receiver._take, "127.0.0.1", 0, ssl=tls)
        receiver.port = server.sockets[0].getsockname()[1]
        async with server:
            yield receiver

    async def until(self, check: Callable[[list[Received]], bool]) -> list[Received]:
        async with asyncio.timeout(20):
            while not check(self.received):
                await asyncio.sleep(0.01)
        return self.received

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.split(": ", 1) for line in head[1:] if line)
            headers = {name.lower(): value for name, value in pairs}
            self.received.append(Received(headers, await reader.readexactly(int(headers["content-length"]))))
            if answer := self.answers.pop(0) if self.answers else OK:
                writer.write(answer)
                await writer.drain()
            else:
                await reader.read()  # until the other side has had enough
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
