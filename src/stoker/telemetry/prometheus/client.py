"""Prometheus, or what speaks like it, over HTTP. Whatever goes wrong is one error that names the address and never the
credentials. Nothing here waits longer than its timeout or reads more than its limit."""

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
LIMIT_BYTES = 64 * 1024**2
AT_ONCE = 8
THIS_MACHINE = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""No proxy of the environment reaches its loopback."""
_SHOWN_CHARACTERS = 200

Sample = tuple[float, str]
"""When, in seconds, and the value as a text."""


class Found(Struct, frozen=True, gc=False):
    """A series of the answer: `value` of an instant, `values` of a range."""

    metric: dict[str, str]
    value: Sample | None = None
    values: list[Sample] = []

    @property
    def now(self) -> float | None:
        """The value of an instant, if it is a measurement."""
        return _measurement(self.value[1]) if self.value is not None else None

    def samples(self) -> Iterator[tuple[int, float]]:
        """Epoch milliseconds and values of a range, without those that are no measurement."""
        for seconds, text in self.values:
            if (number := _measurement(text)) is not None:
                yield round(seconds * 1000), number


class _Data(Struct, frozen=True):
    result: list[Found] = []


class _Answer(Struct, frozen=True):
    status: str = ""
    error: str = ""
    data: _Data = _Data()


decode = msgspec.json.Decoder(_Answer).decode


class Prometheus:
    def __init__(
        self,
        url: str,
        token_file: str = "",
        timeout_seconds: float = TIMEOUT_SECONDS,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        address = httpx.URL(url)
        self._auth = httpx.BasicAuth(address.username, address.password) if address.userinfo else None
        self._address = str(address.copy_with(userinfo=b"")).rstrip("/")
        self._token_file = token_file
        self._timeout_seconds = timeout_seconds
        self._limit_bytes = limit_bytes
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._client: httpx.AsyncClient | None = None
        self._closed_windows: bool | None = None

    @property
    def address(self) -> str:
        """Where it is, as it may be shown."""
        return self._address

    async def at(self, query: str, at: int | None = None) -> list[Found]:
        """The value of each series at a moment, or now."""
        moment = {} if at is None else {"time": _seconds(at)}
        return await self._ask("query", {"query": query, **moment})

    async def over(self, query: str, start: int, end: int, step: int) -> list[Found]:
        """The values of each series at `start`, `start + step`, ... up to `end`."""
        span = {"start": _seconds(start), "end": _seconds(end), "step": _seconds(step)}
        return await self._ask("query_range", {"query": query, **span})

    async def window(self, milliseconds: int) -> str:
        """The length of a range that holds (t - milliseconds, t]. Prometheus counted t - milliseconds too, up to its
        version 3; nothing but trying tells."""
        if self._closed_windows is None:
            points = await self.at("count_over_time(vector(1)[1m:30s])", 1_700_000_010_000)
            self._closed_windows = [found.now for found in points] == [3.0]
        return f"{milliseconds - 1 if self._closed_windows and milliseconds > 1 else milliseconds}ms"

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, what: str, form: dict[str, str]) -> list[Found]:
        try:
            async with self._turns, asyncio.timeout(self._timeout_seconds):
                status, body = await self._post(what, form)
        except TimeoutError:
            raise self._down(f"has not answered within {self._timeout_seconds:g} s") from None
        except (httpx.HTTPError, OSError, ValueError) as error:
            raise self._down(f"cannot be reached: {error or type(error).__name__}") from error
        try:
            answer = await asyncio.to_thread(decode, body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._down(f"answered {status} with something that is no result of a query") from None
        if status != httpx.codes.OK or answer.status != "success":
            raise self._down(f"answered {status}: {answer.error[:_SHOWN_CHARACTERS] or 'no reason was given'}")
        return answer.data.result

    async def _post(self, what: str, form: dict[str, str]) -> tuple[int, bytes]:
        # VictoriaMetrics rounds the times of what it caches, and hides the newest half minute of it.
        request = {"url": f"{self._address}/api/v1/{what}", "data": {**form, "nocache": "1"}}
        body = bytearray()
        headers = await asyncio.to_thread(self._headers)
        async with self._opened().stream("POST", **request, headers=headers) as response:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > self._limit_bytes:
                    raise self._down(f"answered with more than {self._limit_bytes} bytes")
        return response.status_code, bytes(body)

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            direct = dict.fromkeys(THIS_MACHINE)
            self._client = httpx.AsyncClient(auth=self._auth, timeout=self._timeout_seconds, mounts=direct)
        return self._client

    def _headers(self) -> dict[str, str]:
        """The token is read anew each time, as it may be replaced at any time."""
        if not self._token_file:
            return {}
        token = Path(self._token_file).read_text(encoding="utf-8").strip()
        if not token.isascii() or not token.isprintable():
            raise ValueError(f"{self._token_file} holds no token")
        return {"Authorization": f"Bearer {token}"}

    def _down(self, what: str) -> StokerError:
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"Prometheus at {self._address} {what}.",
            hint="Check prometheus_url, and that it runs.",
        )


async def together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """All answers; or the first error, once nothing is under way any more."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _measurement(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"
