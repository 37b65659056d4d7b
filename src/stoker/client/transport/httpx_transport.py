"""Sends requests with httpx: one transport for the sync and one for the async client."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
from msgspec import Struct

from stoker import __version__
from stoker.client.resources.operations import AnyPage, NextRequest, PagedItems
from stoker.client.transport.request_flow import (
    ApiRequest,
    ApiResponse,
    RetryDelay,
    TransportFailure,
    Unreachable,
    retry_flow,
)
from stoker.client.transport.server_address import DEFAULT_SERVER, invalid_server_address, is_loopback, normalize_server
from stoker.client.transport.sse import ServerEvent, SseResponse
from stoker.client.transport.unix_socket import kernel_socket_path, local_server_address, socket_path
from stoker.domain.errors import ErrorCode, StokerError
from stoker.wire.identity import LoggedIn

CONNECT_TIMEOUT_SECONDS = 5.0
CONNECTION_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""Following many pods needs as many connections; with a limit, further requests would wait for one to close."""


UNIX_SOCKET_BASE_URL = "http://localhost"
"""Its host is the Host header of requests through a Unix socket."""


class ConnectionTarget(Struct):
    """The server and the token of requests. A log-in replaces the token."""

    server: str
    token: str | None
    agent: str

    @property
    def base_url(self) -> str:
        return UNIX_SOCKET_BASE_URL if socket_path(self.server) is not None else self.server

    @property
    def user_agent(self) -> str:
        return f"{self.agent}/{__version__}"

    def headers(self, request: ApiRequest) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self.user_agent, **request.headers}
        if request.body:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def remember_token(self, result: object) -> None:
        if isinstance(result, LoggedIn):
            self.token = result.access_token


class SyncTransport:
    def __init__(
        self,
        server: str | None,
        token: str | None,
        timeout_seconds: float,
        transport: httpx.BaseTransport | None,
        agent: str,
    ) -> None:
        self.target = resolve_target(server, token, agent)
        server = self.target.server
        if transport is None and (path := socket_path(server)) is not None:
            transport = httpx.HTTPTransport(verify=False, limits=CONNECTION_LIMITS, uds=kernel_socket_path(path))
        self._http = httpx.Client(
            base_url=self.target.base_url,
            timeout=_httpx_timeout(timeout_seconds),
            transport=transport,
            mounts=bypass_proxy(server),
            limits=CONNECTION_LIMITS,
            verify=server.startswith("https:"),  # plain HTTP saves the 50 ms of reading certificates
        )
        self._timeout_seconds = timeout_seconds

    def request(self, request: ApiRequest) -> Any:
        flow = retry_flow(self.target.server, request)
        step = next(flow)
        try:
            while True:
                step = flow.send(self._execute(step))
        except StopIteration as end:
            self.target.remember_token(end.value)
            return end.value

    def paginate(self, first: ApiRequest, next_request: NextRequest) -> PagedItems[Any]:
        return PagedItems(self._pages(first, next_request))

    def _pages(self, first: ApiRequest, next_request: NextRequest) -> Iterator[AnyPage]:
        request: ApiRequest | None = first
        while request is not None:
            page = self.request(request)
            yield page
            request = next_request(request, page)

    def stream(self, request: ApiRequest, parse: Callable[[ServerEvent], Any]) -> Iterator[Any]:
        """Yield each item as it arrives, until the server ends the stream."""
        sse = SseResponse(self.target.server)
        try:
            with self._http.stream(**_stream_options(self.target, request)) as response:
                sse.set_status(response.status_code)
                if not sse.is_success:
                    raise sse.to_error(response.headers, response.read())
                for chunk in response.iter_bytes():
                    for event in sse.parse(chunk):
                        yield parse(event)
                    if sse.ended:
                        return
        except httpx.TransportError as error:
            raise Unreachable(self.target.server, _failure_reason(error), broke_off=sse.is_success) from error
        raise sse.interrupted_error()

    def close(self) -> None:
        self._http.close()

    def _execute(self, step: ApiRequest | RetryDelay) -> ApiResponse | TransportFailure | None:
        if isinstance(step, RetryDelay):
            time.sleep(step.seconds)
            return None
        try:
            response = self._http.request(
                step.method,
                step.path,
                params=dict(step.query),
                headers=self.target.headers(step),
                content=step.body,
            )
        except httpx.TransportError as error:
            return _to_failure(error, self._timeout_seconds)
        return ApiResponse(response.status_code, response.headers, response.content)


