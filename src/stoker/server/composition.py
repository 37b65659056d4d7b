"""Builds a running installation from its settings."""

import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from stoker.api.http.app import AsgiApp
from stoker.api.http.prometheus import ServerMetrics
from stoker.api.routes import ENDPOINTS
from stoker.concurrency.supervisor import LoopRegistry, Supervisor
from stoker.controller.policy.retention import purge_forever
from stoker.demo.load_generator import build_load_generator
from stoker.domain.access.peers import ProcessOwnerResolver
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.report_token import ReportEndpoint
from stoker.domain.names import RandomBytes, new_uuid4
from stoker.domain.settings.schema import Settings
from stoker.server.collectors import open_range_backend
from stoker.server.dns import Resolver
from stoker.server.runtime.cluster_runtime import ClusterRuntime, running_task
from stoker.services.container import ServiceContainer, build_services
from stoker.services.context import Context
from stoker.services.identity.admin_key import KEY_FILE, ensure_admin_key
from stoker.services.identity.bootstrap import bootstrap_installation
from stoker.services.identity.secret_format import to_base58
from stoker.store import open_store
from stoker.store.db.base import Store
from stoker.store.db.notify import ChangeNotifier
from stoker.store.db.sqlite.connection import DataDirLock
from stoker.store.identity import secrets as secrets_store

log = logging.getLogger("stoker.server")

SIGNING_KEY_NAME = "token signing key"
INSTALLATION_ID_NAME = "installation id"


class Installation(Struct, frozen=True):
    store: Store
    services: ServiceContainer
    api: AsgiApp
    admin_key_file: Path
    loops: LoopRegistry
    processes: ProcessOwnerResolver


def make_data_dir(settings: Settings) -> Path:
    """Create the data dir, accessible by its owner only."""
    path = Path(settings.data_dir)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = path.is_dir() and os.access(path, os.R_OK | os.W_OK | os.X_OK)
    except OSError as error:
        raise _unusable_data_dir(path, error.strerror or str(error)) from error
    if not usable:
        raise _unusable_data_dir(path, "it cannot be written")
    return path


@asynccontextmanager
async def running_installation(
    settings: Settings, clock: Clock | None = None, randomness: RandomBytes = secrets.token_bytes, address: str = ""
) -> AsyncIterator[Installation]:
    """A running installation without its sockets; closed in reverse order. Jobs report to `address`, if there is one.

    No other server runs on the data dir meanwhile.
    """
    clock = clock or SystemClock()
    data_dir = make_data_dir(settings)
    with contextlib.ExitStack() as held:
        if settings.database:  # the store in the data dir takes the lock itself
            held.callback(DataDirLock(data_dir).release)
        async with _running_installation(settings, clock, randomness, address, data_dir) as installation:
            yield installation


@asynccontextmanager
async def _running_installation(
    settings: Settings, clock: Clock, randomness: RandomBytes, address: str, data_dir: Path
) -> AsyncIterator[Installation]:
    store = open_store(
        settings.database, data_dir, settings.database_pool, settings.low_space_bytes, settings.reserve_bytes
    )
    try:
        candidate = to_base58(randomness(48))
        signing_key = await store.write(
            lambda tx: secrets_store.get_or_add(tx, SIGNING_KEY_NAME, candidate, clock.now())
        )
        new_id = new_uuid4(randomness)
        installation_id = await store.write(
            lambda tx: secrets_store.get_or_add(tx, INSTALLATION_ID_NAME, new_id, clock.now())
        )
        signal = ChangeNotifier()
        reports = ReportEndpoint(address, signing_key) if address else None
        loops = LoopRegistry()
        fleet = ClusterRuntime(store, clock, randomness, settings, signal, loops, installation_id, reports)
        context = Context(store, clock, randomness, settings, signing_key, signal, loops)
        await bootstrap_installation(context)
        if not await ensure_admin_key(context, data_dir):
            log.warning("the admin key in %s was revoked; make a new one with: stoker key create --admin", data_dir)
        async with contextlib.AsyncExitStack() as stack:
            series = await stack.enter_async_context(open_range_backend(settings, store))
            services = build_services(context, fleet, fleet, series, Resolver().resolve)
            await stack.enter_async_context(fleet.running(data_dir))
            supervisor = Supervisor(clock, loops)
            forget = partial(purge_forever, store, settings, clock)
            await stack.enter_async_context(running_task(supervisor.run("retention", forget)))
            if fleet.demo is not None:
                demo = build_load_generator(fleet.demo, store, services, clock)
                await stack.enter_async_context(running_task(supervisor.run("demo traffic", demo.run)))
            yield Installation(
                store, services, AsgiApp(ENDPOINTS, services, ServerMetrics(loops)), data_dir / KEY_FILE, loops, fleet
            )
    finally:
        await store.close()


def _unusable_data_dir(path: Path, why: str) -> StokerError:
    return StokerError(
        ErrorCode.UNAVAILABLE,
        f"The data dir {path} cannot be used: {why}.",
        hint="Choose another with --data-dir, or mend its permissions.",
    )
