"""Combines two collectors of the same machines.

If the primary fails, the whole collection fails, so that its last samples stay and are shown as stale. If the secondary
fails, its part is left out.
"""

import asyncio
import logging

from msgspec import structs

from stoker.domain.cluster.samples import Collector, GpuSamples
from stoker.domain.errors import StokerError

log = logging.getLogger(__name__)


class CompositeCollector:
    def __init__(self, primary: Collector, secondary: Collector) -> None:
        self._primary = primary
        self._secondary = secondary
        self._last_warning = ""

    @property
    def name(self) -> str:
        return self._primary.name

    async def collect(self) -> GpuSamples:
        primary, secondary = await asyncio.gather(
            self._primary.collect(), self._secondary.collect(), return_exceptions=True
        )
        if isinstance(primary, BaseException):
            raise primary
        if isinstance(secondary, BaseException):
            self._warn_once(secondary)
            return primary
        self._last_warning = ""
        return structs.replace(
            primary,
            faults=primary.faults + secondary.faults,
            rdma=primary.rdma + secondary.rdma,
            volumes=primary.volumes + secondary.volumes,
            pods=primary.pods + secondary.pods,
        )

    async def close(self) -> None:
        await asyncio.gather(self._primary.close(), self._secondary.close())

    def _warn_once(self, error: BaseException) -> None:
        """Log a failure when its message differs from that of the last one."""
        if not isinstance(error, Exception):
            raise error
        message = error.message if isinstance(error, StokerError) else repr(error)
        if message != self._last_warning:
            self._last_warning = message
            log.warning("The source %s is left out: %s", self._secondary.name, message)
