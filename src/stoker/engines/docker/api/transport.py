"""Requests to a Docker daemon over a Unix socket or TCP, with the API version that both sides know.

Creating a transport does no I/O. Every failure is a StokerError: UNAVAILABLE if the daemon cannot be reached or fails,
else the code of the daemon's answer.
"""

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.docker.api.hijack import ByteChannel, HijackedStream, PlainChannel, TlsChannel, upgrade
from stoker.engines.docker.api.schema import ErrorMessage, PingInfo
from stoker.engines.docker.config import DockerConfig, TlsConfig

OLDEST_API_VERSION = (1, 41)
NEWEST_API_VERSION = (1, 47)
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 60.0
_CODES = {
    400: ErrorCode.BAD_REQUEST,
    401: ErrorCode.FORBIDDEN,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    409: ErrorCode.CONFLICT,
}
_PEM_MARK = "-----BEGIN"


class DockerTransport:
    """Streams have connections of their own: a pool looks at all its connections at every request, and closes idle ones
    when it has many."""

    def __init__(self, config: DockerConfig) -> None:
        self._config = config
        self._http: httpx.AsyncClient | None = None
        self._streaming_http: httpx.AsyncClient | None = None
        self._tls: ssl.SSLContext | None = None
        self._prefix = ""
        self._lock = asyncio.Lock()

    async def ping(self, timeout_seconds: float = CONNECT_SECONDS) -> PingInfo:
        """Ask the daemon for its API version, and use it for all later requests."""
        http = await self._client()
        with self._explained("ping"):
            answer = await http.get("/_ping", timeout=timeout_seconds)
        if answer.is_error:
            raise _daemon_error(answer.status_code, answer.content, "ping")
        version = answer.headers.get("Api-Version", "")
        known = _parse_version(version)
        if known < OLDEST_API_VERSION:
            raise StokerError(
                ErrorCode.UNAVAILABLE,
                f"The Docker daemon at {self._config.url} has API version {version or 'unknown'}; "
                f"{_format_version(OLDEST_API_VERSION)} is the oldest that can be used.",
                hint="Update Docker to 20.10 or newer.",
            )
        self._prefix = f"/v{_format_version(min(known, NEWEST_API_VERSION))}"
        return PingInfo(version, answer.headers.get("Server", ""))

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        """The body of the answer. 304 is a success: nothing had to change."""
        request = await self._build(method, path, params, body, headers, timeout_seconds)
        http = await self._client()
        with self._explained(path):
            answer = await http.send(request)
        if answer.is_error:
            raise _daemon_error(answer.status_code, answer.content, path)
        return answer.content

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body of the answer in pieces, for as long as the daemon sends it."""
        request = await self._build(method, path, params, None, headers, None)
        if self._streaming_http is None:
            self._streaming_http = self._new_client()
        with self._explained(path):
            answer = await self._streaming_http.send(request, stream=True)
        try:
            if answer.is_error:
                with self._explained(path):
                    content = await answer.aread()
                raise _daemon_error(answer.status_code, content, path)
            yield self._read_pieces(answer, path)
        finally:
            await answer.aclose()

    async def hijack(self, path: str, body: object) -> HijackedStream:
        """Send a request whose connection becomes a stream of bytes in both directions."""
        if not self._prefix:
            await self.ping()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                channel = await self._open_channel()
                try:
                    status, rest = await upgrade(channel, self._prefix + path, msgspec.json.encode(body))
                except BaseException:
                    await channel.close()
                    raise
        except OSError as error:  # also a timeout
            raise self._unreachable(error) from error
        if status != httpx.codes.SWITCHING_PROTOCOLS:
            await channel.close()
            raise _daemon_error(status, rest, path)
        return HijackedStream(channel, rest)

    async def _open_channel(self) -> ByteChannel:
        config = self._config
        if config.is_local:
            return PlainChannel(*await asyncio.open_unix_connection(config.socket_path))
        plain = PlainChannel(*await asyncio.open_connection(config.host, config.port))
        if self._tls is None:
            return plain
        secured = TlsChannel(plain, self._tls, config.host)
        try:
            await secured.handshake()
        except BaseException:
            await plain.close()
            raise
        return secured

    async def close(self) -> None:
        for http in (self._http, self._streaming_http):
            if http is not None:
                await http.aclose()
        self._http = self._streaming_http = None

    async def _build(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: object,
        headers: Mapping[str, str] | None,
        timeout_seconds: float | None,
    ) -> httpx.Request:
        http = await self._client()
        if not self._prefix:
            await self.ping()
        content = None if body is None else msgspec.json.encode(body)
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if content is not None else {})}
        timeout = httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS)
        return http.build_request(
            method, self._prefix + path, params=params, content=content, headers=sent, timeout=timeout
        )

    async def _client(self) -> httpx.AsyncClient:
        async with self._lock:
            if self._http is None:
                if self._config.tls is not None:
                    self._tls = await asyncio.to_thread(_tls_context, self._config.tls)
                self._http = self._new_client()
            return self._http

    def _new_client(self) -> httpx.AsyncClient:
        config = self._config
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=60.0)
        if config.is_local:
            transport = httpx.AsyncHTTPTransport(uds=config.socket_path, limits=limits)
            base = "http://docker"
        elif self._tls is None:
            transport = httpx.AsyncHTTPTransport(limits=limits)
            base = f"http://{config.host}:{config.port}"
        else:
            transport = httpx.AsyncHTTPTransport(verify=self._tls, limits=limits)
            base = f"https://{config.host}:{config.port}"
        return httpx.AsyncClient(transport=transport, base_url=base, trust_env=False)

    async def _read_pieces(self, answer: httpx.Response, path: str) -> AsyncIterator[bytes]:
        with self._explained(path):
            async for piece in answer.aiter_raw():
                yield piece

    @contextlib.contextmanager
    def _explained(self, path: str) -> Any:
        try:
            yield
        except httpx.TimeoutException as error:
            raise StokerError(
                ErrorCode.UNAVAILABLE,
                f"The Docker daemon at {self._config.url} does not answer in time ({path}).",
                hint="Check the load of its machine, and the log of dockerd.",
            ) from error
        except (httpx.TransportError, OSError) as error:  # a refused certificate is not wrapped by httpx
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> StokerError:
        reason = _root_cause(error)
        if isinstance(reason, ssl.SSLError):
            return StokerError(
                ErrorCode.UNAVAILABLE,
                f"TLS with the Docker daemon at {self._config.url} has failed: {_describe(reason)}.",
                hint="Check the certificates: ca.pem has to have signed that of the daemon, cert.pem and key.pem "
                "belong together, and the name of the host is in the daemon's certificate.",
            )
        hint = "Check that dockerd runs there and that its port can be reached."
        if self._config.is_local:
            hint = "Check that dockerd runs, and that this user may open its socket (group docker)."
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f"The Docker daemon at {self._config.url} cannot be reached: {_describe(reason)}.",
            hint=hint,
        )


def _tls_context(tls: TlsConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if tls.ca:
            context = ssl.create_default_context(cadata=_pem_text(tls.ca))
        if tls.certificate:
            _load_client_certificate(context, tls)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise StokerError(
            ErrorCode.UNAVAILABLE,
            f"The certificates for the Docker daemon cannot be used: {_describe(error)}.",
            hint="ca.pem, cert.pem and key.pem have to be readable PEM files, the key without a password.",
        ) from error
    return context


def _load_client_certificate(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """The ssl module reads keys from files only: texts are in private files for this moment."""
    with tempfile.TemporaryDirectory(prefix="stoker-tls-") as folder:
        certificate, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        certificate.write_text(_pem_text(tls.certificate))
        key.touch(mode=0o600)
        key.write_text(_pem_text(tls.key))
        context.load_cert_chain(certificate, key)


def _pem_text(given: str) -> str:
    return given if _PEM_MARK in given else Path(given).read_text(encoding="ascii")


def _daemon_error(status: int, content: bytes, path: str) -> StokerError:
    message = ""
    with contextlib.suppress(msgspec.MsgspecError):
        message = msgspec.json.decode(content, type=ErrorMessage).message
    said = message or content[:300].decode("utf-8", "replace").strip() or f"status {status} for {path}"
    return StokerError(_CODES.get(status, ErrorCode.UNAVAILABLE), f"Docker says: {said.rstrip('.')}.")


def _root_cause(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _describe(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__).rstrip(".")


def _parse_version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
