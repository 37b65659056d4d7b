"""Looking up names: a silent server holds up nobody."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from stoker.server.dns import MAX_CONCURRENT_LOOKUPS, Resolver


def test_addresses_come_in_their_order() -> None:
    def look_up(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET6, 1, 6, "", ("::1", port, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", port))]

    assert asyncio.run(Resolver(look_up).resolve("hooks.example.com", 443)) == ["::1", "127.0.0.1"]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 70 + ".example.com", ""])
def test_a_name_that_stands_for_nothing_is_an_error_of_the_system(host: str) -> None:
    with pytest.raises(OSError, match=r"."):
        asyncio.run(Resolver().resolve(host, 0))


def test_only_so_many_wait_for_silent_servers_and_nobody_has_to() -> None:
    answered, begun = threading.Event(), []

    def look_up(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        begun.append(host)
        answered.wait(20)
        return []

    async def play() -> None:
        names = Resolver(look_up)
        async with asyncio.TaskGroup() as group:
            waiting = [
                group.create_task(names.resolve("hooks.example.com", 443)) for _ in range(2 * MAX_CONCURRENT_LOOKUPS)
            ]
            while len(begun) < MAX_CONCURRENT_LOOKUPS:
                await asyncio.sleep(0.001)
            for each in waiting[:MAX_CONCURRENT_LOOKUPS]:
                each.cancel()  # they have waited long enough, but their threads have not ended
            await asyncio.sleep(0)
            assert len(begun) == MAX_CONCURRENT_LOOKUPS
            answered.set()
        assert [each.result() for each in waiting[MAX_CONCURRENT_LOOKUPS:]] == [[]] * MAX_CONCURRENT_LOOKUPS

    asyncio.run(play())
