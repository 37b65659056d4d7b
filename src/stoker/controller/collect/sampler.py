"""Reads the hardware of a cluster at every full period of the wall clock, keeps what it says, and publishes the live
view: then, and soon after anything moved.

A source that is slow, dead or wrong holds up nothing. Who holds what is ours to know and goes on being published; what
the GPUs showed last is kept, marked as stale, for `KEPT_SECONDS`, and is then not known any more.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping

from msgspec import structs

from stoker.controller.forever import forever
from stoker.controller.idleness import IdleWatch
from stoker.controller.news import News, Taken
from stoker.controller.pod_use import PodUseKeeper
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.live import Part, SourceState
from stoker.domain.node import Node
from stoker.domain.readings import GpuFault, Readings, Source
from stoker.store import gpu_spans, holders, inventory_rows, live_views, node_faults, nodes, samples
from stoker.store.base import Store, Transaction, has_room
from stoker.store.holders import Holder
from stoker.telemetry.idle_past import idle_past
from stoker.telemetry.idleness import published
from stoker.telemetry.view import LiveView

KEPT_SECONDS = 300
NOT_YET = "It has not been read yet."
PATIENCE = 0.8
"""How much of a period the source may take."""
COALESCE_SECONDS = 1.0
SILENT_SECONDS = 30.0
"""The longest that nothing is published, so that it is seen whether anybody still does."""
REST = 2.0
"""After publishing, the view rests so many times as long as that took."""

log = logging.getLogger("stoker.sampler")


class Sampler:
    def __init__(
        self,
        store: Store,
        source: Source,
        cluster_id: str,
        clock: Clock,
        news: News,
        period_seconds: float,
        idle_percent: float = 1.0,
    ) -> None:
        self._store = store
        self._source = source
        self._cluster_id = cluster_id
        self._clock = clock
        self._news = news
        self._period_ms = round(period_seconds * 1000)
        self._idle_up_to = idle_percent / 100
        self._view = LiveView(self._idle_up_to)
        self._recalled = False
        self._pods = PodUseKeeper(store, cluster_id)
        self._idle = IdleWatch(store, cluster_id, clock, self._period_ms, idle_percent)
        self._turn = asyncio.Lock()
        self._asked: asyncio.Task[Readings] | None = None
        self._state = SourceState(source.name, None, stale=True, message=NOT_YET, asked_at=clock.now())
        self._roster: tuple[bytes, int] = (b"", 0)
        self._published: Mapping[Part, bytes] = {}
        self._unused: Mapping[str, int] | None = None
        self._faults: tuple[GpuFault, ...] | None = None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(forever(self._follow, self._cluster_id))
                group.create_task(forever(self._sample, self._cluster_id))
        finally:
            if self._asked is not None:
                self._asked.cancel()

    async def _follow(self) -> None:
        """Publish whenever something moved, but not all the time."""
        while True:
            await self._news.wait(SILENT_SECONDS)
            began = time.monotonic()
            async with self._turn:
                await self._publish()
            await asyncio.sleep(max(COALESCE_SECONDS, REST * (time.monotonic() - began)))

    async def _sample(self) -> None:
        """Read at once to have something to show, and then in step with the clock to keep it."""
        await self._read(keep_at=None)
        while True:
            now = self._clock.now()
            slot = now - now % self._period_ms + self._period_ms
            await asyncio.sleep((slot - now) / 1000)
            await self._read(keep_at=slot)

    async def _read(self, keep_at: int | None) -> None:
        readings = await self._ask()
        answered_at = self._clock.now()
        async with self._turn:
            if readings is not None:
                await asyncio.to_thread(self._view.read, readings)
                self._state = SourceState(self._source.name, answered_at, stale=False)
                await self._note_faults(readings)
            elif self._age_ms() > max(KEPT_SECONDS * 1000, 2 * self._period_ms):
                await asyncio.to_thread(self._view.read, None)
            keep_at = keep_at if readings is not None and has_room(self._store) else None
            await self._publish(keep_at)
            if keep_at is not None:
                await self._idle.look(keep_at, self._view.most_used)
        if readings is not None and keep_at is not None:
            await self._pods.keep(readings.pods, keep_at)

    async def _note_faults(self, readings: Readings) -> None:
        """What GPUs say of themselves counts from the reading that said it."""
        if readings.faults != self._faults:
            await self._store.write(lambda tx: self._report(tx, readings.faults))
            self._faults = readings.faults

    def _report(self, transaction: Transaction, faults: Collection[GpuFault]) -> None:
        cluster_id, now = self._cluster_id, self._clock.now()
        named = {fault.node for fault in faults} | {node for node, *_ in gpu_spans.reported(transaction, cluster_id)}
        node_faults.telling(
            transaction, cluster_id, named, now, lambda: gpu_spans.report(transaction, cluster_id, faults, now)
        )

    async def _ask(self) -> Readings | None:
        """The readings of now; None when the source has none. It is never asked twice at once."""
        before = self._asked
        if before is None or before.done():
            before = self._asked = asyncio.create_task(self._source.readings())
        done, _ = await asyncio.wait({before}, timeout=PATIENCE * self._period_ms / 1000)
        if not done:
            before.cancel()
            return self._miss(f"The source {self._source.name} has not answered in time.")
        if before.cancelled():
            return self._miss(f"The source {self._source.name} has not answered in time.")
        error = before.exception()
        if isinstance(error, StokerError):
            return self._miss(error.message)
        if error is not None:
            log.error("the source %s of cluster %s failed", self._source.name, self._cluster_id, exc_info=error)
            return self._miss(f"The source {self._source.name} failed: {error}")
        if self._state.stale and self._state.message != NOT_YET:
            log.info("the source %s of cluster %s answers again", self._source.name, self._cluster_id)
        return before.result()

    def _miss(self, message: str) -> None:
        if not self._state.stale or message != self._state.message:
            log.warning("cluster %s: %s", self._cluster_id, message)
        self._state = structs.replace(self._state, stale=True, message=message)

    def _age_ms(self) -> int:
        return self._clock.now() - (self._state.read_at or 0)

    async def _publish(self, keep_at: int | None = None) -> None:
        """Bring the view up to date and write it, with the last reading as a tick if there is one to keep."""
        taken = self._news.take()
        try:
            if taken.everything:
                if not self._recalled:
                    await self._recall()
                found = await self._store.read(self._load)
                await asyncio.to_thread(self._view.replace, *found)
            else:
                await self._mend(taken)
            parts = await asyncio.to_thread(self._view.parts, self._clock.now(), self._state)
            changed = {part: body for part, body in parts.items() if body != self._published.get(part)}
            self._roster = await self._store.write(lambda tx: self._write(tx, changed, keep_at))
            self._published, self._unused = parts, self._view.unused_milli
        except BaseException:
            self._news.everything()
            raise

    async def _recall(self) -> None:
        """Once, what was published last: when the source was read, and since when GPUs have been idle; where that is
        not known, it is found in the readings that were kept."""
        cluster_id = self._cluster_id
        overview, gpus = await self._store.read(
            lambda tx: (
                live_views.recall(tx, cluster_id, Part.OVERVIEW, live_views.decode_overview),
                live_views.recall(tx, cluster_id, Part.GPUS, live_views.decode_gpus),
            )
        )
        if overview is not None and self._state.read_at is None:
            self._state = structs.replace(self._state, read_at=overview[0].source.read_at)
        known, at = (published(gpus[0]), gpus[1]) if gpus else ([], 0)
        if not known:
            at = self._clock.now()
            known = await self._store.read(lambda tx: idle_past(tx, self._cluster_id, self._idle_up_to, at))
        self._view.idleness.restore(known, at)
        self._recalled = True

    def _load(self, transaction: Transaction) -> tuple[list[Node], list[Holder]]:
        return nodes.of_cluster(transaction, self._cluster_id), holders.of_cluster(transaction, self._cluster_id)

    async def _mend(self, taken: Taken) -> None:
        found: list[Holder] = []
        if taken.workloads:
            found = await self._store.read(lambda tx: holders.of_workloads(tx, self._cluster_id, taken.workloads))
        await asyncio.to_thread(self._view.change, taken.nodes, taken.workloads, found)

    def _write(self, transaction: Transaction, parts: Mapping[Part, bytes], keep_at: int | None) -> tuple[bytes, int]:
        """Gives the roster that is known to be kept, and its number."""
        now = self._clock.now()
        live_views.put(transaction, self._cluster_id, now, parts)
        if self._view.unused_milli != self._unused:
            inventory_rows.set_idle(transaction, self._cluster_id, self._view.unused_milli)
        if keep_at is None or not self._view.tick:
            return self._roster
        body, number = self._roster
        if body is not self._view.roster:
            body = self._view.roster
            number = samples.roster_for(transaction, self._cluster_id, body, self._view.gpus, now)
        samples.add_tick(transaction, self._cluster_id, keep_at, number, self._view.tick)
        return body, number
