"""Readiness: the components that this server needs, and which of them fail."""

import asyncio
import time

from msgspec import Struct

from stoker.domain.errors import StokerError
from stoker.services.context import Context
from stoker.services.fleet.leadership import ClusterLeadership
from stoker.store.sql import sequences

PROBE_SEQUENCE = "readiness"
PROBE_TTL_SECONDS = 1.0
"""How long a successful write probe is valid."""


class ComponentStatus(Struct, frozen=True):
    name: str
    ready: bool
    message: str


class HealthService:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._leadership = ClusterLeadership(context)
        self._probe_lock = asyncio.Lock()
        self._probed_at = -PROBE_TTL_SECONDS

    async def check_components(self) -> list[ComponentStatus]:
        """The status of every component. With low disk space the server stays ready: workloads can still be stopped."""
        store = self._context.store
        try:
            await store.read_inline(lambda tx: sequences.current_value(tx, PROBE_SEQUENCE))
            await self._probe_write()
        except StokerError as error:
            return [ComponentStatus("database", False, error.message)]
        components = [ComponentStatus("database", True, store.name.split(" ")[0])]
        try:
            store.check_disk_space()
        except StokerError as error:
            components.append(ComponentStatus("space", True, error.message))
        return [*components, *await self._unavailable_clusters(), *self._failing_loops()]

    async def _unavailable_clusters(self) -> list[ComponentStatus]:
        """Clusters without a leader or a connection; the server is ready without them: the others can be used."""
        unavailable = await self._context.store.read_inline(self._leadership.unavailable_clusters)
        consequence = "nothing in it starts, stops or is observed."
        return [
            ComponentStatus("cluster", True, f"{cluster.message}: {consequence} {cluster.hint}")
            for cluster in unavailable.values()
        ]

    def _failing_loops(self) -> list[ComponentStatus]:
        now = self._context.clock.now()
        failing = [state for state in self._context.loops.list_states() if state.is_failing(now)]
        return [ComponentStatus("loop", False, state.message) for state in failing]

    async def _probe_write(self) -> None:
        """Write to the database, at most once a second however many callers ask."""
        async with self._probe_lock:
            if time.monotonic() - self._probed_at > PROBE_TTL_SECONDS:
                await self._context.store.write(lambda tx: sequences.next_value(tx, PROBE_SEQUENCE))
                self._probed_at = time.monotonic()
