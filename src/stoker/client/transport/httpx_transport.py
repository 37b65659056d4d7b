"""Carries requests over httpx: once with a thread that waits, once with a coroutine."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
from msgspec import Struct

from stoker import __version__
from stoker.client.address import is_loopback, not_an_address, server_address
from stoker.client.exchange import Answer, Lost, Pause, Request, Unreachable, converse
from stoker.client.operation import AnyPage, Items
from stoker.client.shapes import LoggedIn
from stoker.client.sse import Reading, ServerEvent
from stoker.domain.errors import ErrorCode, StokerError

CONNECT_SECONDS = 5.0
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""Whoever follows many pods holds as many connections; a limit here would wait for one of them to end."""


class Destination(Struct):
    """Where requests go, and as whom. The token of a log-in is used from then on."""

    server: str
    token: str | None
    agent: str

    @property
    def user_agent(self) -> str:
        return f"{self.agent}/{__version__}"

    def headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": self.user_agent, **request.headers}
        if request.body:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def note(self, result: object) -> None:
        if isinstance(result, LoggedIn):
            self.token = result.access_token


class SyncCarrier:
    def __init__(
        self, server: str, token: str | None, timeout_seconds: float, transport: httpx.BaseTransport | None, agent: str
    ) -> None:
        self.destination = destination(server, token, agent)
        server = self.destination.server
        self._http = httpx.Client(
            base_url=server,
            timeout=_timeout(timeout_seconds),
            transport=transport,
            mounts=unproxied(server),
            limits=LIMITS,
            verify=server.startswith("https:"),  # plain HTTP saves the 50 ms of reading certificates
        )
        self._timeout_seconds = timeout_seconds

    def run(self, request: Request) -> Any:
        talk = converse(self.destination.server, request)
        step = next(talk)
        try:
            while True:
                step = talk.send(self._do(step))
        except StopIteration as end:
            self.destination.note(end.value)
            return end.value

    def each(self, request: Request, following: Callable[[Request, AnyPage], Request | None]) -> Items[Any]:
        return Items(self._pages(request, following))

    def _pages(self, request: Request, following: Callable[[Request, AnyPage], Request | None]) -> Iterator[AnyPage]:
        asked: Request | None = request
        while asked is not None:
            page = self.run(asked)
            yield page
            asked = following(asked, page)

    def stream(self, request: Request, item: Callable[[ServerEvent], Any]) -> Iterator[Any]:
        """Each item as it arrives, until the server says that there is no more."""
        reading = Reading(self.destination.server)
        try:
            with self._http.stream(**_opening(self.destination, request)) as response:
                reading.begin(response.status_code)
                if not reading.good:
                    raise reading.refusal(response.headers, response.read())
                for part in response.iter_bytes():
                    for event in reading.events(part):
                        yield item(event)
                    if reading.over:
                        return
        except httpx.TransportError as error:
            raise Unreachable(self.destination.server, _reason(error), broke_off=reading.good) from error
        raise reading.broken_off()

    def close(self) -> None:
        self._http.close()

    def _do(self, step: Request | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            response = self._http.request(
                step.method,
                step.path,
                params=dict(step.query),
                headers=self.destination.headers(step),
                content=step.body,
            )
        except httpx.TransportError as error:
            return _lost(error, self._timeout_seconds)
        return Answer(response.status_code, response.headers, response.content)


class AsyncCarrier:
    def __init__(
        self, server: str, token: str | None, timeout_seconds: float, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.destination = destination(server, token)
        server = self.destination.server
        self._http = httpx.AsyncClient(
            base_url=server,
            timeout=_timeout(timeout_seconds),
            transport=transport,
            mounts=unproxied(server),
            limits=LIMITS,
            verify=server.startswith("https:"),
        )
        self._timeout_seconds = timeout_seconds

    async def run(self, request: Request) -> Any:
        talk = converse(self.destination.server, request)
        step = next(talk)
        try:
            while True:
                step = talk.send(await self._do(step))
        except StopIteration as end:
            self.destination.note(end.value)
            return end.value

    async def each(
        self, request: Request, following: Callable[[Request, AnyPage], Request | None]
    ) -> AsyncIterator[Any]:
        asked: Request | None = request
        while asked is not None:
            page = await self.run(asked)
            for item in page.items:
                yield item
            asked = following(asked, page)

    async def stream(self, request: Request, item: Callable[[ServerEvent], Any]) -> AsyncIterator[Any]:
        """Each item as it arrives, until the server says that there is no more."""
        reading = Reading(self.destination.server)
        try:
            async with self._http.stream(**_opening(self.destination, request)) as response:
                reading.begin(response.status_code)
                if not reading.good:
                    raise reading.refusal(response.headers, await response.aread())
                async for part in response.aiter_bytes():
                    for event in reading.events(part):
                        yield item(event)
                    if reading.over:
                        return
        except httpx.TransportError as error:
            raise Unreachable(self.destination.server, _reason(error), broke_off=reading.good) from error
        raise reading.broken_off()

    async def close(self) -> None:
        await self._http.aclose()

    async def _do(self, step: Request | Pause) -> Answer | Lost | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            response = await self._http.request(
                step.method,
                step.path,
                params=dict(step.query),
                headers=self.destination.headers(step),
                content=step.body,
            )
        except httpx.TransportError as error:
            return _lost(error, self._timeout_seconds)
        return Answer(response.status_code, response.headers, response.content)


def destination(server: str, token: str | None, agent: str = "stoker") -> Destination:
    """A checked address and a token that fits into a header."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise StokerError(ErrorCode.NOT_SIGNED_IN, "The token is not one: it has characters that no token has.")
    address = server_address(server)
    try:
        httpx.URL(address)
    except httpx.InvalidURL:
        raise not_an_address(server) from None
    return Destination(address, token, agent)


def unproxied(server: str) -> dict[str, None]:
    """No proxy of the environment for this machine, whose loopback a proxy cannot reach."""
    return dict.fromkeys(("http://", "https://", "all://")) if is_loopback(server) else {}


def _opening(destination: Destination, request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.query),
        "headers": destination.headers(request),
        "timeout": httpx.Timeout(request.quiet_seconds, connect=CONNECT_SECONDS),
    }


def _timeout(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def _lost(error: httpx.TransportError, timeout_seconds: float) -> Lost:
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return Lost("there is no connection to be had", sent=False, late=True)
        case httpx.TimeoutException():
            return Lost(f"it has not answered within {timeout_seconds:g} s", sent=True, late=True)
        case httpx.ConnectError():
            return Lost(_reason(error), sent=False)
        case _:
            return Lost(_reason(error), sent=True)


def _reason(error: httpx.TransportError) -> str:
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error)).rstrip(".")
    return text[:1].lower() + text[1:] if text else type(error).__name__
