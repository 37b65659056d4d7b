"""Several sources of the same machines as one. The first has the last word: when it fails all do, so that old
readings stay and are shown as old. Those beside it are left out while they fail."""

import asyncio
import logging

from msgspec import structs

from stoker.domain.errors import StokerError
from stoker.domain.readings import Readings, Source

log = logging.getLogger(__name__)


class Joined:
    def __init__(self, first: Source, beside: Source) -> None:
        self._first = first
        self._beside = beside
        self._complaint = ""

    @property
    def name(self) -> str:
        return self._first.name

    async def readings(self) -> Readings:
        first, beside = await asyncio.gather(self._first.readings(), self._beside.readings(), return_exceptions=True)
        if isinstance(first, BaseException):
            raise first
        if isinstance(beside, BaseException):
            self._complain(beside)
            return first
        self._complaint = ""
        return structs.replace(
            first,
            faults=first.faults + beside.faults,
            rdma=first.rdma + beside.rdma,
            volumes=first.volumes + beside.volumes,
            pods=first.pods + beside.pods,
        )

    async def close(self) -> None:
        await asyncio.gather(self._first.close(), self._beside.close())

    def _complain(self, error: BaseException) -> None:
        """Once for each different trouble."""
        if not isinstance(error, Exception):
            raise error
        message = error.message if isinstance(error, StokerError) else repr(error)
        if message != self._complaint:
            self._complaint = message
            log.warning("The source %s is left out: %s", self._beside.name, message)
