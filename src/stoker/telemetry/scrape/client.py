"""A page that a pod serves, read without trusting it: one connection, no redirects, little time, few bytes."""

import asyncio

import httpx

TIMEOUT_SECONDS = 3.0
LIMIT_BYTES = 2 * 1024**2
OK = 200


class Pages:
    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS, limit_bytes: int = LIMIT_BYTES) -> None:
        self._timeout_seconds = timeout_seconds
        self._limit_bytes = limit_bytes
        self._client: httpx.AsyncClient | None = None

    async def read(self, address: str, path: str) -> str:
        """The text of the page; empty when there is none, or none that is read in time and within the limit."""
        client = self._client = self._client or httpx.AsyncClient(
            trust_env=False,
            timeout=self._timeout_seconds,
            headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "stoker"},
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        try:
            async with asyncio.timeout(self._timeout_seconds), client.stream("GET", f"http://{address}{path}") as page:
                return (await self._body(page)).decode("utf-8", "replace") if page.status_code == OK else ""
        except (httpx.HTTPError, OSError, TimeoutError):
            return ""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _body(self, page: httpx.Response) -> bytes:
        """As it was sent: what is packed could be larger than it looks."""
        body = bytearray()
        async for piece in page.aiter_raw():
            body += piece
            if len(body) > self._limit_bytes:
                return b""
        return bytes(body)
