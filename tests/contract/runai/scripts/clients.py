"""The three kinds of clients that the vendor's package has, all called in the same way."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from runai.api_client import ApiClient, AsyncApiClient, ThreadedApiClient
from runai.configuration import Configuration
from runai.runai_client import RunaiClient

GIVEN: dict[str, Any] = json.loads(sys.argv[1])
TIMEOUT_SECONDS = 60.0


class Client:
    """`call` waits for what a method gives, whatever kind of client it is of."""

    def __init__(self, kind: str) -> None:
        configuration = Configuration(
            client_id=GIVEN["client_id"],
            client_secret=GIVEN["client_secret"],
            runai_base_url=GIVEN["address"],
            retry_enabled=False,
        )
        self._kind = kind
        self._loop = asyncio.new_event_loop()
        kinds = {"sync": ApiClient, "threaded": ThreadedApiClient, "async": AsyncApiClient}
        self.api_client = kinds[kind](configuration)
        self.runai = RunaiClient(self.api_client)

    def call(self, method: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """The body of the answer."""
        return self.answer(method, *values, **named).data

    def answer(self, method: Callable[..., Any], *values: Any, **named: Any) -> Any:
        if self._kind == "async":

            async def ask() -> Any:
                return await method(*values, **named)

            return self._loop.run_until_complete(ask())
        given = method(*values, **named)
        return given.get() if self._kind == "threaded" else given

    def close(self) -> None:
        if self._kind == "async":
            self._loop.run_until_complete(self.api_client.close())
        self.runai.api_client = None
        self._loop.close()


def until(look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """What is seen once it is good."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not good(seen := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still {seen}")
        time.sleep(0.1)
    return seen
