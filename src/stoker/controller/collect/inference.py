"""Asks inference servers what they say of themselves, at every full period of the wall clock, and keeps it.

Only addresses that the engine gave are spoken to. A server that is slow, dead or wrong costs a little time beside
everything else: it rests for as long as its page takes, many times over, and a dead one is asked less and less often.
"""

import asyncio
import time
from collections.abc import Sequence

from stoker.domain.clock import Clock
from stoker.domain.pod_samples import PodSource, Values
from stoker.domain.scraping import metrics_paths
from stoker.engines.base import Engine, Serving
from stoker.store import pod_samples, workloads
from stoker.store.base import Store, has_room
from stoker.telemetry import inference
from stoker.telemetry.exposed import Pages

AT_ONCE = 16
MOST = 512
"""Servers that are asked in one round: those that have waited longest."""
LONGEST_WAIT_MS = 300_000
REST = 20
"""A server is left alone for so many times as long as its page took: asking never takes more than a twentieth of it."""


class _Server:
    """What is known of one that listens. `again_at` is when it is asked next."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.again_at = 0
        self._failed = 0

    def due(self, at: int) -> bool:
        """Whether it is asked now; a clock that was set back keeps nobody waiting."""
        return bool(self.paths) and not at < self.again_at <= at + LONGEST_WAIT_MS

    def answered(self, path: str, at: int, took_ms: int) -> None:
        self.paths, self.again_at, self._failed = (path,), at + min(LONGEST_WAIT_MS, REST * took_ms), 0

    def failed(self, at: int, period_ms: int) -> None:
        self.again_at = at + min(LONGEST_WAIT_MS, period_ms << min(self._failed, 20))
        self._failed += 1


class InferenceCollector:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster_id: str,
        clock: Clock,
        period_seconds: float,
        pages: Pages | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._period_ms = round(period_seconds * 1000)
        self._pages = pages or Pages()
        self._servers: dict[str, _Server] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        try:
            while True:
                now = self._clock.now()
                slot = now - now % self._period_ms + self._period_ms
                await asyncio.sleep((slot - now) / 1000)
                await self.collect(slot)
        finally:
            await self._pages.close()

    async def collect(self, at: int) -> int:
        """Ask everyone whose turn it is; says how many had something to say."""
        listening = {each.pod_uid: each for each in self._engine.serving()}
        self._servers = {uid: server for uid, server in self._servers.items() if uid in listening}
        await self._meet([each for uid, each in listening.items() if uid not in self._servers])
        due = [uid for uid, server in self._servers.items() if server.due(at)]
        due = sorted(due, key=lambda uid: self._servers[uid].again_at)[:MOST]
        said = await asyncio.gather(*(self._ask(listening[uid], self._servers[uid], at) for uid in due))
        found = {uid: values for uid, values in zip(due, said, strict=True) if values}
        if found and has_room(self._store):
            encoded = await asyncio.to_thread(pod_samples.encode, found)
            await self._store.write(lambda tx: pod_samples.add(tx, self._cluster_id, at, PodSource.INFERENCE, encoded))
        return len(found)

    async def _meet(self, new: Sequence[Serving]) -> None:
        if not new:
            return
        known = await self._store.read(lambda tx: workloads.by_uid(tx, {each.workload_uid for each in new}))
        for each in new:
            if each.workload_uid in known:
                self._servers[each.pod_uid] = _Server(metrics_paths(known[each.workload_uid]))

    async def _ask(self, serving: Serving, server: _Server, at: int) -> Values:
        async with self._turns:
            for path in server.paths:
                began = time.monotonic()
                page = await self._pages.read(serving.address, path)
                took_ms = round((time.monotonic() - began) * 1000)
                if page and (found := await asyncio.to_thread(inference.parse, page)):
                    server.answered(path, at, took_ms)
                    return found
        server.failed(at, self._period_ms)
        return {}
