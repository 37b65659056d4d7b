"""The HTTP connection itself: how many there may be, how large a head, how long a client may let us wait.

These limits hold before a request exists, so they cannot be kept by the application. What is refused here is refused
in the words of the family whose path was asked for, and only after every request before it has been answered.
"""

import asyncio
import logging
from enum import Enum, auto

import httptools
import uvicorn
from starlette.requests import HTTPConnection
from starlette.types import Scope
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidHandshake
from websockets.http11 import Request as Handshake

from stoker.api.callers import origin_of, trace_id_of
from stoker.api.families import STATUS, encode, family_of
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings import Settings
from stoker.services.authentication import inside

access_log = logging.getLogger("stoker.access")

LINGER_SECONDS = 1.0
PIPELINE_LIMIT = 100
SOCKET_URL_LIMIT = 8000
"""Of a WebSocket, whose request line is read with at most 8,192 bytes."""
NOT_TEXT = 1007
"""The code of the WebSocket protocol for text that is not UTF-8."""
STREAM_GRACE_SECONDS = 1.0
ANSWER_GRACE_SECONDS = 3.0
_RETRY_LATER = frozenset({429, 503})


class Part(Enum):
    """What of a request is arriving."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with these limits."""

    def __init__(self, settings: Settings, config: uvicorn.Config, server_state: ServerState) -> None:
        super().__init__(config, server_state, {})
        self._settings = settings
        self._part = Part.NOTHING
        self._loose_bytes = 0  # since the last head, piece of a body or request was complete
        self._answering: RequestResponseCycle | None = None
        self._refusal: StokerError | None = None
        self._deaf = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyrefly: ignore[bad-override]
        super().connection_made(transport)
        limit = self._settings.connection_limit
        if len(self.connections) > limit:
            message = f"All {limit} connections of this server are taken. Try again in a second."
            self._say(StokerError(ErrorCode.BACKEND_DOWN, message))
        elif self._is_one_of_too_many():
            most = self._settings.peer_connection_limit
            message = f"This address has {most} connections open, which is the limit of one. Close some."
            self._say(StokerError(ErrorCode.TOO_MANY_REQUESTS, message))
        else:
            self._limit_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self.resume_writing()
        if self._answering is not None:
            _disconnect(self._answering)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser no more than may still belong to the head, so that the limit is exact."""
        self._unset_keepalive_if_required()
        while data and not self._deaf and not self.transport.is_closing():
            room = self._settings.header_limit_bytes - self._loose_bytes
            data = self._feed(data[:room]) + data[room:]
        begun = self._part is Part.HEAD or (self._part is Part.NOTHING and self._loose_bytes > 0)
        if begun and self._read_timer is None and not self._deaf:
            self._limit_wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._settings.request_timeout_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def shutdown(self) -> None:
        """Answers under way are finished, but those that may have no end are not waited for as long."""
        super().shutdown()
        if (cycle := self._answering) is not None:
            endless = cycle.response_started and cycle.chunked_encoding
            self.loop.call_later(STREAM_GRACE_SECONDS if endless else ANSWER_GRACE_SECONDS, self._cut_off)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._part = Part.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part is Part.HEAD:  # a trailer is none: what decides about a request comes before its body
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT" and not self._should_upgrade():
            return
        self._check_head()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            return
        self._stop_waiting()
        self._part = Part.BODY
        self._loose_bytes = 0
        if not self.pipeline:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._stop_waiting()
        self._part = Part.NOTHING
        self._loose_bytes = 0
        super().on_message_complete()
        if self.cycle.response_complete:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._answering is not None or self.transport.is_closing():
            return
        if self._refusal is not None:
            self._say(self._refusal)
        elif self._part is Part.BODY:  # answered without its body, which must not take for ever to arrive
            self._limit_wait()

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self._stop_waiting()
        self._deaf = True
        socket = self.transport.get_protocol()
        problem = socket.conn.handshake_exc if isinstance(socket, SocketProtocol) else None
        if problem is not None:
            self.connections.discard(socket)
            self.transport.set_protocol(self)
            self._say(_bad_request(f"This WebSocket cannot be opened: {problem.__cause__ or problem}."))

    def _feed(self, data: bytes) -> bytes:
        """Parse this; what is returned comes next."""
        self._loose_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(_problem(error))
        else:
            if self._loose_bytes >= (limit := self._settings.header_limit_bytes):
                message = f"The request's head is larger than {limit} bytes."
                self._refuse(StokerError(ErrorCode.HEADERS_TOO_LARGE, message))
        return b""

    def _upgrade(self, rest: bytes) -> bytes:
        """Go over to a WebSocket. Any other protocol is not spoken here: the same request without that wish is next.

        The parser leaves out the body of a request that wishes for another protocol; some clients always do.
        """
        if self._should_upgrade():
            self.handle_websocket_upgrade()
            return b""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            kept = _without_upgrade(value) if name == b"connection" else value
            lines.append(b"%b: %b" % (name, kept))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self._loose_bytes = 0
        return b"\r\n".join(lines) + b"\r\n\r\n" + rest

    def _check_head(self) -> None:
        """Raises what the parser then reports as its error, without reading on."""
        if self.parser.get_method() == b"CONNECT":
            raise _bad_request("This server is no proxy: CONNECT is not possible.")
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise _bad_request(f"A request has one Host header; this one has {hosts or 'none'}.")
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            raise _bad_request("The only Transfer-Encoding that is understood is chunked.")
        if self.parser.should_upgrade() and self._answering is not None:
            raise _bad_request("A WebSocket cannot be opened before the requests before it are answered.")
        if self._should_upgrade() and len(self.url) > SOCKET_URL_LIMIT:
            raise StokerError(
                ErrorCode.HEADERS_TOO_LARGE,
                f"A command has at most {SOCKET_URL_LIMIT} bytes, encoded and with its arguments; not {len(self.url)}.",
                hint="Send what is long as its input, for example: stoker exec POD -- sh < script.sh",
            )
        if len(self.pipeline) >= PIPELINE_LIMIT:
            message = f"More than {PIPELINE_LIMIT} requests wait on this connection. Read their answers first."
            raise StokerError(ErrorCode.TOO_MANY_REQUESTS, message)

    def _is_one_of_too_many(self) -> bool:
        """Whether this peer has more connections than one may have."""
        most = self._settings.peer_connection_limit
        peer = _peer_of(self)
        if len(self.connections) <= most or inside(peer, self._settings.trusted_proxies):
            return False
        return sum(_peer_of(each) == peer for each in self.connections) > most

    def _limit_wait(self) -> None:
        self._stop_waiting()
        self._read_timer = self.loop.call_later(self._settings.request_timeout_seconds, self._give_up)

    def _give_up(self) -> None:
        if self._answering is not None:  # it is we who are slow
            self._limit_wait()
        else:
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _cut_off(self) -> None:
        """The server stops and this answer is not finished."""
        if (cycle := self._answering) is None or self.transport.is_closing():
            return
        _disconnect(cycle)
        if not cycle.response_started:
            self._say(StokerError(ErrorCode.BACKEND_DOWN, "The server is being stopped."), dict(cycle.scope))
        elif self.flow.write_paused:
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, error: StokerError) -> None:
        """Say it as soon as it cannot be taken for the answer to another request."""
        self._deaf = True
        if self._part is Part.BODY:
            _disconnect(self.cycle)
            if self.cycle is self._answering and not self.cycle.response_started:
                self._say(error)
            else:
                self.transport.close()
        elif self._answering is not None:
            self._refusal = error
            self.flow.pause_reading()
        else:
            self._say(error)

    def _say(self, error: StokerError, asked: Scope | None = None) -> None:
        """Answer in place of the application, and close.

        Closing at once would reset the connection under a client that still sends, and it would never see the answer.
        """
        self._deaf = True
        self._stop_waiting()
        self.connections.discard(self)
        asked = asked or self._arriving()
        path = asked["raw_path"].decode("ascii", "backslashreplace")
        trace_id = trace_id_of(HTTPConnection(asked))
        status = STATUS[error.code]
        content = encode(family_of(path).failure(error, status, trace_id))
        fields = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (b"x-trace-id", trace_id.encode()),
            *([(b"retry-after", b"1")] if status in _RETRY_LATER else []),
            (b"connection", b"close"),
        ]
        self.transport.write(
            STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % field for field in fields) + b"\r\n" + content
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._read_timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        address = origin_of(HTTPConnection(asked), self._settings, trace_id).address
        extra = {"trace_id": trace_id, "address": address}
        access_log.info("%s %s %d", asked["method"], path[:200] or "-", status, extra=extra)

    def _arriving(self) -> Scope:
        """What is known of the request that is not there yet."""
        if self._part is Part.NOTHING:
            return {"type": "http", "client": self.client, "method": "-", "raw_path": b"", "headers": []}
        return {
            "type": "http",
            "client": self.client,
            "method": self.parser.get_method().decode() if self.url else "-",
            "raw_path": self.url.partition(b"?")[0],
            "headers": self.headers,
        }


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's, which leaves the refusal of a bad handshake to the connection it came from, and logs no traceback of
    what a client does wrong."""

    def handle_connect(self, event: Handshake) -> None:
        try:
            self.conn.process_request(event)
        except InvalidHandshake as error:
            self.conn.handshake_exc = error
        else:
            super().handle_connect(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent and not _is_text(b"".join(self.frames)):
            self.frames = []
            self.conn.send_close(NOT_TEXT)
            self.handle_parser_exception()
        else:
            super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # or uvicorn complains that a refused socket was never opened


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _peer_of(connection: object) -> str:
    client = getattr(connection, "client", None)
    return client[0] if client else ""


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Tell the application that nobody listens any more."""
    if not cycle.response_complete:
        cycle.disconnected = True
    cycle.message_event.set()


def _without_upgrade(connection: bytes) -> bytes:
    return b",".join(token for token in connection.split(b",") if token.strip().lower() != b"upgrade")


def _problem(error: httptools.HttpParserError) -> StokerError:
    if isinstance(error.__context__, StokerError):
        return error.__context__
    why = "" if isinstance(error, httptools.HttpParserCallbackError) else f": {error}"
    return _bad_request(f"This is not a well-formed HTTP request{why}.")


def _bad_request(message: str) -> StokerError:
    return StokerError(ErrorCode.BAD_REQUEST, message)
