"""Serves an installation over HTTP until it is stopped."""

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
from pathlib import Path
from typing import Any

import uvicorn

from stoker.domain.access.peers import ProcessOwnerResolver
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings
from stoker.server.composition import Installation, running_installation
from stoker.server.http_protocol import RESPONSE_SHUTDOWN_SECONDS, LimitedProtocol
from stoker.server.logging import configure_logging
from stoker.server.unix_socket import unix_listener
from stoker.server.websocket_protocol import WebSocketProtocol

SHUTDOWN_GRACE_SECONDS = int(RESPONSE_SHUTDOWN_SECONDS) + 1
"""When requests are cancelled: after their responses were aborted with an error about the shutdown."""

TLS_SHUTDOWN_SECONDS = 1.0
BACKLOG = 2048
NO_PASSPHRASE = "none"
"""Any text: without a password callback OpenSSL would prompt on the terminal and block."""

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long a busy thread may hold the interpreter lock; the default of 5 ms would add to the API's latency."""

GC_THRESHOLDS = (20_000, 20, 20)
"""A response creates and frees thousands of small objects, so a collection after every 700 would cost too much."""

AnnounceFn = Callable[[str, Installation], None]


class HttpServer(uvicorn.Server):
    """uvicorn's server; a stop signal ends it normally instead of being raised again."""

    def __init__(
        self, settings: Settings, config: uvicorn.Config, processes: ProcessOwnerResolver, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._processes = processes
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
        # A connection counts from its TLS handshake to its shutdown, so both have a timeout.
        tls: dict[str, Any] = {
            "ssl": self.config.ssl,
            "ssl_handshake_timeout": self._settings.request_timeout_seconds,
            "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS,
        }
        self.servers = []
        for listening in sockets or ():
            if listening.family == socket.AF_UNIX:
                accepting = await loop.create_unix_server(self._create_protocol, sock=listening)
            else:
                accepting = await loop.create_server(
                    self._create_protocol, sock=listening, backlog=BACKLOG, **(tls if self.config.ssl else {})
                )
            self.servers.append(accepting)
        self.started = True
        self._on_started()

    def _create_protocol(self) -> LimitedProtocol:
        return LimitedProtocol(self._settings, self.config, self.server_state, self._processes)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(settings: Settings, announce: AnnounceFn) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is called with the address once requests are accepted."""
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    configure_logging(settings.log_format, settings.log_level)
    listening = open_listener(settings.host, settings.port)
    with contextlib.closing(listening), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, listening, announce))


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket, or an error that says why it cannot be opened."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:  # a label of more than 63 characters raises UnicodeError
        raise _listen_error(host, port, error) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise _listen_error(host, port, error) from error
    return listening


def server_url(settings: Settings, listening: socket.socket) -> str:
    """The URL for a browser."""
    host = settings.host
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - shown, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{listening.getsockname()[1]}"


async def _serve(settings: Settings, listening: socket.socket, announce: AnnounceFn) -> None:
    address = server_url(settings, listening)
    async with running_installation(settings, address=address) as installation:
        config = uvicorn.Config(
            installation.api,
            http=LimitedProtocol,
            loop="none",
            ws=WebSocketProtocol,
            ws_max_size=settings.body_limit_bytes,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=SHUTDOWN_GRACE_SECONDS,
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
        gc.set_threshold(*GC_THRESHOLDS)
        with unix_listener(Path(settings.data_dir)) as local:
            sockets = [listening] if local is None else [listening, local]
            server = HttpServer(settings, config, installation.processes, lambda: announce(address, installation))
            await server.serve(sockets)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _listen_error(host: str, port: int, error: OSError | UnicodeError) -> StokerError:
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
    return StokerError(ErrorCode.UNAVAILABLE, message, hint=hint)
