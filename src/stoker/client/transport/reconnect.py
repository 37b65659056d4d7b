"""Reconnects to a server that is unreachable for a while, for example during a restart."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.client.transport.request_flow import Unreachable

if TYPE_CHECKING:
    from stoker.client.sdk import Stoker
    from stoker.wire.workloads import WorkloadEvent

MAX_OUTAGE_SECONDS = 60.0
RECONNECT_DELAY_SECONDS = 0.5


class ReconnectPolicy:
    """Waits between the attempts of one operation, up to `MAX_OUTAGE_SECONDS` in a row."""

    def __init__(self) -> None:
        self._unreachable_since: float | None = None

    def wait(self, error: Unreachable) -> None:
        """Sleep before the next attempt; raise the error if the outage is too long. A broken-off response resets it."""
        now = time.monotonic()
        if self._unreachable_since is None or error.broke_off:
            self._unreachable_since = now
        if now - self._unreachable_since >= MAX_OUTAGE_SECONDS:
            raise error
        time.sleep(RECONNECT_DELAY_SECONDS)


def reconnecting_events(client: "Stoker", workload: str = "", after: int | None = None) -> "Iterator[WorkloadEvent]":
    """Events as they happen, each exactly once, over any number of connections."""
    policy = ReconnectPolicy()
    while True:
        try:
            for event in client.workloads.events(workload=workload, after=after):
                after = event.seq
                yield event
        except Unreachable as error:
            policy.wait(error)
