"""A command that runs in a pod, over a WebSocket: its input, its output and its exit code.

One thread reads, any other may write. Closing the connection ends the command.
"""

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from stoker.client.resources.operations import NATIVE_BASE_PATH
from stoker.client.transport.request_flow import ApiResponse, Unreachable, error_from_response
from stoker.client.transport.server_address import is_loopback
from stoker.client.transport.unix_socket import kernel_socket_path, socket_path
from stoker.domain.errors import bad_request

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

OPEN_TIMEOUT_SECONDS = 30.0
MAX_FRAME_BYTES = 64 * 1024
UNIX_SOCKET_WS_URL = "ws://localhost"

STDOUT, STDERR = 1, 2


class _ServerFrame(Struct, frozen=True):
    """A text frame of the server; `stderr` is Base64."""

    exit: int | None = None
    stderr: bytes = b""


class RemoteCommand:
    """A running command. `exit_code` is set once all output was read."""

    def __init__(self, server: str, socket: "ClientConnection") -> None:
        self.exit_code: int | None = None
        self._server = server
        self._socket = socket

    def __iter__(self) -> Iterator[bytes]:
        """Output as it is printed."""
        return (data for _, data in self.streams())

    def streams(self) -> Iterator[tuple[int, bytes]]:
        """Output with its stream, 1 or 2. All output is 1 unless stderr was requested separately."""
        from websockets.exceptions import ConnectionClosed

        try:
            while self.exit_code is None:
                message = self._socket.recv()
                if isinstance(message, bytes):
                    yield STDOUT, message
                    continue
                frame = msgspec.json.decode(message, type=_ServerFrame)
                self.exit_code = frame.exit
                if frame.stderr:
                    yield STDERR, frame.stderr
        except ConnectionClosed as closed:
            raise Unreachable(self._server, "it broke off before the command had ended") from closed

    def write(self, data: bytes) -> None:
        """Send input. Input after the end of the command is discarded."""
        for start in range(0, len(data), MAX_FRAME_BYTES):
            self._send(data[start : start + MAX_FRAME_BYTES])

    def end_input(self) -> None:
        """Send end of file to the command."""
        self._send('{"eof":true}')

    def resize(self, columns: int, rows: int) -> None:
        self._send(msgspec.json.encode({"resize": (columns, rows)}).decode())

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: bytes | str) -> None:
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):
            self._socket.send(message)


def start_command(
    server: str,
    headers: dict[str, str],
    name: str,
    command: Sequence[str],
    *,
    pod: str = "",
    tty: bool = False,
    stderr: bool = False,
    columns: int = 80,
    rows: int = 24,
) -> RemoteCommand:
    """Start a command in a pod of a workload, by default its first pod."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect, unix_connect

    if not name or not command:
        raise bad_request("command", "it is empty.")
    parameters = [("pod", pod), ("tty", "true" if tty else "false"), ("columns", columns), ("rows", rows)]
    parameters += [("stderr", "true")] if stderr else []
    query = urlencode([*parameters, *(("command", word) for word in command)])
    path = socket_path(server)
    host = f"ws{server.removeprefix('http')}" if path is None else UNIX_SOCKET_WS_URL
    address = f"{host}{NATIVE_BASE_PATH}/workloads/{quote(name, safe='')}/exec?{query}"
    options: dict[str, Any] = {
        "additional_headers": headers,
        "user_agent_header": None,
        "compression": None,
        "max_size": None,
        "open_timeout": OPEN_TIMEOUT_SECONDS,
    }
    try:
        if path is not None:
            socket = unix_connect(kernel_socket_path(path), address, **options)
        else:
            socket = connect(
                address,
                proxy=None if is_loopback(server) else True,
                ssl=ssl.create_default_context() if server.startswith("https:") else None,
                **options,
            )
    except InvalidStatus as refused:
        response = refused.response
        response_headers = {key.lower(): value for key, value in response.headers.raw_items()}
        raise error_from_response(
            server, ApiResponse(response.status_code, response_headers, bytes(response.body or b""))
        ) from refused
    except TimeoutError:
        raise Unreachable(server, f"it has not answered within {OPEN_TIMEOUT_SECONDS:g} s") from None
    except (OSError, WebSocketException) as error:
        raise Unreachable(server, str(getattr(error, "strerror", None) or error).rstrip(".").lower()) from error
    return RemoteCommand(server, socket)
