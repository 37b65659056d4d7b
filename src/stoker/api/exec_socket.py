"""Commands in pods, over a WebSocket.

Binary frames carry stdin and stdout. Text frames are JSON: `{"resize": [columns, rows]}` and `{"eof": true}` from the
client, `{"exit": code}` as the last frame from the server. With `stderr=true` and without a terminal, stderr is sent
separately, as `{"stderr": "<Base64>"}`. A session ends when its caller loses the permission.
"""

import asyncio
import base64
import contextlib
import logging
import re
import time
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from stoker.api.exec_limits import ExecLimiter
from stoker.api.http.auth import authenticate, check_browser_origin, request_origin, request_trace_id
from stoker.api.http.endpoint import CREDENTIAL_REQUIRED, FrameSchema, WebSocketEndpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import NATIVE, encode_json
from stoker.api.http.params import Params, ParamsDecoder, UnsplitList, decode_segment, parse_query
from stoker.api.http.prometheus import ServerMetrics
from stoker.api.http.rate_limit import RateLimiter
from stoker.api.http.security_headers import RAW_SECURITY_HEADERS
from stoker.domain.access.permissions import Action, Actor
from stoker.domain.cluster.engine_access import Terminal
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.services.container import ServiceContainer
from stoker.services.outage import DatabaseOutage

log = logging.getLogger("stoker.api")
access_log = logging.getLogger("stoker.access")

EXEC_PATH = re.compile(rb"/api/stoker/v1/workloads/([^/]+)/exec\Z")
SWITCHING_PROTOCOLS = 101
ABNORMAL_CLOSURE = 1006
"""The WebSocket close code of a lost connection."""
MAX_TERMINAL_SIZE = 10_000
RECHECK_SECONDS = 5.0


class ExecParams(Params, frozen=True, kw_only=True):
    """The parameters without `command`, whose words may be empty."""

    name: Annotated[str, Meta(description="Workload ID.")]
    pod: Annotated[str, Meta(description="Pod ID; the first running pod if left out.")] = ""
    tty: Annotated[bool, Meta(description="Run the command in a terminal.")] = True
    stderr: Annotated[bool, Meta(description="Send stderr separately; only without a terminal.")] = False
    columns: Annotated[int, Meta(ge=1, le=MAX_TERMINAL_SIZE, description="Width of the terminal.")] = 80
    rows: Annotated[int, Meta(ge=1, le=MAX_TERMINAL_SIZE, description="Height of the terminal.")] = 24


class ExecQuery(ExecParams, frozen=True, kw_only=True):
    """All parameters, for OpenAPI."""

    command: Annotated[
        UnsplitList, Meta(min_length=1, description="The program and its arguments: one parameter for each word.")
    ]


class ControlFrame(Struct, frozen=True):
    """Sent by the client: the new size as columns and rows, or the end of stdin."""

    resize: tuple[int, int] | None = None
    eof: bool = False


class StderrFrame(Struct, frozen=True):
    """Base64 of what the command wrote to stderr."""

    stderr: str


class ExitFrame(Struct, frozen=True):
    """The last frame: the exit code of the command."""

    exit: int


_control_decoder = msgspec.json.Decoder(ControlFrame)
_params_decoder = ParamsDecoder(ExecParams)

EXEC_ENDPOINT = WebSocketEndpoint(
    path="/api/stoker/v1/workloads/{name}/exec",
    family=NATIVE,
    action=Action.WORKLOAD_EXEC,
    name="execute",
    summary="Run a command in a pod, over a WebSocket.",
    description="Run a command in a pod, over a WebSocket. Errors before the handshake are HTTP responses. The session "
    "ends with the frame `exit`, or when the caller loses the permission.",
    params=ExecQuery,
    frames=(
        FrameSchema("client", "binary", "Input for stdin."),
        FrameSchema("client", "text", "Resizes the terminal, or closes stdin.", ControlFrame),
        FrameSchema("server", "binary", "Output of stdout; with a terminal, of stderr too."),
        FrameSchema("server", "text", "Output of stderr, with `stderr=true` and `tty=false`.", StderrFrame),
        FrameSchema("server", "text", "The exit code; the last frame.", ExitFrame),
    ),
    errors=(ErrorCode.CONFLICT, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.UNAVAILABLE),
)


