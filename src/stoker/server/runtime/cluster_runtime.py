"""The clusters of this server: each row of the database has a runner, which opens its engine and drives it.

Clusters that are added, changed or removed while the server runs are noticed; the start waits for none of those that
are elsewhere.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stoker.cli.core.credentials import credentials_file
from stoker.concurrency.supervisor import LoopRegistry, Supervisor
from stoker.controller.runtime.lease import Lease, LeaseLostError
from stoker.controller.webhooks.delivery import LEASE_NAME, DeliveryWorker
from stoker.controller.webhooks.sender import WebhookSender
from stoker.demo.setup import Demo, open_demo
from stoker.domain.access.identity import Cluster
from stoker.domain.access.peers import ProcessOwner, SocketAddress
from stoker.domain.clock import Clock
from stoker.domain.cluster.live_view import LiveViewKind
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.domain.names import RandomBytes
from stoker.domain.settings.schema import Settings
from stoker.engines.kinds import EngineContext, EngineKind, derive_owner_id
from stoker.engines.local.engine import LocalEngine
from stoker.engines.protocol import Engine
from stoker.engines.registry import ENGINE_KINDS, find_kind
from stoker.server.dns import Resolver
from stoker.server.runtime.cluster_runner import ClusterRunner, RunnerContext, first_leaf
from stoker.server.runtime.engine_calls import EngineCalls
from stoker.services.fleet.credential_cipher import KEY_FILE, CredentialCipher
from stoker.store.cluster import clusters, live_views
from stoker.store.db.base import Store, Transaction
from stoker.store.db.notify import ChangeNotifier

SQLITE_LEASE_HOLDER = "the server of this data dir"
"""The lease holder with SQLite, which has only one server, wherever the data dir is moved."""
FIRST_VIEW_TIMEOUT_SECONDS = 3.0
POLL_SECONDS = 0.02
CLUSTER_POLL_SECONDS = 2.0
"""How soon changes of clusters that another server has made are noticed."""

log = logging.getLogger("stoker.fleet")

ClusterVersion = tuple[str, str, str]
"""Engine, settings and stored credential: the cluster is connected anew when one of them changes."""


class ClusterRuntime(EngineCalls):
    def __init__(
        self,
        store: Store,
        clock: Clock,
        randomness: RandomBytes,
        settings: Settings,
        signal: ChangeNotifier,
        loops: LoopRegistry,
        installation_id: str,
        reports: ReportEndpoint | None = None,
        kinds: Mapping[str, EngineKind] = ENGINE_KINDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._settings = settings
        self._signal = signal
        self._loops = loops
        self._installation_id = installation_id
        self._reports = reports
        self._kinds = kinds
        self._data_dir = Path(settings.data_dir)
        self._cipher = CredentialCipher(self._data_dir / KEY_FILE)
        self._runners: dict[str, ClusterRunner] = {}
        self._versions: dict[str, ClusterVersion] = {}
        self._changed = asyncio.Event()
        self._has_host_pods = False
        self.demo: Demo | None = None

    @asynccontextmanager
    async def running(self, data_dir: Path) -> AsyncIterator[None]:
        """The clusters driven by their controllers; pods keep running when it ends."""
        settings = self._settings
        holder = f"{socket.gethostname()}:{data_dir.resolve()}" if settings.database else SQLITE_LEASE_HOLDER
        context = RunnerContext(self._store, self._clock, self._randomness, settings, self._signal, self._loops, holder)
        async with contextlib.AsyncExitStack() as stack:
            if settings.demo:
                self.demo = await open_demo(self._store, settings, data_dir, self._clock, self._randomness, self._loops)
                stack.push_async_callback(self.demo.engine.close)
            stack.push_async_callback(self._stop_all)
            await self._sync_clusters(context)
            server = Supervisor(self._clock, self._loops)
            for name, loop in {
                "clusters": partial(self._follow_clusters, context),
                "webhook delivery": partial(self._run_webhooks, holder),
            }.items():
                await stack.enter_async_context(running_task(server.run(name, loop)))
            await self._wait_for_first_view()
            yield

    def clusters_changed(self) -> None:
        self._changed.set()

    async def _follow_clusters(self, context: RunnerContext) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLUSTER_POLL_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            await self._sync_clusters(context)

    async def _sync_clusters(self, context: RunnerContext) -> None:
        """Start, restart and stop runners so that they are those of the stored clusters."""
        stored = await self._store.read_inline(_read_clusters)
        for cluster_id in self._runners.keys() - stored.keys():
            runner = self._runners.pop(cluster_id)
            del self._versions[cluster_id]
            await runner.stop()
            await runner.release_lease()
        for cluster, credential in stored.values():
            version = (cluster.engine, cluster.config, credential)
            if self._versions.get(cluster.id) == version or not self._is_driven(cluster):
                continue
            if cluster.is_simulated and cluster.id in self._runners:
                continue  # the demo keeps the engine that it was started with
            if (previous := self._runners.pop(cluster.id, None)) is not None:
                await previous.stop()
            self._versions[cluster.id] = version
            self._runners[cluster.id] = await self._start_runner(context, cluster)

    async def _start_runner(self, context: RunnerContext, cluster: Cluster) -> ClusterRunner:
        """Engines inside this server are opened at once; the others connect by themselves."""
        runner = ClusterRunner(context, cluster, self._prepare)
        kind = self._kinds.get(cluster.engine)
        self._has_host_pods = self._has_host_pods or (kind is not None and kind.runs_on_this_machine)
        if self.demo is not None and cluster.id == self.demo.tenants.cluster.id:
            runner.adopt(*await self._prepare(cluster), self.demo.engine)
        elif kind is not None and kind.opens_at_once:
            await runner.try_open()
        runner.start()
        return runner

    def _is_driven(self, cluster: Cluster) -> bool:
        """A simulated cluster is driven only by a server that runs the demo."""
        return not cluster.is_simulated or (self.demo is not None and cluster.id == self.demo.tenants.cluster.id)

    async def _prepare(self, cluster: Cluster) -> tuple[EngineKind, EngineContext]:
        kind = find_kind(self._kinds, cluster.engine)
        config = kind.read_config(cluster)
        stored = await self._store.read_inline(lambda tx: clusters.read_credential(tx, cluster.id))
        credential = await asyncio.to_thread(self._cipher.open, stored, cluster.id, cluster.name)
        return kind, EngineContext(
            cluster=cluster,
            config=config,
            credential=credential,
            owner_id=derive_owner_id(self._installation_id, cluster.id),
            data_dir=self._data_dir,
            settings=self._settings,
            clock=self._clock,
            supervisor=Supervisor(self._clock, self._loops, cluster.name),
            reports=self._reports,
            hidden_paths=_secret_files(self._settings),
        )

    async def _stop_all(self) -> None:
        runners, self._runners, self._versions = list(self._runners.values()), {}, {}
        await asyncio.gather(*(runner.stop() for runner in runners))

    async def _wait_for_first_view(self) -> None:
        """Wait until each cluster that opens at once has a live view, so that the first requests see it. Samples are
        waited for only where the engine has them itself: no other collector may delay the start."""
        at_once = {
            cluster_id: runner.samples_at_once for cluster_id, runner in self._runners.items() if runner.is_open_at_once
        }
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_VIEW_TIMEOUT_SECONDS):
                for cluster_id, read in at_once.items():
                    while not await self._store.read_inline(
                        lambda tx, c=cluster_id, r=read: _is_view_published(tx, c, read=r)
                    ):
                        await asyncio.sleep(POLL_SECONDS)

    async def _run_webhooks(self, holder: str) -> None:
        """Deliver webhooks while this server holds their lease."""
        lease = Lease(self._store, LEASE_NAME, holder, self._clock, takeover=True, what="the delivery of webhooks")
        supervisor = Supervisor(self._clock, self._loops, stop_on=(LeaseLostError,))
        while True:
            leased = await lease.acquire()
            post = WebhookSender(Resolver().resolve, private=self._settings.webhook_private_targets)
            courier = DeliveryWorker(leased, self._clock, self._randomness, self._signal, post, supervisor)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(supervisor.run("webhook lease", partial(lease.renew, leased)))
                    group.create_task(courier.run())
            except* LeaseLostError as lost:
                log.warning("%s", first_leaf(lost))

    async def owner_of_connection(self, far: SocketAddress, near: SocketAddress) -> ProcessOwner:
        local = self._local_engine()
        return await local.owner_of_connection(far, near) if local else self._owner_without_engine()

    async def owner_of_process(self, pid: int) -> ProcessOwner:
        local = self._local_engine()
        return await local.owner_of_process(pid) if local else self._owner_without_engine()

    def _owner_without_engine(self) -> ProcessOwner:
        """While the engine of this machine is not open, processes of its pods cannot be told from others."""
        return ProcessOwner.UNKNOWN if self._has_host_pods else ProcessOwner.MACHINE

    def _local_engine(self) -> LocalEngine | None:
        engines = (runner.engine for runner in self._runners.values())
        return next((engine for engine in engines if isinstance(engine, LocalEngine)), None)

    def _find_engine(self, cluster_id: str) -> Engine | None:
        runner = self._runners.get(cluster_id)
        return runner.engine if runner else None


@asynccontextmanager
async def running_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a task during the block; it is cancelled at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _read_clusters(transaction: Transaction) -> dict[str, tuple[Cluster, str]]:
    """All clusters by id, each with its stored credential."""
    credentials = clusters.credentials_by_id(transaction)
    return {cluster.id: (cluster, credentials[cluster.id]) for cluster in clusters.all_clusters(transaction)}


def _is_view_published(transaction: Transaction, cluster_id: str, *, read: bool) -> bool:
    """Whether the live view has nodes, and samples if they are required."""
    found = live_views.try_read(transaction, cluster_id, LiveViewKind.OVERVIEW, live_views.decode_overview)
    if found is None or not found[0].nodes + found[0].cpu_nodes:
        return False
    return found[0].source.read_at is not None or not read


def _secret_files(settings: Settings) -> tuple[Path, ...]:
    """Files outside the data dir that no job may see."""
    found = [Path(file) for file in (settings.tls_key, settings.prometheus_token_file) if file]
    with contextlib.suppress(RuntimeError):  # a user without a home directory
        found.append(credentials_file())
    return tuple(found)
