"""Commands inside pods, over a WebSocket.

Binary frames are what is typed and what is printed. Text frames are JSON: `{"resize": [columns, rows]}` and
`{"eof": true}` from the client, `{"exit": code}` from the server as the last.
"""

import asyncio
import contextlib
import logging
import re
import time
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from stoker.api.callers import caller_of, origin_of, trace_id_of
from stoker.api.families import NATIVE, STATUS, encode
from stoker.api.params import Decoder, Params, decode_segment, parse_query
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.permissions import Actor
from stoker.domain.reach import Terminal
from stoker.services.bundle import Services

log = logging.getLogger("stoker.api")
access_log = logging.getLogger("stoker.access")

EXEC = re.compile(rb"/api/stoker/v1/workloads/([^/]+)/exec\Z")
OPENED = 101
WIDEST = 10_000
RECHECK_SECONDS = 5.0


class ExecParams(Params, frozen=True, kw_only=True):
    """What is asked for, but for `command`, which is given once for each word of it."""

    workload: str
    pod: str = ""
    tty: bool = True
    columns: Annotated[int, Meta(ge=1, le=WIDEST)] = 80
    rows: Annotated[int, Meta(ge=1, le=WIDEST)] = 24


class Control(Struct, frozen=True):
    resize: tuple[int, int] | None = None
    eof: bool = False


_control = msgspec.json.Decoder(Control)
_params = Decoder(ExecParams)


class Sockets:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        trace_id = trace_id_of(socket)
        began = time.perf_counter()
        actor: Actor | None = None
        status = OPENED
        try:
            actor = await self._caller(socket, trace_id)
            terminal = await self._terminal(socket, actor)
            await self._serve(socket, trace_id, terminal)
        except StokerError as error:
            status = STATUS[error.code]
            await _refuse(socket, error, trace_id)
        finally:
            extra = {
                "trace_id": trace_id,
                "milliseconds": round((time.perf_counter() - began) * 1000, 2),
                "address": origin_of(socket, self._services.settings, trace_id).address,
                "actor": actor.name if actor else "",
            }
            path = scope.get("raw_path", scope["path"].encode()).decode("ascii", "replace")
            access_log.info("WEBSOCKET %s %d", path, status, extra=extra)

    async def _serve(self, socket: WebSocket, trace_id: str, terminal: Terminal) -> None:
        await socket.accept(headers=[(b"x-trace-id", trace_id.encode())])
        watching = asyncio.create_task(self._watch(socket, trace_id, terminal))
        try:
            await _talk(socket, terminal)
        finally:
            watching.cancel()

    async def _watch(self, socket: WebSocket, trace_id: str, terminal: Terminal) -> None:
        """End the command when its caller has lost the right to run it."""
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            try:
                actor, asked = await self._caller(socket, trace_id), _asked(socket)
                await self._services.inside.may_execute(actor, asked.workload, asked.pod)
            except StokerError:
                await terminal.close()
                return

    async def _caller(self, socket: WebSocket, trace_id: str) -> Actor:
        """Who asks. A browser may ask only from a page of this server: a cookie goes along from anywhere."""
        page = socket.headers.get("origin")
        if page is not None and page.partition("://")[2] != socket.headers.get("host", ""):
            raise StokerError(ErrorCode.NOT_ALLOWED, f"Not allowed: a page of {page[:200]} may not open this.")
        origin = origin_of(socket, self._services.settings, trace_id)
        actor = await caller_of(socket, self._services.authentication, origin)
        if actor is None:
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "This needs a credential.")
        return actor

    async def _terminal(self, socket: WebSocket, actor: Actor) -> Terminal:
        asked = _asked(socket)
        command = [word for name, word in parse_query(socket.scope["query_string"]) if name == "command"]
        if not command or not command[0]:
            raise bad_request("command", "it is required: the program and each of its arguments, in order.")
        return await self._services.inside.execute(
            actor, asked.workload, asked.pod, command, tty=asked.tty, columns=asked.columns, rows=asked.rows
        )


def _asked(socket: WebSocket) -> ExecParams:
    found = EXEC.match(socket.scope["raw_path"])
    name = decode_segment(found[1]) if found else None
    if name is None:
        raise StokerError(ErrorCode.NOT_FOUND, "There is no WebSocket here.")
    return _params(socket.scope["query_string"], {"workload": name})


async def _talk(socket: WebSocket, terminal: Terminal) -> None:
    """Until the command ends or the client goes; a command whose client has gone is ended."""
    typing = asyncio.create_task(_type(socket, terminal))
    try:
        while printed := await terminal.read():
            await socket.send_bytes(printed)
        code = await terminal.exit_code()
        await socket.send_text(encode({"exit": code}).decode())
        await socket.close()
    except (WebSocketDisconnect, RuntimeError):
        log.debug("the client of a terminal has gone")
    finally:
        typing.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect):
            await typing
        await terminal.close()


async def _type(socket: WebSocket, terminal: Terminal) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            await terminal.close()
            return
        if data := message.get("bytes"):
            await terminal.write(data)
        elif text := message.get("text"):
            with contextlib.suppress(msgspec.DecodeError):
                await _obey(_control.decode(text), terminal)


async def _obey(control: Control, terminal: Terminal) -> None:
    if control.resize is not None:
        columns, rows = (max(1, min(WIDEST, size)) for size in control.resize)
        await terminal.resize(columns, rows)
    if control.eof:
        await terminal.end_input()


async def _refuse(socket: WebSocket, error: StokerError, trace_id: str) -> None:
    """An answer in place of the socket, with the status and the words of the native family."""
    status = STATUS[error.code]
    body = encode(NATIVE.failure(error, status, trace_id))
    headers = [(b"content-type", b"application/json"), (b"x-trace-id", trace_id.encode())]
    await socket.send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await socket.send({"type": "websocket.http.response.body", "body": body})
