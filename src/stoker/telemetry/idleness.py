"""Since when each GPU has been idle in the hands of the workload that holds it.

A GPU is idle when a running workload holds it and its utilisation is not above the threshold; one without a reading
says nothing. One that changes hands begins anew, and so do all when nobody has read any for a while.
"""

from collections.abc import Iterable

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


class IdleGpu(Struct, frozen=True, gc=False):
    node: str
    device: int
    holder: str
    since: int


class Idleness:
    """Arrays in the order of the roster; `since` of 0 is not idle."""

    def __init__(self, idle_up_to: float) -> None:
        self._idle_up_to = idle_up_to
        self._roster: Roster | None = None
        self._holder: NDArray[np.object_] = np.zeros(0, np.object_)
        self._since: NDArray[np.int64] = np.zeros(0, np.int64)
        self._known: list[IdleGpu] = []
        self._seen_at = 0

    @property
    def empty(self) -> bool:
        return not self._known and not self._since.any()

    def restore(self, columns: GpuColumns, at: int) -> None:
        """Go on from what was published at some time."""
        self._seen_at = at
        self._known = [
            IdleGpu(node, device, holder, since)
            for node, device, holder, since in zip(
                columns.node, columns.device, columns.workload, columns.idle_since, strict=False
            )
            if since is not None and holder is not None
        ]

    def look(self, scene: Scene) -> NDArray[np.int64]:
        """Since when each GPU has been idle, now that this is seen."""
        if scene.layout.roster is not self._roster:
            self._move(scene.layout)
        used = scene.gauges.values[Metric.UTILIZATION]
        unread = np.isnan(used)
        if scene.at - self._seen_at > UNSEEN_MS:
            self._since = np.zeros_like(self._since)
        if not unread.all():
            self._seen_at = scene.at
        claims = scene.claims
        running = np.array([holder.phase in RUNNING for holder in claims.holders], np.bool_)
        slugs = np.array([*(holder.slug for holder in claims.holders), ""], np.object_)
        first = first_holders(scene)
        holder = slugs[first]
        idle = np.append(running, False)[first] & (used <= self._idle_up_to)
        still = (idle | unread) & (self._since > 0) & (holder == self._holder)
        self._holder, self._since = holder, np.where(still, self._since, np.where(idle, scene.at, 0))
        return np.where(idle, self._since, 0)

    def _move(self, layout: Layout) -> None:
        """The GPUs are others now; those that stay keep what is known of them."""
        known = [*self._known, *self._idle()]
        self._roster, self._known = layout.roster, []
        self._holder = np.full(layout.roster.gpus, "", np.object_)
        self._since = np.zeros(layout.roster.gpus, np.int64)
        for gpu in known:
            place = layout.places.get((gpu.node, gpu.device))
            if place is not None:
                self._holder[place], self._since[place] = gpu.holder, gpu.since

    def _idle(self) -> Iterable[IdleGpu]:
        roster = self._roster
        if roster is not None:
            for place in np.flatnonzero(self._since).tolist():
                node, device = roster.nodes[roster.node[place]], int(roster.device[place])
                yield IdleGpu(node, device, self._holder[place], int(self._since[place]))


def first_holders(scene: Scene) -> NDArray[np.int64]:
    """The place of who holds each GPU, of several the one that has held it longest; behind the last one if nobody."""
    claims = scene.claims
    first = np.full(scene.layout.roster.gpus, len(claims.holders))
    first[claims.gpu[::-1]] = claims.holder[::-1]
    return first
