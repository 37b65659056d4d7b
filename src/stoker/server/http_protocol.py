"""The HTTP connection with its limits: number of connections, size of the head, and timeouts.

These limits apply before a request exists, so the application cannot enforce them. Rejections have the error format of
the family whose path was requested, and are sent after the responses to all earlier requests.
"""

import asyncio
import logging
from enum import Enum, auto
from typing import cast

import httptools
import uvicorn
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from stoker.api.http.auth import SAFE_METHODS, request_origin, request_trace_id
from stoker.api.http.connection import CONNECTION_STATE_KEY
from stoker.api.http.error_bodies import HTTP_STATUS, write_outcome_unknown
from stoker.api.http.families import encode_json, family_for_path
from stoker.api.http.security_headers import RAW_SECURITY_HEADERS
from stoker.domain.access.addresses import client_network
from stoker.domain.access.peers import ProcessOwnerResolver
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings
from stoker.server.accepted_connection import AcceptedConnection
from stoker.server.websocket_protocol import WebSocketProtocol
from stoker.services.identity.authentication import is_address_in_networks

access_log = logging.getLogger("stoker.access")

LINGER_SECONDS = 1.0
MAX_PIPELINED_REQUESTS = 100
MAX_WEBSOCKET_URL_BYTES = 8000
"""The limit of a WebSocket, whose request line is read with at most 8,192 bytes."""
STREAM_SHUTDOWN_SECONDS = 1.0
RESPONSE_SHUTDOWN_SECONDS = 3.0
_RETRY_AFTER_STATUSES = frozenset({429, 503})


