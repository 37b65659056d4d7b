"""Bears a server that is gone for a while, such as one that is started anew. What is followed goes on after that."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.client.exchange import Unreachable

if TYPE_CHECKING:
    from stoker.client.client import Stoker
    from stoker.client.workload_shapes import WorkloadEvent

PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.5


class Patience:
    """Of one thing that is done again and again until it works."""

    def __init__(self) -> None:
        self._lost_at: float | None = None

    def bear(self, error: Unreachable) -> None:
        """Pause; the error itself when it has been gone for too long. An answer that had begun is a new start."""
        now = time.monotonic()
        if self._lost_at is None or error.broke_off:
            self._lost_at = now
        if now - self._lost_at >= PATIENCE_SECONDS:
            raise error
        time.sleep(PAUSE_SECONDS)


def lasting_events(client: "Stoker", workload: str = "", after: int | None = None) -> "Iterator[WorkloadEvent]":
    """Changes as they happen, each once, over any number of connections."""
    patience = Patience()
    while True:
        try:
            for event in client.workloads.events(workload=workload, after=after):
                after = event.seq
                yield event
        except Unreachable as error:
            patience.bear(error)
