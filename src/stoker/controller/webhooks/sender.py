"""Sends one event to one receiver and returns the result.

The request goes only to an address that was just checked: redirects are not followed, proxies are not used, and the
host name is resolved once.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
from msgspec import Struct

from stoker import __version__
from stoker.domain.errors import StokerError
from stoker.domain.webhooks.targets import ResolveHost, check_resolved_addresses, parse_target

TIMEOUT_SECONDS = 15.0
MAX_RESPONSE_BYTES = 16_384
"""How much of a response is read, so that the receiver can finish; the content is ignored."""


class DeliveryResponse(Struct, frozen=True):
    """The response of a receiver. Without one, `status` is None and `error` says why."""

    status: int | None
    error: str = ""
    retry_after_seconds: int = 0

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class WebhookSender:
    def __init__(self, resolve: ResolveHost, *, private: bool, limit_seconds: float = TIMEOUT_SECONDS) -> None:
        self._resolve = resolve
        self._allow_private = private
        self._timeout_seconds = limit_seconds
        self._client: httpx.AsyncClient | None = None

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryResponse:
        """Never raises for anything that a receiver does."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._send(url, headers, body)
        except TimeoutError:
            return DeliveryResponse(None, f"It did not answer within {self._timeout_seconds:g} s.")
        except StokerError as error:
            return DeliveryResponse(None, error.message.removeprefix("url: "))
        except httpx.ProtocolError:
            return DeliveryResponse(
                None, "It did not answer as a web server does."
            )  # the error's text may reveal what an internal address answered
        except httpx.HTTPError as error:
            return DeliveryResponse(None, f"It could not be reached: {error or type(error).__name__}.")
        except OSError as error:
            return DeliveryResponse(None, f"Its name could not be looked up: {error.strerror or error}.")

    async def _send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryResponse:
        target = parse_target(url, private=self._allow_private)
        address = check_resolved_addresses(
            target, await self._resolve(target.host, target.port), private=self._allow_private
        )
        client = self._http_client()
        request = client.build_request(
            "POST",
            target.url_at(address),
            headers={
                "host": target.host_header,
                "user-agent": f"Stoker/{__version__}",
                "content-type": "application/json",
                **headers,
            },
            content=body,
            extensions={"sni_hostname": target.host},
        )
        response = await client.send(request, stream=True)
        try:
            await _drain(response)
            return _to_response(response)
        finally:
            await response.aclose()

    def _http_client(self) -> httpx.AsyncClient:
        """Created with the first event. Connections are not reused: with TLS one could serve another host name at the
        same address."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout_seconds,
                limits=httpx.Limits(max_keepalive_connections=0),
                verify=httpx.create_ssl_context(),
            )
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


async def _drain(response: httpx.Response) -> None:
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size >= MAX_RESPONSE_BYTES:
            return


def _to_response(response: httpx.Response) -> DeliveryResponse:
    status = response.status_code
    if 200 <= status < 300:
        return DeliveryResponse(status)
    error = "It answered with a redirect, and none is followed." if 300 <= status < 400 else f"It answered {status}."
    return DeliveryResponse(status, error, _retry_after_seconds(response.headers))


def _retry_after_seconds(headers: httpx.Headers) -> int:
    """The pause a receiver asks for: in seconds, or as a time of its own clock."""
    wait = headers.get("retry-after", "")
    if wait.isascii() and wait.isdigit() and len(wait) < 10:
        return int(wait)
    until, now = _parse_http_date(wait), _parse_http_date(headers.get("date", ""))
    return max(0, round((until - now).total_seconds())) if until and now else 0


def _parse_http_date(text: str) -> datetime | None:
    """An HTTP date, which is always in GMT."""
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
