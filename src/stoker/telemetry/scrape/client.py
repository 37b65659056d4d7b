"""Scrapes metric pages of pods without trusting them: one connection, no redirects, limited time and size."""

import asyncio

import httpx

TIMEOUT_SECONDS = 3.0
MAX_PAGE_BYTES = 2 * 1024**2
HTTP_OK = 200


class ScrapeClient:
    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS, max_bytes: int = MAX_PAGE_BYTES) -> None:
        self._timeout_seconds = timeout_seconds
        self._max_page_bytes = max_bytes
        self._client: httpx.AsyncClient | None = None

    async def scrape(self, address: str, path: str) -> str:
        """The text of the page; empty on any failure, or if it exceeds the limits."""
        client = self._client = self._client or httpx.AsyncClient(
            trust_env=False,
            timeout=self._timeout_seconds,
            headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "stoker"},
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        try:
            async with asyncio.timeout(self._timeout_seconds), client.stream("GET", f"http://{address}{path}") as page:
                return (await self._read_body(page)).decode("utf-8", "replace") if page.status_code == HTTP_OK else ""
        except (httpx.HTTPError, OSError, TimeoutError):
            return ""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _read_body(self, page: httpx.Response) -> bytes:
        """The raw body: a compressed one could be larger than the limit after decompression."""
        body = bytearray()
        async for piece in page.aiter_raw():
            body += piece
            if len(body) > self._max_page_bytes:
                return b""
        return bytes(body)
