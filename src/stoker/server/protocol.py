"""The HTTP connection itself: how many there may be, how large a head, how long it may take to arrive.

These limits hold before a request exists, so they cannot be kept by the application.
"""

import asyncio
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from stoker.api.families import STATUS, encode, family_of
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings import Settings


def limited_protocol(settings: Settings) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with these limits."""

    class LimitedProtocol(HttpToolsProtocol):
        _unfinished_head = 0
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyrefly: ignore[bad-override]
            super().connection_made(transport)
            if len(self.connections) > settings.connection_limit:
                message = (
                    f"All {settings.connection_limit} connections of this server are taken. Try again in a second."
                )
                self._refuse(StokerError(ErrorCode.BACKEND_DOWN, message))
                return
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            self._unfinished_head += len(data)
            super().data_received(data)
            if self._unfinished_head > settings.header_limit_bytes and not self.transport.is_closing():
                self._refuse_head()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._head_timer is None:
                self._await_head()

        def on_headers_complete(self) -> None:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            self._stop_timer()
            if size > settings.header_limit_bytes:
                self._refuse_head()
                return
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unfinished_head = 0
            if self.cycle is not None:
                super().on_body(body)

        def on_message_complete(self) -> None:
            self._unfinished_head = 0
            if self.cycle is not None:
                super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            self._refuse(StokerError(ErrorCode.BAD_REQUEST, "This is not an HTTP request."))

        def _await_head(self) -> None:
            self._head_timer = self.loop.call_later(settings.request_timeout_seconds, self.transport.close)

        def _stop_timer(self) -> None:
            self._unfinished_head = 0
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _refuse_head(self) -> None:
            message = f"The request's head is larger than {settings.header_limit_bytes} bytes."
            self._refuse(StokerError(ErrorCode.HEADERS_TOO_LARGE, message))

        def _refuse(self, error: StokerError) -> None:
            """Answer without a request, in the words of the family whose path was asked for."""
            url: bytes = getattr(self, "url", b"")
            family = family_of(url.partition(b"?")[0].decode("ascii", "replace"))
            trace_id = secrets.token_hex(16)
            status = STATUS[error.code]
            content = encode(family.failure(error, status, trace_id))
            head: list[Any] = [
                STATUS_LINE[status],
                b"content-type: application/json\r\n",
                b"content-length: %d\r\n" % len(content),
                b"x-trace-id: %b\r\n" % trace_id.encode(),
                b"retry-after: 1\r\n" if status == 503 else b"",
                b"connection: close\r\n\r\n",
            ]
            self.transport.write(b"".join(head) + content)
            self.transport.close()

    return LimitedProtocol
