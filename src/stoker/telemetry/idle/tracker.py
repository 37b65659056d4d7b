"""Since when each GPU has been idle in the hands of each workload that holds it, or a part of it.

A GPU is idle when a running workload holds it and its utilisation is not above the threshold; one without a reading
says nothing. One that changes hands begins anew, and so do all when nobody has read any for a while.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, count

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.live import GpuColumns
from stoker.domain.readings import Metric
from stoker.telemetry.layout import Layout
from stoker.telemetry.picture import RUNNING, Scene
from stoker.telemetry.roster import Roster

UNSEEN_MS = 600_000
"""For so long nobody may have looked before nothing is said of that time."""
HOLDERS = 1 << 32
"""A claim is known by the place of its GPU and, below this, the number of its holder."""


class IdleGpu(Struct, frozen=True, gc=False):
    node: str
    device: int
    holder: str
    since: int


class Idleness:
    """What is known of claims, in the order of their keys; `since` of 0 is not idle. `numbers` are of holders."""

    def __init__(self, idle_up_to: float) -> None:
        self._idle_up_to = idle_up_to
        self._roster: Roster | None = None
        self._keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self._since: NDArray[np.int64] = np.zeros(0, np.int64)
        self._restored: list[IdleGpu] = []
        self._numbers: dict[str, int] = {}
        self._next = count()
        self._seen_at = 0

    def restore(self, gpus: Sequence[IdleGpu], at: int) -> None:
        """Go on from what was known at some time."""
        self._restored, self._seen_at = list(gpus), at

    def look(self, scene: Scene) -> NDArray[np.int64]:
        """Since when the GPU of each claim has been idle, now that this is seen; as far as it was, of those without a
        reading."""
        if scene.layout.roster is not self._roster:
            self._move(scene.layout)
        used = scene.gauges.values[Metric.UTILIZATION]
        if scene.at - self._seen_at > UNSEEN_MS:
            self._since = np.zeros_like(self._since)
        if not np.isnan(used).all():
            self._seen_at = scene.at
        claims = scene.claims
        numbers = self._numbered([holder.slug for holder in claims.holders])
        running = np.array([holder.phase in RUNNING for holder in claims.holders], np.bool_)[claims.holder]
        keys = claims.gpu * HOLDERS + numbers[claims.holder]
        before = self._before(keys)
        idle = running & (used[claims.gpu] <= self._idle_up_to)
        still = (idle | np.isnan(used[claims.gpu])) & (before > 0)
        since = np.where(still, before, np.where(idle, scene.at, 0))
        self._keep(keys, since)
        return since

    def _numbered(self, slugs: Sequence[str]) -> NDArray[np.int64]:
        known = self._numbers
        self._numbers = {slug: known[slug] if slug in known else next(self._next) for slug in slugs}
        return np.fromiter(self._numbers.values(), np.int64, len(slugs))

    def _before(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(self._keys):
            return np.zeros_like(keys)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._since[place], 0)

    def _keep(self, keys: NDArray[np.int64], since: NDArray[np.int64]) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, self._since = keys[order], since[order]

    def _move(self, layout: Layout) -> None:
        """The GPUs are others now; those that stay keep what is known of them."""
        known = [
            (place * HOLDERS + self._numbers.setdefault(gpu.holder, next(self._next)), gpu.since)
            for gpu in [*self._restored, *self._idle()]
            if (place := layout.places.get((gpu.node, gpu.device))) is not None
        ]
        self._roster, self._restored = layout.roster, []
        keys, since = np.array(known, np.int64).reshape(-1, 2).T
        self._keep(keys, since)

    def _idle(self) -> Iterable[IdleGpu]:
        if self._roster is None:
            return
        names, nodes, devices = self._roster.nodes, self._roster.node, self._roster.device
        slugs = {number: slug for slug, number in self._numbers.items()}
        for place in np.flatnonzero(self._since).tolist():
            gpu, number = divmod(int(self._keys[place]), HOLDERS)
            yield IdleGpu(names[nodes[gpu]], int(devices[gpu]), slugs[number], int(self._since[place]))


def published(columns: GpuColumns) -> list[IdleGpu]:
    """What was told of GPUs that are idle, in the hands of each who holds them."""
    first = zip(range(len(columns.node)), columns.workload, columns.idle_since, strict=False)
    others = ((place, slug, since) for place, slug, _, since in columns.shared)
    return [
        IdleGpu(columns.node[place], columns.device[place], slug, since)
        for place, slug, since in chain(first, others)
        if slug is not None and since is not None
    ]


def first_claims(scene: Scene) -> NDArray[np.int64]:
    """The claim on each GPU, of several the one that is oldest; -1 where there is none."""
    gpu = scene.claims.gpu
    first = np.full(scene.layout.roster.gpus, -1)
    first[gpu[::-1]] = np.arange(len(gpu))[::-1]
    return first