class ExecSocket:
    def __init__(self, services: ServiceContainer, metrics: ServerMetrics, address_rate_limiter: RateLimiter) -> None:
        self._services = services
        self._limiter = ExecLimiter(services.settings, metrics)
        self._address_rate_limiter = address_rate_limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        trace_id = request_trace_id(socket)
        started = time.perf_counter()
        actor: Actor | None = None
        status = SWITCHING_PROTOCOLS
        try:
            origin = request_origin(socket, self._services.settings, trace_id)
            if not origin.loopback:
                self._address_rate_limiter.acquire(origin.address)
            actor = await self._authenticate(socket, trace_id)
            with self._limiter.acquire(actor):
                terminal = await self._open_terminal(socket, actor)
                with self._limiter.track_session():
                    await self._run_session(socket, trace_id, terminal)
        except StokerError as error:
            status = HTTP_STATUS[error.code]
            self._limiter.count_refusal(error)
            await _send_error(socket, error, trace_id)
        finally:
            extra = {
                "trace_id": trace_id,
                "milliseconds": round((time.perf_counter() - started) * 1000, 2),
                "address": request_origin(socket, self._services.settings, trace_id).address,
                "actor": actor.name if actor else "",
            }
            path = scope.get("raw_path", scope["path"].encode()).decode("ascii", "replace")
            access_log.info("WEBSOCKET %s %d", path, status, extra=extra)

    async def _run_session(self, socket: WebSocket, trace_id: str, terminal: Terminal) -> None:
        """Run until the command ends or the client disconnects. The terminal is always closed."""
        permission_check: asyncio.Task[None] | None = None
        try:
            await _accept_socket(socket, trace_id)
            permission_check = asyncio.create_task(self._watch_permission(socket, trace_id, terminal))
            await _pump_frames(socket, terminal)
        except (WebSocketDisconnect, RuntimeError):
            log.debug("the client of an exec session disconnected")
        finally:
            if permission_check is not None:
                permission_check.cancel()
            await terminal.close()

    async def _watch_permission(self, socket: WebSocket, trace_id: str, terminal: Terminal) -> None:
        """End the session when its caller loses the permission. An unavailable database is waited for."""
        clock = self._services.clock
        outage = DatabaseOutage(clock, self._services.settings.stream_patience_seconds)
        while True:
            await clock.sleep(RECHECK_SECONDS)
            try:
                await self._recheck_permission(socket, trace_id, outage)
            except StokerError as error:
                log.warning("an exec session was ended: %s", error.message, extra={"trace_id": trace_id})
                await terminal.close()
                return

    async def _recheck_permission(self, socket: WebSocket, trace_id: str, outage: DatabaseOutage) -> None:
        """Raise if the caller may no longer run commands in the pod."""
        params = _parse_params(socket)
        while True:
            try:
                actor = await self._authenticate(socket, trace_id)
                await self._services.pod_access.check_may_execute(actor, params.name, params.pod)
            except StokerError as error:
                await outage.wait(error)
            else:
                outage.reset()
                return

    async def _authenticate(self, socket: WebSocket, trace_id: str) -> Actor:
        """The caller. A browser sends its cookie from any page, so only pages of this server are allowed."""
        origin = request_origin(socket, self._services.settings, trace_id)
        check_browser_origin(socket, origin)
        actor = await authenticate(socket, self._services.authentication, origin)
        if actor is None:
            raise StokerError(ErrorCode.UNAUTHENTICATED, CREDENTIAL_REQUIRED)
        return actor

    async def _open_terminal(self, socket: WebSocket, actor: Actor) -> Terminal:
        params = _parse_params(socket)
        command = [word for name, word in parse_query(socket.scope["query_string"]) if name == "command"]
        if not command or not command[0]:
            raise bad_request(
                "command", "it is required: one parameter for the program and one for each argument, in order."
            )
        return await self._services.pod_access.execute(
            actor,
            params.name,
            params.pod,
            command,
            tty=params.tty,
            columns=params.columns,
            rows=params.rows,
            stderr=params.stderr,
        )


def _parse_params(socket: WebSocket) -> ExecParams:
    match = EXEC_PATH.match(socket.scope["raw_path"])
    name = decode_segment(match[1]) if match else None
    if name is None:
        raise StokerError(ErrorCode.NOT_FOUND, "There is no WebSocket here.")
    return _params_decoder(socket.scope["query_string"], {"name": name})


async def _accept_socket(socket: WebSocket, trace_id: str) -> None:
    try:
        await socket.accept(headers=[(b"x-trace-id", trace_id.encode()), *RAW_SECURITY_HEADERS])
    except OSError as error:
        raise WebSocketDisconnect(ABNORMAL_CLOSURE) from error


async def _pump_frames(socket: WebSocket, terminal: Terminal) -> None:
    """Forward input and output until the command ends or the client disconnects, which ends the command."""
    input_task = asyncio.create_task(_receive_input(socket, terminal))
    try:
        await asyncio.gather(_send_stdout(socket, terminal), _send_stderr(socket, terminal))
        code = await terminal.exit_code()
        await socket.send_text(encode_json(ExitFrame(code)).decode())
        await socket.close()
    finally:
        input_task.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect):
            await input_task


async def _send_stdout(socket: WebSocket, terminal: Terminal) -> None:
    while output := await terminal.read():
        await socket.send_bytes(output)


async def _send_stderr(socket: WebSocket, terminal: Terminal) -> None:
    while output := await terminal.read_stderr():
        await socket.send_text(encode_json(StderrFrame(base64.b64encode(output).decode())).decode())


async def _receive_input(socket: WebSocket, terminal: Terminal) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            await terminal.close()
            return
        if data := message.get("bytes"):
            await terminal.write(data)
        elif text := message.get("text"):
            with contextlib.suppress(msgspec.DecodeError):
                await _apply_control(_control_decoder.decode(text), terminal)


async def _apply_control(control: ControlFrame, terminal: Terminal) -> None:
    if control.resize is not None:
        columns, rows = (max(1, min(MAX_TERMINAL_SIZE, size)) for size in control.resize)
        await terminal.resize(columns, rows)
    if control.eof:
        await terminal.close_stdin()


async def _send_error(socket: WebSocket, error: StokerError, trace_id: str) -> None:
    """Reject the handshake with an HTTP error of the native family."""
    status = HTTP_STATUS[error.code]
    body = encode_json(NATIVE.to_error(error, status, trace_id))
    headers = [(b"content-type", b"application/json"), (b"x-trace-id", trace_id.encode()), *RAW_SECURITY_HEADERS]
    if error.code in {ErrorCode.TOO_MANY_REQUESTS, ErrorCode.UNAVAILABLE}:
        headers.append((b"retry-after", str(error.retry_after_seconds or 1).encode()))
    await socket.send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await socket.send({"type": "websocket.http.response.body", "body": body})
