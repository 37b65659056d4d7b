"""Sends one event to one receiver, and says what came of it. It goes to an address that was judged a moment before and
to no other: no redirect is followed, no proxy is asked, and no name is looked up twice."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from msgspec import Struct

from stoker import __version__
from stoker.domain.errors import StokerError
from stoker.domain.webhook_targets import Resolve, check_addresses, target_of

LIMIT_SECONDS = 15.0
LIMIT_BYTES = 16_384
"""So much of an answer is read, so that its sender can finish; nothing is done with it."""


class Answer(Struct, frozen=True):
    """How a receiver answered, or why it did not: then `status` is None."""

    status: int | None
    error: str = ""
    retry_after_seconds: int = 0

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Post:
    def __init__(self, resolve: Resolve, *, private: bool, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._resolve = resolve
        self._private = private
        self._limit_seconds = limit_seconds
        self._client: httpx.AsyncClient | None = None

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Never raises for what a receiver does."""
        try:
            async with asyncio.timeout(self._limit_seconds):
                return await self._send(url, headers, body)
        except TimeoutError:
            return Answer(None, f"It did not answer within {self._limit_seconds:g} s.")
        except StokerError as error:
            return Answer(None, error.message.removeprefix("url: "))
        except httpx.ProtocolError:
            return Answer(None, "It did not answer as a web server does.")  # its words may be of a place nobody may see
        except httpx.HTTPError as error:
            return Answer(None, f"It could not be reached: {error or type(error).__name__}.")
        except OSError as error:
            return Answer(None, f"Its name could not be looked up: {error.strerror or error}.")

    async def _send(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        target = target_of(url, private=self._private)
        address = check_addresses(target, await self._resolve(target.host, target.port), private=self._private)
        client = self._connected()
        request = client.build_request(
            "POST",
            target.at(address),
            headers={
                "host": target.named,
                "user-agent": f"Stoker/{__version__}",
                "content-type": "application/json",
                **headers,
            },
            content=body,
            extensions={"sni_hostname": target.host},
        )
        answer = await client.send(request, stream=True)
        try:
            await _drain(answer)
            return _answer(answer)
        finally:
            await answer.aclose()

    def _connected(self) -> httpx.AsyncClient:
        """Made with the first event. A connection is of one name, and is not kept: TLS would take it for another name
        at the same address."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                timeout=self._limit_seconds,
                limits=httpx.Limits(max_keepalive_connections=0),
                verify=httpx.create_ssl_context(),
            )
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


async def _drain(answer: httpx.Response) -> None:
    size = 0
    async for part in answer.aiter_raw():
        size += len(part)
        if size >= LIMIT_BYTES:
            return


def _answer(answer: httpx.Response) -> Answer:
    status = answer.status_code
    if 200 <= status < 300:
        return Answer(status)
    error = "It answered with a redirect, and none is followed." if 300 <= status < 400 else f"It answered {status}."
    return Answer(status, error, _wait_seconds(answer.headers))


def _wait_seconds(headers: httpx.Headers) -> int:
    """How long a receiver asks to be left alone, which it says in seconds, or as a moment by its own clock."""
    wait = headers.get("retry-after", "")
    if wait.isascii() and wait.isdigit() and len(wait) < 10:
        return int(wait)
    until, now = _moment(wait), _moment(headers.get("date", ""))
    return max(0, round((until - now).total_seconds())) if until and now else 0


def _moment(text: str) -> datetime | None:
    """A date of HTTP, which is always in GMT."""
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
