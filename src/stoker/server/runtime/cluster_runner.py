"""One cluster of this server: its engine, opened again until that succeeds, and the controller that drives it.

A cluster that cannot be opened is recorded as not reachable, with the reason; it holds up nothing else.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from stoker.concurrency.retry import backoff_seconds
from stoker.concurrency.supervisor import Loop, LoopRegistry, Supervisor
from stoker.controller.cluster import ClusterController
from stoker.controller.collect.inference import InferenceCollector
from stoker.controller.collect.sampler import Sampler
from stoker.controller.reconcile.rollout import RolloutPolicy
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.controller.runtime.lease import Lease, LeaseLostError
from stoker.controller.usage.rollup import Rollup
from stoker.controller.usage.snapshots import AllocationSnapshotter
from stoker.domain.access.identity import Cluster
from stoker.domain.clock import Clock
from stoker.domain.cluster.samples import Collector
from stoker.domain.errors import StokerError
from stoker.domain.names import RandomBytes
from stoker.domain.settings.schema import Settings
from stoker.engines.kinds import EngineContext, EngineKind
from stoker.engines.protocol import Engine
from stoker.server.collectors import build_collector
from stoker.services.fleet.leadership import LEASE_LOOP
from stoker.store.cluster import clusters, leases
from stoker.store.db.base import Store, Transaction, TransactionFn
from stoker.store.db.notify import ChangeNotifier
from stoker.telemetry.tsdb.compactor import Compactor, PodSampleCompactor

INITIAL_RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0

log = logging.getLogger("stoker.cluster")

PrepareEngine = Callable[[Cluster], Awaitable[tuple[EngineKind, EngineContext]]]


class RunnerContext(Struct, frozen=True):
    """What every cluster of this server is driven with. `holder` is this server's name in leases."""

    store: Store
    clock: Clock
    randomness: RandomBytes
    settings: Settings
    notifier: ChangeNotifier
    loops: LoopRegistry
    holder: str


