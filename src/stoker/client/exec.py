"""A command that runs in a pod: bytes to it, bytes from it, and how it ended.

One thread reads, any other may write. Leaving before its end ends the command.
"""

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from stoker.client.address import is_loopback
from stoker.client.exchange import Answer, Unreachable, error_in
from stoker.client.operation import BASE
from stoker.domain.errors import bad_request

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

OPEN_SECONDS = 30.0
FRAME_BYTES = 64 * 1024


class _End(Struct, frozen=True):
    exit: int | None = None


class RemoteCommand:
    """`exit_code` is there when everything it printed was read."""

    def __init__(self, server: str, socket: "ClientConnection") -> None:
        self.exit_code: int | None = None
        self._server = server
        self._socket = socket

    def __iter__(self) -> Iterator[bytes]:
        """What it prints, as it prints it."""
        from websockets.exceptions import ConnectionClosed

        try:
            while self.exit_code is None:
                message = self._socket.recv()
                if isinstance(message, bytes):
                    yield message
                else:
                    self.exit_code = msgspec.json.decode(message, type=_End).exit
        except ConnectionClosed as closed:
            raise Unreachable(self._server, "it broke off before the command had ended") from closed

    def write(self, data: bytes) -> None:
        """Type this; after the end of the command it is typed at nobody."""
        for begin in range(0, len(data), FRAME_BYTES):
            self._send(data[begin : begin + FRAME_BYTES])

    def end_input(self) -> None:
        """The command reads an end of file."""
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


def start(
    server: str,
    headers: dict[str, str],
    name: str,
    command: Sequence[str],
    *,
    pod: str = "",
    tty: bool = False,
    columns: int = 80,
    rows: int = 24,
) -> RemoteCommand:
    """Begin a command in a pod of a workload; in its first pod when none is named."""
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    if not name or not command:
        raise bad_request("command", "it is empty.")
    asked = [("pod", pod), ("tty", "true" if tty else "false"), ("columns", columns), ("rows", rows)]
    query = urlencode([*asked, *(("command", word) for word in command)])
    address = f"ws{server.removeprefix('http')}{BASE}/workloads/{quote(name, safe='')}/exec?{query}"
    try:
        socket = connect(
            address,
            additional_headers=headers,
            user_agent_header=None,
            compression=None,
            max_size=None,
            open_timeout=OPEN_SECONDS,
            proxy=None if is_loopback(server) else True,
            ssl=ssl.create_default_context() if server.startswith("https:") else None,
        )
    except InvalidStatus as refused:
        answer = refused.response
        plain = {key.lower(): value for key, value in answer.headers.raw_items()}
        raise error_in(server, Answer(answer.status_code, plain, bytes(answer.body or b""))) from refused
    except TimeoutError:
        raise Unreachable(server, f"it has not answered within {OPEN_SECONDS:g} s") from None
    except (OSError, WebSocketException) as error:
        raise Unreachable(server, str(getattr(error, "strerror", None) or error).rstrip(".").lower()) from error
    return RemoteCommand(server, socket)