class ReceiveState(Enum):
    """The part of a request that is being received."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with these limits."""

    def __init__(
        self, settings: Settings, config: uvicorn.Config, server_state: ServerState, processes: ProcessOwnerResolver
    ) -> None:
        super().__init__(config, server_state, {})
        self.app = self._close_if_body_unread(cast("ASGIApp", config.loaded_app))
        self._processes = processes
        self._settings = settings
        self._receive_state = ReceiveState.IDLE
        self._unparsed_bytes = 0  # since the last complete head, body chunk or request
        self._active_cycle: RequestResponseCycle | None = None
        self._pending_error: StokerError | None = None
        self._ignores_input = False
        self._closes_after_response = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyrefly: ignore[bad-override]
        super().connection_made(transport)
        self.app_state = {CONNECTION_STATE_KEY: AcceptedConnection(transport, self._processes)}
        limit = self._settings.connection_limit
        if len(self.connections) > limit:
            message = f"All {limit} connections of this server are taken. Try again in a second."
            self._send_error(StokerError(ErrorCode.UNAVAILABLE, message))
        elif self._exceeds_peer_limit():
            most = self._settings.peer_connection_limit
            message = f"This address has {most} connections open, which is the limit of one. Close some."
            self._send_error(StokerError(ErrorCode.TOO_MANY_REQUESTS, message))
        else:
            self._start_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_read_timer()
        self.resume_writing()
        if self._active_cycle is not None:
            _disconnect(self._active_cycle)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser no more bytes than may still belong to the head, so that the limit is exact."""
        self._unset_keepalive_if_required()
        while data and not self._ignores_input and not self.transport.is_closing():
            room = self._settings.header_limit_bytes - self._unparsed_bytes
            data = self._feed(data[:room]) + data[room:]
        begun = self._receive_state is ReceiveState.HEAD or (
            self._receive_state is ReceiveState.IDLE and self._unparsed_bytes > 0
        )
        if begun and self._read_timer is None and not self._ignores_input:
            self._start_read_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._settings.request_timeout_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def shutdown(self) -> None:
        """Finish responses in progress; those without an end are waited for only briefly."""
        super().shutdown()
        if (cycle := self._active_cycle) is not None:
            endless = cycle.response_started and cycle.chunked_encoding
            self.loop.call_later(
                STREAM_SHUTDOWN_SECONDS if endless else RESPONSE_SHUTDOWN_SECONDS, self._abort_response
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._receive_state = ReceiveState.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are ignored: the headers that decide about a request come before its body.
        if self._receive_state is ReceiveState.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT" and not self._should_upgrade():
            return
        self._validate_head()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            return
        self._cancel_read_timer()
        self._receive_state = ReceiveState.BODY
        self._unparsed_bytes = 0
        if not self.pipeline:
            self._active_cycle = self.cycle

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._cancel_read_timer()
        self._receive_state = ReceiveState.IDLE
        self._unparsed_bytes = 0
        super().on_message_complete()
        if self.cycle.response_complete:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        self._active_cycle = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._active_cycle is not None or self.transport.is_closing():
            return
        if self._closes_after_response:
            self._linger_and_close()
        elif self._pending_error is not None:
            self._send_error(self._pending_error)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self._cancel_read_timer()
        self._ignores_input = True
        socket = self.transport.get_protocol()
        problem = socket.conn.handshake_exc if isinstance(socket, WebSocketProtocol) else None
        if problem is not None:
            self.connections.discard(socket)
            self.transport.set_protocol(self)
            self._send_error(_bad_request(f"This WebSocket cannot be opened: {problem.__cause__ or problem}."))

    def _close_if_body_unread(self, app: ASGIApp) -> ASGIApp:
        """The application, wrapped so that a response that begins before the request's body was read closes the
        connection.

        Otherwise neither the client could know whether to send the rest of the body, nor the server where the next
        request begins.
        """

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            async def answer(message: Message) -> None:
                cycle = self._active_cycle
                if message["type"] != "http.response.start" or cycle is None or not cycle.more_body:
                    await send(message)
                    return
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
                self._closes_after_response = True
                await send(message)
                cycle.keep_alive = True  # else uvicorn closes immediately at the end of the response

            await app(scope, receive, answer)

        return served

    def _feed(self, data: bytes) -> bytes:
        """Parse data; returns the part that belongs to the next request."""
        self._unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._reject(_to_error(error))
        else:
            if self._unparsed_bytes >= (limit := self._settings.header_limit_bytes):
                message = f"The request's head is larger than {limit} bytes."
                self._reject(StokerError(ErrorCode.HEADERS_TOO_LARGE, message))
        return b""

    def _upgrade(self, rest: bytes) -> bytes:
        """Upgrade to a WebSocket. A request for any other protocol is parsed again without its upgrade header.

        The parser skips the body of a request with an upgrade header, which some clients always send.
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
        self._unparsed_bytes = 0
        return b"\r\n".join(lines) + b"\r\n\r\n" + rest

    def _validate_head(self) -> None:
        """Check the head; the parser reports the raised error and stops."""
        if self.parser.get_method() == b"CONNECT":
            raise _bad_request("This server is no proxy: CONNECT is not possible.")
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            raise _bad_request(f"A request has one Host header; this one has {hosts or 'none'}.")
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            raise _bad_request("The only Transfer-Encoding that is understood is chunked.")
        if self.parser.should_upgrade() and self._active_cycle is not None:
            raise _bad_request("A WebSocket cannot be opened before the requests before it are answered.")
        if self._should_upgrade() and len(self.url) > MAX_WEBSOCKET_URL_BYTES:
            raise StokerError(
                ErrorCode.HEADERS_TOO_LARGE,
                f"A command has at most {MAX_WEBSOCKET_URL_BYTES} bytes, encoded and with its arguments; "
                f"not {len(self.url)}.",
                hint="Send what is long as its input, for example: stoker exec POD -- sh < script.sh",
            )
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            message = f"More than {MAX_PIPELINED_REQUESTS} requests wait on this connection. Read their answers first."
            raise StokerError(ErrorCode.TOO_MANY_REQUESTS, message)

    def _exceeds_peer_limit(self) -> bool:
        """Whether this peer has more connections than one peer may have."""
        most = self._settings.peer_connection_limit
        peer = _peer_address(self)
        if len(self.connections) <= most or is_address_in_networks(peer, self._settings.trusted_proxies):
            return False
        return sum(client_network(_peer_address(each)) == client_network(peer) for each in self.connections) > most

    def _start_read_timer(self) -> None:
        self._cancel_read_timer()
        self._read_timer = self.loop.call_later(self._settings.request_timeout_seconds, self._on_read_timeout)

    def _on_read_timeout(self) -> None:
        if self._active_cycle is not None:  # the server is the slow side
            self._start_read_timer()
        else:
            self.transport.close()

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _abort_response(self) -> None:
        """Abort the unfinished response, because the server stops."""
        if (cycle := self._active_cycle) is None or self.transport.is_closing():
            return
        _disconnect(cycle)
        if not cycle.response_started:
            self._send_error(_shutdown_error(cycle), dict(cycle.scope))
        elif self.flow.write_paused:
            self.transport.abort()
        else:
            self.transport.close()

    def _reject(self, error: StokerError) -> None:
        """Send the error as soon as it cannot be mistaken for the response to another request."""
        self._ignores_input = True
        if self._receive_state is ReceiveState.BODY:
            _disconnect(self.cycle)
            if self.cycle is self._active_cycle and not self.cycle.response_started:
                self._send_error(error)
            else:
                self.transport.close()
        elif self._active_cycle is not None:
            self._pending_error = error
            self.flow.pause_reading()
        else:
            self._send_error(error)

    def _send_error(self, error: StokerError, asked: Scope | None = None) -> None:
        """Send an error in place of the application, and close."""
        asked = asked or self._partial_scope()
        path = asked["raw_path"].decode("ascii", "backslashreplace")
        trace_id = request_trace_id(HTTPConnection(asked))
        status = HTTP_STATUS[error.code]
        content = encode_json(family_for_path(path).to_error(error, status, trace_id))
        fields = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            (b"x-trace-id", trace_id.encode()),
            *RAW_SECURITY_HEADERS,
            *([(b"retry-after", b"1")] if status in _RETRY_AFTER_STATUSES else []),
            (b"connection", b"close"),
        ]
        self.transport.write(
            STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % field for field in fields) + b"\r\n" + content
        )
        self._linger_and_close()
        address = request_origin(HTTPConnection(asked), self._settings, trace_id).address
        extra = {"trace_id": trace_id, "address": address}
        access_log.info("%s %s %d", asked["method"], path[:200] or "-", status, extra=extra)

    def _linger_and_close(self) -> None:
        """Close when the client has closed, or after a short time.

        Closing immediately would reset the connection while the client still sends, and the client would not see the
        response.
        """
        self._ignores_input = True
        self._cancel_read_timer()
        self.connections.discard(self)
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._read_timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _partial_scope(self) -> Scope:
        """The known part of a request that was not received completely."""
        if self._receive_state is ReceiveState.IDLE:
            return {
                "type": "http",
                "client": self.client,
                "state": self.app_state,
                "method": "-",
                "raw_path": b"",
                "headers": [],
            }
        return {
            "type": "http",
            "client": self.client,
            "state": self.app_state,
            "method": self.parser.get_method().decode() if self.url else "-",
            "raw_path": self.url.partition(b"?")[0],
            "headers": self.headers,
        }


