"""Serves an installation over HTTP until it is told to stop."""

import asyncio
import contextlib
import errno
import gc
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings import Settings
from stoker.server.build import Installation, installed
from stoker.server.logs import set_up_logs
from stoker.server.protocol import ANSWER_GRACE_SECONDS, LimitedProtocol, SocketProtocol

GRACE_SECONDS = int(ANSWER_GRACE_SECONDS) + 1
"""Requests are told that the server stops before their work is ended."""

TLS_FAREWELL_SECONDS = 1.0
BACKLOG = 2048
NO_PASSPHRASE = "none"
"""Any word will do: without one OpenSSL would ask for it at the terminal, and wait."""

SWITCH_INTERVAL_SECONDS = 0.0005
"""A busy thread may hold the interpreter this long; the default of 5 ms is the API's latency."""

COLLECT_AFTER = (20_000, 20, 20)
"""An answer makes thousands of small objects and lets go of them: to look for cycles after every 700 costs more."""

Announce = Callable[[str, Installation], None]


class Server(uvicorn.Server):
    """uvicorn, which stops on a signal and then ends well instead of dying of it."""

    def __init__(self, settings: Settings, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._settings = settings
        self._on_started = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        # A connection counts from the end of its handshake to that of its farewell: neither may take for ever.
        tls: dict[str, Any] = {
            "ssl": self.config.ssl,
            "ssl_handshake_timeout": self._settings.request_timeout_seconds,
            "ssl_shutdown_timeout": TLS_FAREWELL_SECONDS,
        }
        self.servers = [
            await loop.create_server(
                self._connection, sock=listening, backlog=BACKLOG, **(tls if self.config.ssl else {})
            )
            for listening in sockets or ()
        ]
        self.started = True
        self._on_started()

    def _connection(self) -> LimitedProtocol:
        return LimitedProtocol(self._settings, self.config, self.server_state)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(settings: Settings, announce: Announce) -> None:
    """Run until SIGINT or SIGTERM; `announce` is told the address once requests are answered."""
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    set_up_logs(settings.log_format, settings.log_level)
    listening = listen(settings.host, settings.port)
    with contextlib.closing(listening), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, listening, announce))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or a sentence about why there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:  # a label of more than 63 characters is the latter
        raise _cannot_listen(host, port, error) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(host, port, error) from error
    return listening


def address_of(settings: Settings, listening: socket.socket) -> str:
    """The address to type in a browser."""
    host = settings.host
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - shown, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{listening.getsockname()[1]}"


async def _serve(settings: Settings, listening: socket.socket, announce: Announce) -> None:
    address = address_of(settings, listening)
    async with installed(settings, address=address) as installation:
        config = uvicorn.Config(
            installation.api,
            http=LimitedProtocol,
            loop="none",
            ws=SocketProtocol,
            ws_max_size=settings.body_limit_bytes,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_keyfile_password=NO_PASSPHRASE,
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise StokerError(
                ErrorCode.BAD_REQUEST,
                f"The TLS certificate or key cannot be used: {error}.",
                hint="Check the files of --tls-cert and --tls-key; the key must have no passphrase.",
            ) from error
        gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        await Server(settings, config, lambda: announce(address, installation)).serve([listening])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _cannot_listen(host: str, port: int, error: OSError | UnicodeError) -> StokerError:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            message = f"Port {port} of {host} is in use by another program."
            hint = "Stop that program, or choose another port with --port or STOKER_PORT (0 takes any free one)."
        case errno.EACCES:
            message = f"Port {port} of {host} may not be opened by this user."
            hint = "Choose a port above 1023 with --port."
        case _:
            message = f"{host}:{port} cannot be listened on: {getattr(error, 'strerror', None) or error}."
            hint = "Check --host and --port."
    return StokerError(ErrorCode.BACKEND_DOWN, message, hint=hint)
