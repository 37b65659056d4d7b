"""Who drives a cluster. Of all servers on one database only the holder of the lease acts; the others stand by.

Each holding has a number that only grows, and every look and every write of a controller first sees that its own is
still the present one: a holder that was away for too long can no longer change or end anything.
"""

import asyncio
import logging

from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.store import leases
from stoker.store.base import Change, Store, T, Transaction
from stoker.store.leases import Grant

RENEW_SECONDS = 4.0
AGAIN_SECONDS = 1.0

log = logging.getLogger("stoker.lease")


class LeaseLostError(StokerError):
    """This server's lease does not hold any more."""

    def __init__(self, what: str) -> None:
        message = f"The lease of {what} is lost: another server took it, or a backup was restored."
        super().__init__(ErrorCode.STATE_FORBIDS, message)


class LeasedStore:
    """The store as a controller sees it: nothing is written or read once the lease is another's."""

    def __init__(self, store: Store, cluster_id: str, epoch: int, what: str = "") -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._epoch = epoch
        self._what = what or f"cluster {cluster_id}"

    @property
    def name(self) -> str:
        return self._store.name

    async def write(self, change: Change[T]) -> T:
        return await self._store.write(self._guarded(change))

    async def poke(self, change: Change[T]) -> T:
        return await self._store.poke(self._guarded(change))

    async def read(self, query: Change[T]) -> T:
        return await self._store.read(self._guarded(query))

    async def peek(self, query: Change[T]) -> T:
        return await self._store.peek(self._guarded(query))

    def _guarded(self, inner: Change[T]) -> Change[T]:
        def guarded(transaction: Transaction) -> T:
            if leases.epoch(transaction, self._cluster_id) != self._epoch:
                raise LeaseLostError(self._what)
            return inner(transaction)

        return guarded

    def check_room(self) -> None:
        self._store.check_room()

    async def close(self) -> None:
        """The store belongs to the server; it is not closed from here."""


def still_ours(transaction: Transaction) -> None:
    """A look that finds nothing: through a leased store it fails once the lease is another's."""


class Lease:
    """`what` it is of, if not of a cluster. With `takeover` it is taken from a server that is gone."""

    def __init__(
        self, store: Store, cluster_id: str, holder: str, clock: Clock, *, takeover: bool, what: str = ""
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._holder = holder
        self._clock = clock
        self._takeover = takeover
        self._what = what or f"cluster {cluster_id}"

    async def acquire(self) -> LeasedStore:
        """Wait until the cluster is ours to drive."""
        told = False
        while True:
            try:
                grant = await self._store.write(self._take)
            except StokerError as error:
                log.warning("the lease of %s could not be asked for: %s", self._what, error.message)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if grant.holder == self._holder:
                return LeasedStore(self._store, self._cluster_id, grant.epoch, self._what)
            if not told:
                advice = "" if self._takeover else " (local_takeover takes it from a server that is gone)"
                log.info("%s belongs to %s; standing by%s", self._what, grant.holder, advice)
                told = True
            await asyncio.sleep(RENEW_SECONDS)

    def _take(self, transaction: Transaction) -> Grant:
        now = self._clock.now()
        until = now + leases.HELD_MS
        return leases.take(transaction, self._cluster_id, self._holder, until, takeover=self._takeover)

    async def renew(self, leased: LeasedStore) -> None:
        """Keep it, until it is another's."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            until = self._clock.now() + leases.HELD_MS
            try:
                await leased.write(lambda tx, at=until: leases.extend(tx, self._cluster_id, at))
            except LeaseLostError:
                raise
            except StokerError as error:
                log.warning("the lease of %s could not be renewed: %s", self._what, error.message)
