"""The engines of this process and the controllers that drive them; also the way from services through to them."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stoker.cli.credentials import credentials_file
from stoker.controller.cluster import ClusterController
from stoker.controller.compaction import Compactor
from stoker.controller.forever import forever
from stoker.controller.inference import InferenceCollector
from stoker.controller.lease import Lease, LeaseLostError
from stoker.controller.news import News
from stoker.controller.pod_hours import PodHours
from stoker.controller.post import Post
from stoker.controller.rollup import Rollup
from stoker.controller.sampler import Sampler
from stoker.controller.snapshots import Snapshots
from stoker.controller.webhooks import LEASE, Courier
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.identity import Cluster
from stoker.domain.live import Part
from stoker.domain.names import Randomness
from stoker.domain.reach import LogLine, Terminal
from stoker.domain.readings import Source
from stoker.domain.report_token import ReportTo
from stoker.domain.settings import Settings
from stoker.engines.base import Engine
from stoker.engines.local.containment import ContainmentMode
from stoker.engines.local.engine import LocalEngine
from stoker.server.demo.open import Demo, open_demo
from stoker.server.names import Names
from stoker.server.sources import local_source
from stoker.services.first_start import LOCAL
from stoker.store import clusters, live_views
from stoker.store.base import Store, Transaction
from stoker.store.signal import Signal

THIS_DATA_DIR = "the server of this data dir"
"""With SQLite there is only ever one, wherever the data dir is moved."""
FIRST_LOOK_SECONDS = 3.0
LOOK_SECONDS = 0.02

log = logging.getLogger("stoker.fleet")


class Fleet:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        randomness: Randomness,
        settings: Settings,
        signal: Signal,
        reports: ReportTo | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._settings = settings
        self._signal = signal
        self._reports = reports
        self._engines: dict[str, Engine] = {}
        self.demo: Demo | None = None

    @asynccontextmanager
    async def running(self, data_dir: Path) -> AsyncIterator[None]:
        """The engines open and their controllers at work; pods go on when it ends."""
        settings = self._settings
        holder = f"{socket.gethostname()}:{data_dir.resolve()}" if settings.database else THIS_DATA_DIR
        at_hand: dict[str, bool] = {}
        async with contextlib.AsyncExitStack() as stack:
            for cluster, opened, source in await self._opened(data_dir):
                stack.push_async_callback(opened.close)
                stack.push_async_callback(source.close)
                self._engines[cluster.id] = opened
                at_hand[cluster.id] = source is opened
                lease = Lease(self._store, cluster.id, holder, self._clock, takeover=settings.local_takeover)
                await stack.enter_async_context(working(self._drive(lease, opened, source, cluster.id)))
            await stack.enter_async_context(working(self._tell(holder)))
            await self._first_look(at_hand)
            yield

    async def _first_look(self, at_hand: Mapping[str, bool]) -> None:
        """Until each cluster is seen, so that who asks at once is not told of nothing. Readings are waited for only
        where they are at hand: no other source may hold up a start."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_SECONDS):
                for cluster_id, read in at_hand.items():
                    while not await self._store.peek(lambda tx, c=cluster_id, r=read: _seen(tx, c, read=r)):
                        await asyncio.sleep(LOOK_SECONDS)

    async def _opened(self, data_dir: Path) -> list[tuple[Cluster, Engine, Source]]:
        """Every cluster that this server has an engine for, and where its readings come from."""
        settings = self._settings
        local = await self._store.peek(lambda tx: clusters.find(tx, LOCAL))
        if local is None:
            return []
        engine = await LocalEngine.open(
            data_dir,
            gpus=None if settings.gpus < 0 else settings.gpus,
            mode=ContainmentMode(settings.containment),
            hidden=_secrets(settings),
            first_user=settings.local_user,
            clock=self._clock,
            reports=self._reports,
        )
        opened: list[tuple[Cluster, Engine, Source]] = [
            (local, engine, local_source(settings, engine, data_dir, self._clock))
        ]
        if settings.demo:
            self.demo = await open_demo(self._store, settings, data_dir, self._clock, self._randomness)
            opened.append((self.demo.world.cluster, self.demo.engine, self.demo.engine))
        return opened

    async def _drive(self, lease: Lease, engine: Engine, source: Source, cluster_id: str) -> None:
        """Control the cluster whenever it is this server's to control."""
        while True:
            leased = await lease.acquire()
            news = News()
            controller = ClusterController(
                leased,
                engine,
                cluster_id,
                self._clock,
                self._randomness,
                self._signal,
                news,
                self._settings.log_limit_bytes,
            )
            settings = self._settings
            sampler = Sampler(
                leased, source, cluster_id, self._clock, news, settings.sample_seconds, settings.idle_threshold
            )
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(lease.renew(leased))
                    group.create_task(controller.run())
                    group.create_task(sampler.run())
                    for loop in self._loops(leased, engine, cluster_id):
                        group.create_task(forever(loop, cluster_id))
            except* LeaseLostError as lost:
                log.warning("%s", _first(lost))

    async def _tell(self, holder: str) -> None:
        """Deliver events to webhooks whenever that is this server's to do."""
        lease = Lease(self._store, LEASE, holder, self._clock, takeover=True, what="the delivery of webhooks")
        while True:
            leased = await lease.acquire()
            post = Post(Names().resolve, private=self._settings.webhook_private_targets)
            courier = Courier(leased, self._clock, self._randomness, self._signal, post)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(lease.renew(leased))
                    group.create_task(courier.run())
            except* LeaseLostError as lost:
                log.warning("%s", _first(lost))

    def _loops(self, store: Store, engine: Engine, cluster_id: str) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        settings = self._settings
        compactor = Compactor(store, cluster_id, self._clock)
        rollup = Rollup(store, cluster_id, self._clock, settings.idle_threshold)
        snapshots = Snapshots(store, cluster_id, self._clock, settings.snapshot_seconds)
        inference = InferenceCollector(store, engine, cluster_id, self._clock, settings.sample_seconds)
        hours = PodHours(store, cluster_id, self._clock)
        return [compactor.run, hours.run, rollup.run, snapshots.run, inference.run]

    async def tail(self, cluster_id: str, pod_uid: str, position: int, limit: int) -> list[LogLine]:
        engine = self._engines.get(cluster_id)
        if engine is None:
            return []
        try:
            return await engine.logs(pod_uid, position, limit)
        except StokerError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return []
            raise

    async def shells(self, cluster_id: str, pod_uid: str) -> list[str]:
        return await self._engine(cluster_id).shells(pod_uid)

    async def execute(
        self, cluster_id: str, pod_uid: str, command: list[str], *, tty: bool, columns: int, rows: int
    ) -> Terminal:
        return await self._engine(cluster_id).execute(pod_uid, command, tty=tty, columns=columns, rows=rows)

    async def service_address(self, cluster_id: str, workload_uid: str) -> str:
        engine = self._engines.get(cluster_id)
        return await engine.service_address(workload_uid) if engine else ""

    def _engine(self, cluster_id: str) -> Engine:
        if (engine := self._engines.get(cluster_id)) is not None:
            return engine
        raise StokerError(ErrorCode.BACKEND_DOWN, "The engine of this workload's cluster does not run in this server.")


@asynccontextmanager
async def working(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs beside whatever is inside, and ends with it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _seen(transaction: Transaction, cluster_id: str, *, read: bool) -> bool:
    """Whether its nodes are shown, and what was read of them if that is wanted."""
    found = live_views.recall(transaction, cluster_id, Part.OVERVIEW, live_views.decode_overview)
    if found is None or not found[0].nodes + found[0].cpu_nodes:
        return False
    return found[0].source.read_at is not None or not read


def _first(group: BaseExceptionGroup) -> BaseException:
    """The first error that is not a group itself."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _secrets(settings: Settings) -> tuple[Path, ...]:
    """Files outside the data dir that no job may see."""
    found = [Path(file) for file in (settings.tls_key, settings.prometheus_token_file) if file]
    with contextlib.suppress(RuntimeError):  # a user without a home
        found.append(credentials_file())
    return tuple(found)