def _peer_address(connection: object) -> str:
    client = getattr(connection, "client", None)
    return client[0] if client else ""


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Notify the application that the client has disconnected."""
    if not cycle.response_complete:
        cycle.disconnected = True
    cycle.message_event.set()


def _shutdown_error(cycle: RequestResponseCycle) -> StokerError:
    """The error for a request that the shutdown does not wait for. A write that was received completely may have been
    committed."""
    message, method = "The server is being stopped.", cycle.scope["method"]
    if cycle.more_body or method in SAFE_METHODS:
        return StokerError(ErrorCode.UNAVAILABLE, message)
    return write_outcome_unknown(message, HTTPConnection(dict(cycle.scope)), idempotent=method == "POST")


def _without_upgrade(connection: bytes) -> bytes:
    return b",".join(token for token in connection.split(b",") if token.strip().lower() != b"upgrade")


def _to_error(error: httptools.HttpParserError) -> StokerError:
    if isinstance(error.__context__, StokerError):
        return error.__context__
    why = "" if isinstance(error, httptools.HttpParserCallbackError) else f": {error}"
    return _bad_request(f"This is not a well-formed HTTP request{why}.")


def _bad_request(message: str) -> StokerError:
    return StokerError(ErrorCode.BAD_REQUEST, message)
