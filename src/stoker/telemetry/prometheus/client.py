"""An HTTP client of Prometheus and compatible servers.

Every failure is one error, which names the address and never the credentials. Each request is limited in time and in
the size of the response.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 64 * 1024**2
QUERY_CONCURRENCY = 8
LOOPBACK_PATTERNS = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""Loopback addresses never go through a proxy."""
_SHOWN_CHARACTERS = 200

RawSample = tuple[float, str]
"""The time in seconds, and the value as text."""


class SeriesResult(Struct, frozen=True, gc=False):
    """A series of a response: `value` for an instant query, `values` for a range query."""

    metric: dict[str, str]
    value: RawSample | None = None
    values: list[RawSample] = []

    @property
    def instant_value(self) -> float | None:
        """The value of an instant query; None if it is missing, negative or not finite."""
        return _parse_value(self.value[1]) if self.value is not None else None

    def iter_samples(self) -> Iterator[tuple[int, float]]:
        """Epoch milliseconds and values of a range query, without values that are negative or not finite."""
        for seconds, text in self.values:
            if (number := _parse_value(text)) is not None:
                yield round(seconds * 1000), number


class _QueryData(Struct, frozen=True):
    result: list[SeriesResult] = []


class _QueryResponse(Struct, frozen=True):
    status: str = ""
    error: str = ""
    data: _QueryData = _QueryData()


decode_response = msgspec.json.Decoder(_QueryResponse).decode


class PrometheusClient:
    def __init__(
        self,
        url: str,
        token_file: str = "",
        timeout_seconds: float = TIMEOUT_SECONDS,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        address = httpx.URL(url)
        self._auth = httpx.BasicAuth(address.username, address.password) if address.userinfo else None
        self._address = str(address.copy_with(userinfo=b"")).rstrip("/")
        self._token_file = token_file
        self._timeout_seconds = timeout_seconds
        self._max_response_bytes = max_bytes
        self._query_slots = asyncio.Semaphore(QUERY_CONCURRENCY)
        self._client: httpx.AsyncClient | None = None
        self._is_left_closed: bool | None = None

    @property
    def address(self) -> str:
        """The URL without credentials."""
        return self._address

    async def query(self, query: str, at: int | None = None) -> list[SeriesResult]:
        """The value of each series at a moment, or now."""
        moment = {} if at is None else {"time": _format_seconds(at)}
        return await self._query("query", {"query": query, **moment})

    async def query_range(self, query: str, start: int, end: int, step: int) -> list[SeriesResult]:
        """The values of each series at `start`, `start + step`, ... up to `end`."""
        span = {"start": _format_seconds(start), "end": _format_seconds(end), "step": _format_seconds(step)}
        return await self._query("query_range", {"query": query, **span})

    async def range_duration(self, milliseconds: int) -> str:
        """The PromQL duration of the range (t - milliseconds, t]. Before version 3, Prometheus included the start;
        a test query tells whether it does."""
        if self._is_left_closed is None:
            points = await self.query("count_over_time(vector(1)[1m:30s])", 1_700_000_010_000)
            self._is_left_closed = [series.instant_value for series in points] == [3.0]
        return f"{milliseconds - 1 if self._is_left_closed and milliseconds > 1 else milliseconds}ms"

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _query(self, endpoint: str, form: dict[str, str]) -> list[SeriesResult]:
        try:
            async with self._query_slots, asyncio.timeout(self._timeout_seconds):
                status, body = await self._post(endpoint, form)
        except TimeoutError:
            raise self._unavailable(f"has not answered within {self._timeout_seconds:g} s") from None
        except (httpx.HTTPError, OSError, ValueError) as error:
            raise self._unavailable(f"cannot be reached: {error or type(error).__name__}") from error
        try:
            answer = await asyncio.to_thread(decode_response, body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._unavailable(f"answered {status} with something that is no result of a query") from None
        if status != httpx.codes.OK or answer.status != "success":
            raise self._unavailable(f"answered {status}: {answer.error[:_SHOWN_CHARACTERS] or 'no reason was given'}")
        return answer.data.result

    async def _post(self, endpoint: str, form: dict[str, str]) -> tuple[int, bytes]:
        # VictoriaMetrics rounds the times of cached results and hides their newest half minute.
        request = {"url": f"{self._address}/api/v1/{endpoint}", "data": {**form, "nocache": "1"}}
        body = bytearray()
        headers = await asyncio.to_thread(self._headers)
        async with self._http_client().stream("POST", **request, headers=headers) as response:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > self._max_response_bytes:
                    raise self._unavailable(f"answered with more than {self._max_response_bytes} bytes")
        return response.status_code, bytes(body)

    def _http_client(self) -> httpx.AsyncClient:
        if self._client is None:
            direct = dict.fromkeys(LOOPBACK_PATTERNS)
            self._client = httpx.AsyncClient(auth=self._auth, timeout=self._timeout_seconds, mounts=direct)
        return self._client

    def _headers(self) -> dict[str, str]:
        """The token is read for each request, because the file may be replaced at any time."""
        if not self._token_file:
            return {}
        token = Path(self._token_file).read_text(encoding="utf-8").strip()
        if not token.isascii() or not token.isprintable():
            raise ValueError(f"{self._token_file} holds no token")
        return {"Authorization": f"Bearer {token}"}

    def _unavailable(self, problem: str) -> StokerError:
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f"Prometheus at {self._address} {problem}.",
            hint="Check prometheus_url, and that it runs.",
        )


async def gather_or_cancel(*coroutines: Coroutine[Any, Any, T]) -> list[T]:
    """All results; or the first error, after the other coroutines were cancelled and have ended."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _parse_value(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _format_seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"