class AsyncTransport:
    def __init__(
        self, server: str | None, token: str | None, timeout_seconds: float, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.target = resolve_target(server, token)
        server = self.target.server
        if transport is None and (path := socket_path(server)) is not None:
            transport = httpx.AsyncHTTPTransport(verify=False, limits=CONNECTION_LIMITS, uds=kernel_socket_path(path))
        self._http = httpx.AsyncClient(
            base_url=self.target.base_url,
            timeout=_httpx_timeout(timeout_seconds),
            transport=transport,
            mounts=bypass_proxy(server),
            limits=CONNECTION_LIMITS,
            verify=server.startswith("https:"),
        )
        self._timeout_seconds = timeout_seconds

    async def request(self, request: ApiRequest) -> Any:
        flow = retry_flow(self.target.server, request)
        step = next(flow)
        try:
            while True:
                step = flow.send(await self._execute(step))
        except StopIteration as end:
            self.target.remember_token(end.value)
            return end.value

    async def paginate(self, first: ApiRequest, next_request: NextRequest) -> AsyncIterator[Any]:
        request: ApiRequest | None = first
        while request is not None:
            page = await self.request(request)
            for item in page.items:
                yield item
            request = next_request(request, page)

    async def stream(self, request: ApiRequest, parse: Callable[[ServerEvent], Any]) -> AsyncIterator[Any]:
        """Yield each item as it arrives, until the server ends the stream."""
        sse = SseResponse(self.target.server)
        try:
            async with self._http.stream(**_stream_options(self.target, request)) as response:
                sse.set_status(response.status_code)
                if not sse.is_success:
                    raise sse.to_error(response.headers, await response.aread())
                async for chunk in response.aiter_bytes():
                    for event in sse.parse(chunk):
                        yield parse(event)
                    if sse.ended:
                        return
        except httpx.TransportError as error:
            raise Unreachable(self.target.server, _failure_reason(error), broke_off=sse.is_success) from error
        raise sse.interrupted_error()

    async def close(self) -> None:
        await self._http.aclose()

    async def _execute(self, step: ApiRequest | RetryDelay) -> ApiResponse | TransportFailure | None:
        if isinstance(step, RetryDelay):
            await asyncio.sleep(step.seconds)
            return None
        try:
            response = await self._http.request(
                step.method,
                step.path,
                params=dict(step.query),
                headers=self.target.headers(step),
                content=step.body,
            )
        except httpx.TransportError as error:
            return _to_failure(error, self._timeout_seconds)
        return ApiResponse(response.status_code, response.headers, response.content)


def resolve_target(server: str | None, token: str | None, agent: str = "stoker") -> ConnectionTarget:
    """Check the address and the token. Without an address the target is the server of this machine."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise StokerError(ErrorCode.UNAUTHENTICATED, "The token is invalid: it has characters that no token contains.")
    address = server or local_server_address() or DEFAULT_SERVER
    normalized = normalize_server(address)
    try:
        httpx.URL(normalized)
    except httpx.InvalidURL:
        raise invalid_server_address(address) from None
    return ConnectionTarget(normalized, token, agent)


def bypass_proxy(server: str) -> dict[str, None]:
    """Mounts that ignore the proxy of the environment for this machine, whose loopback a proxy cannot reach."""
    return dict.fromkeys(("http://", "https://", "all://")) if is_loopback(server) else {}


def _stream_options(target: ConnectionTarget, request: ApiRequest) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.query),
        "headers": target.headers(request),
        "timeout": httpx.Timeout(request.idle_timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS),
    }


def _httpx_timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT_SECONDS))


def _to_failure(error: httpx.TransportError, timeout_seconds: float) -> TransportFailure:
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return TransportFailure("no connection could be opened in time", was_sent=False, timed_out=True)
        case httpx.TimeoutException():
            return TransportFailure(f"it has not answered within {timeout_seconds:g} s", was_sent=True, timed_out=True)
        case httpx.ConnectError():
            return TransportFailure(_failure_reason(error), was_sent=False)
        case _:
            return TransportFailure(_failure_reason(error), was_sent=True)


def _failure_reason(error: httpx.TransportError) -> str:
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
    return text[:1].lower() + text[1:] if text else type(error).__name__
