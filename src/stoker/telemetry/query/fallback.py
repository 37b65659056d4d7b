"""Ranges from Prometheus where it has them. It knows nothing of what is simulated; and while it is down, what was
sampled from it is in the store."""

import logging
from collections.abc import Mapping, Sequence

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Range, Series
from stoker.store import clusters
from stoker.store.base import Store

log = logging.getLogger(__name__)


class ChosenSeries:
    def __init__(self, store: Store, stored: Series, remote: Series) -> None:
        self._store = store
        self._stored = stored
        self._remote = remote
        self._is_down = False

    async def gpus(
        self, cluster_id: str, holdings: Sequence[Holding], metrics: Sequence[Metric], span: Range
    ) -> Mapping[Metric, list[GpuLine]]:
        cluster = await self._store.peek(lambda tx: clusters.find(tx, cluster_id))
        if cluster is None or cluster.simulated:
            return await self._stored.gpus(cluster_id, holdings, metrics, span)
        try:
            found = await self._remote.gpus(cluster_id, holdings, metrics, span)
        except StokerError as error:
            if error.code is not ErrorCode.BACKEND_DOWN:
                raise
            if not self._is_down:
                log.warning("History comes from the store for now: %s", error.message)
            self._is_down = True
            return await self._stored.gpus(cluster_id, holdings, metrics, span)
        self._is_down = False
        return found