class ClusterRunner:
    """`prepare` gives the kind of the cluster's engine and what to open it with. `engine` is None until it is open."""

    def __init__(self, context: RunnerContext, cluster: Cluster, prepare: PrepareEngine) -> None:
        self._context = context
        self._cluster = cluster
        self._prepare = prepare
        self._kind: EngineKind | None = None
        self._engine_context: EngineContext | None = None
        self._collector: Collector | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure = ""
        self.engine: Engine | None = None

    @property
    def is_open_at_once(self) -> bool:
        """Whether its engine is open and reports without waiting for anything outside this server."""
        return self.engine is not None and self._kind is not None and self._kind.opens_at_once

    @property
    def samples_at_once(self) -> bool:
        """Whether its engine is the source of its own samples, so that the first ones are there at once."""
        return self.engine is not None and self._collector is self.engine

    def adopt(self, kind: EngineKind, engine_context: EngineContext, engine: Engine) -> None:
        """Take an engine that was opened before."""
        self._kind, self._engine_context = kind, engine_context
        self._collector = build_collector(engine, engine_context)
        self.engine = engine

    async def try_open(self) -> bool:
        """Open the engine; a failure is recorded with the cluster."""
        try:
            kind, engine_context = await self._prepare(self._cluster)
            engine = await kind.open(engine_context)
        except Exception as error:
            await self._record_failure(error)
            return False
        self.adopt(kind, engine_context, engine)
        if kind.opens_at_once:
            await self._try_write(lambda tx: clusters.set_reachable(tx, self._cluster.id))
        if engine.capabilities != self._cluster.capabilities:
            await self._try_write(lambda tx: clusters.set_capabilities(tx, self._cluster.id, engine.capabilities))
        return True

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"cluster {self._cluster.name}")

    async def stop(self) -> None:
        """Stop driving the cluster and close its engine. Its pods keep running."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._close()

    async def release_lease(self) -> None:
        """Delete the lease of a cluster that was removed."""
        await self._try_write(lambda tx: leases.delete(tx, self._cluster.id))

    async def _run(self) -> None:
        failures = 0
        clock = self._context.clock
        while self.engine is None and not await self.try_open():
            failures += 1
            await clock.sleep(backoff_seconds(failures, first=INITIAL_RETRY_SECONDS, longest=MAX_RETRY_SECONDS))
        await Supervisor(clock, self._context.loops, self._cluster.name).run("controller", self._drive)

    async def _drive(self) -> None:
        """Control the cluster whenever it is this server's to control."""
        context, cluster = self._context, self._cluster
        kind, engine_context, engine, collector = self._kind, self._engine_context, self.engine, self._collector
        if kind is None or engine_context is None or engine is None or collector is None:
            raise RuntimeError("the engine is not open")
        takeover = context.settings.local_takeover or not kind.is_host_bound(engine_context.config)
        lease = Lease(context.store, cluster.id, context.holder, context.clock, takeover=takeover)
        supervisor = Supervisor(context.clock, context.loops, cluster.name, stop_on=(LeaseLostError,))
        while True:
            leased = await lease.acquire()
            news = DirtySet()
            settings = context.settings
            controller = ClusterController(
                leased,
                engine,
                cluster.id,
                context.clock,
                context.randomness,
                context.notifier,
                news,
                supervisor,
                settings.log_limit_bytes,
                RolloutPolicy(settings.rollout_deadline_seconds, settings.rollout_rollback),
                settings.gpu_fault_action,
            )
            sampler = Sampler(
                leased,
                collector,
                cluster.id,
                context.clock,
                news,
                supervisor,
                settings.sample_seconds,
                settings.idle_threshold,
                settings.gpu_fault_action,
                controller.nodes_changed,
            )
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(supervisor.run(LEASE_LOOP, partial(lease.renew, leased)))
                    group.create_task(controller.run())
                    group.create_task(sampler.run())
                    for name, loop in self._background_loops(leased, engine).items():
                        group.create_task(supervisor.run(name, loop))
            except* LeaseLostError as lost:
                log.warning("%s", first_leaf(lost))
            if not await context.store.read_inline(self._is_stored):
                await asyncio.Event().wait()  # the cluster was removed: this runner is about to be stopped

    def _background_loops(self, store: Store, engine: Engine) -> dict[str, Loop]:
        clock, settings, cluster_id = self._context.clock, self._context.settings, self._cluster.id
        return {
            "compaction": Compactor(store, cluster_id, clock).run,
            "pod hours": PodSampleCompactor(store, cluster_id, clock).run,
            "rollup": Rollup(store, cluster_id, clock, settings.idle_threshold).run,
            "snapshots": AllocationSnapshotter(store, cluster_id, clock, settings.snapshot_seconds).run,
            "inference": InferenceCollector(store, engine, cluster_id, clock, settings.sample_seconds).run,
        }

    async def _record_failure(self, error: Exception) -> None:
        """Record why the engine cannot be opened, unless another server drives the cluster meanwhile."""
        name = self._cluster.name
        if isinstance(error, StokerError):
            message = f"{error.message} {error.hint}".strip()
            details = None
        else:
            message = f"Its engine failed: {str(error) or type(error).__name__}. The server's log has the details."
            details = error
        if message != self._failure:  # the same failure is logged once
            log.warning("cluster %s cannot be opened: %s", name, message, exc_info=details)
            self._failure = message

        def change(transaction: Transaction) -> None:
            now = self._context.clock.now()
            lease = leases.find(transaction, self._cluster.id)
            if lease is None or lease.holder == self._context.holder or lease.expires_at <= now:
                clusters.set_unreachable(transaction, self._cluster.id, now, message)

        await self._try_write(change)

    async def _try_write(self, change: TransactionFn[None]) -> None:
        try:
            await self._context.store.write(change)
        except StokerError as error:
            log.warning("the state of cluster %s could not be written: %s", self._cluster.name, error.message)

    def _is_stored(self, transaction: Transaction) -> bool:
        return clusters.find(transaction, self._cluster.id) is not None

    async def _close(self) -> None:
        engine, collector = self.engine, self._collector
        self.engine = self._collector = None
        if collector is not None and collector is not engine:
            await collector.close()
        if engine is not None:
            await engine.close()


def first_leaf(group: BaseExceptionGroup) -> BaseException:
    """The first error that is not a group itself."""
    first = group.exceptions[0]
    return first_leaf(first) if isinstance(first, BaseExceptionGroup) else first
