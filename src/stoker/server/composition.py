"""Puts the rooms together: a running installation from nothing but settings."""

import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from stoker.api.app import Api
from stoker.api.metrics import Metrics
from stoker.api.table import ENDPOINTS
from stoker.controller.retention import forget_forever
from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import Randomness
from stoker.domain.report_token import ReportTo
from stoker.domain.settings import Settings
from stoker.server.demo.traffic import traffic
from stoker.server.fleet import Fleet, working
from stoker.server.names import Names
from stoker.server.sources import series_of
from stoker.services.bundle import Services, build_services
from stoker.services.context import Context
from stoker.services.first_start import ensure_admin_key, prepare
from stoker.services.secrets import readable
from stoker.store import open_store
from stoker.store import secrets as kept_secrets
from stoker.store.base import Store
from stoker.store.signal import Signal

SIGNING_KEY = "token signing key"


class Installation(Struct, frozen=True):
    store: Store
    services: Services
    api: Api
    admin_key_file: Path


def make_data_dir(settings: Settings) -> Path:
    """The data dir, created for its owner only."""
    path = Path(settings.data_dir)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = path.is_dir() and os.access(path, os.R_OK | os.W_OK | os.X_OK)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    if not usable:
        raise _unusable(path, "it cannot be written")
    return path


@asynccontextmanager
async def installed(
    settings: Settings, clock: Clock | None = None, randomness: Randomness = secrets.token_bytes, address: str = ""
) -> AsyncIterator[Installation]:
    """Everything running but the sockets; closed in the reverse order. Jobs report to `address`, if there is one."""
    clock = clock or SystemClock()
    data_dir = make_data_dir(settings)
    store = open_store(
        settings.database, data_dir, settings.database_pool, settings.low_space_bytes, settings.reserve_bytes
    )
    try:
        candidate = readable(randomness(48))
        signing_key = await store.write(lambda tx: kept_secrets.find_or_add(tx, SIGNING_KEY, candidate, clock.now()))
        signal = Signal()
        reports = ReportTo(address, signing_key) if address else None
        fleet = Fleet(store, clock, randomness, settings, signal, reports)
        context = Context(store, clock, randomness, settings, signing_key, signal)
        await prepare(context)
        admin_key_file = await ensure_admin_key(context, data_dir)
        async with contextlib.AsyncExitStack() as stack:
            series = await stack.enter_async_context(series_of(settings, store))
            services = build_services(context, fleet, series, Names().resolve)
            await stack.enter_async_context(fleet.running(data_dir))
            await stack.enter_async_context(working(forget_forever(store, settings, clock)))
            if fleet.demo is not None:
                await stack.enter_async_context(working(traffic(fleet.demo, store, services, clock).run()))
            yield Installation(store, services, Api(ENDPOINTS, services, Metrics()), admin_key_file)
    finally:
        await store.close()


def _unusable(path: Path, why: str) -> StokerError:
    return StokerError(
        ErrorCode.BACKEND_DOWN,
        f"The data dir {path} cannot be used: {why}.",
        hint="Choose another with --data-dir, or mend its permissions.",
    )
