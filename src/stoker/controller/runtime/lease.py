"""The lease of a cluster: of all servers on one database only the holder acts, the others stand by.

Every grant has a higher epoch than the one before. Each read and write of a controller first checks that its epoch is
current, so a holder that was paused for too long cannot change anything.
"""

import logging

from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.cluster import leases
from stoker.store.cluster.leases import LeaseRecord
from stoker.store.db.base import Store, T, Transaction, TransactionFn

LEASE_DURATION_MS = 15_000
"""How long a lease lasts without renewal."""
RENEW_SECONDS = 4.0
RETRY_SECONDS = 1.0

log = logging.getLogger("stoker.lease")


class LeaseLostError(StokerError):
    """This server no longer holds the lease."""

    def __init__(self, what: str) -> None:
        message = f"The lease of {what} is lost: another server took it, or a backup was restored."
        super().__init__(ErrorCode.CONFLICT, message)


class FencedStore:
    """The store as a controller sees it: reads and writes fail once the lease is lost."""

    def __init__(self, store: Store, cluster_id: str, epoch: int, what: str = "") -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._epoch = epoch
        self._resource = what or f"cluster {cluster_id}"

    @property
    def name(self) -> str:
        return self._store.name

    async def write(self, change: TransactionFn[T]) -> T:
        return await self._store.write(self._fenced(change))

    async def write_inline(self, change: TransactionFn[T]) -> T:
        return await self._store.write_inline(self._fenced(change))

    async def read(self, query: TransactionFn[T]) -> T:
        return await self._store.read(self._fenced(query))

    async def read_inline(self, query: TransactionFn[T]) -> T:
        return await self._store.read_inline(self._fenced(query))

    def _fenced(self, inner: TransactionFn[T]) -> TransactionFn[T]:
        def guarded(transaction: Transaction) -> T:
            if leases.current_epoch(transaction, self._cluster_id) != self._epoch:
                raise LeaseLostError(self._resource)
            return inner(transaction)

        return guarded

    def check_disk_space(self) -> None:
        self._store.check_disk_space()

    async def close(self) -> None:
        """Does nothing: the store belongs to the server."""


def assert_leader(transaction: Transaction) -> None:
    """An empty transaction: through a fenced store it fails once the lease is lost."""


class Lease:
    """`what` names the resource if it is not a cluster. With `takeover` the lease is taken from a server that is
    gone."""

    def __init__(
        self, store: Store, cluster_id: str, holder: str, clock: Clock, *, takeover: bool, what: str = ""
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._holder = holder
        self._clock = clock
        self._takeover = takeover
        self._resource = what or f"cluster {cluster_id}"

    async def acquire(self) -> FencedStore:
        """Wait until this server holds the lease."""
        logged = False
        while True:
            try:
                grant = await self._store.write(self._try_acquire)
            except StokerError as error:
                log.warning("the lease of %s could not be asked for: %s", self._resource, error.message)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            if grant.holder == self._holder:
                return FencedStore(self._store, self._cluster_id, grant.epoch, self._resource)
            if not logged:
                advice = "" if self._takeover else " (local_takeover takes it from a server that is gone)"
                log.info("%s belongs to %s; standing by%s", self._resource, grant.holder, advice)
                logged = True
            await self._clock.sleep(RENEW_SECONDS)

    def _try_acquire(self, transaction: Transaction) -> LeaseRecord:
        return leases.acquire(
            transaction,
            self._cluster_id,
            self._holder,
            self._clock.now(),
            LEASE_DURATION_MS,
            takeover=self._takeover,
        )

    async def renew(self, leased: FencedStore) -> None:
        """Renew the lease until it is lost."""
        while True:
            await self._clock.sleep(RENEW_SECONDS)
            until = self._clock.now() + LEASE_DURATION_MS
            try:
                await leased.write(lambda tx, at=until: leases.renew(tx, self._cluster_id, at))
            except LeaseLostError:
                raise
            except StokerError as error:
                log.warning("the lease of %s could not be renewed: %s", self._resource, error.message)
