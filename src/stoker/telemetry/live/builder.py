"""The live view of one cluster, kept between two looks so that only what changed is worked out again."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from stoker.domain.live import Part, SourceState
from stoker.domain.node import Node
from stoker.domain.readings import Metric, Readings
from stoker.store import live_views
from stoker.store.holders import Holder
from stoker.store.samples import Chunk
from stoker.telemetry import picture, roster
from stoker.telemetry.claims import Book
from stoker.telemetry.gauges import Gauges, gauges_of, unknown, with_memory
from stoker.telemetry.idleness import Idleness
from stoker.telemetry.layout import layout_of
from stoker.telemetry.sheet import GpuSheet

LONG_IDLE_MS = 300_000
"""GPUs that have been idle for longer than this count as unused."""


class LiveView:
    """Not for two threads at once. A GPU whose utilisation is not above `idle_up_to` is idle."""

    def __init__(self, idle_up_to: float = 0.01) -> None:
        self._idle_up_to = idle_up_to
        self._layout = layout_of(())
        self._book = Book(self._layout)
        self._readings: Readings | None = None
        self._gauges: Gauges = unknown(self._layout.roster)
        self._tick: list[Chunk] = []
        self._roster = roster.encode(self._layout.roster)
        self._sheet = GpuSheet()
        self.idleness = Idleness(idle_up_to)
        self.unused_milli: Mapping[str, int] = {}
        """Milli-GPUs by workload that nobody has used for long."""

    @property
    def gpus(self) -> int:
        return self._layout.roster.gpus

    @property
    def tick(self) -> list[Chunk]:
        """The last reading, to be kept."""
        return self._tick

    @property
    def roster(self) -> bytes:
        """The GPUs that it is of; the same object as long as they are the same."""
        return self._roster

    def replace(self, nodes: Iterable[Node], holders: Iterable[Holder]) -> None:
        """All that there is."""
        self._lay_out(nodes)
        self._book = Book(self._layout, holders)

    def change(self, nodes: Iterable[Node], uids: Iterable[str], holders: Iterable[Holder]) -> None:
        """These nodes are different, and these workloads now hold what is found of them."""
        changed = {node.name: node for node in nodes}
        if changed:
            self._lay_out(({node.name: node for node in self._layout.nodes} | changed).values())
            self._book.move(self._layout)
        self._book.change(uids, holders)

    def read(self, readings: Readings | None) -> None:
        """What the hardware says now; None when nobody knows any more."""
        self._readings = readings
        roster_now = self._layout.roster
        if readings is None:
            self._gauges, self._tick = unknown(roster_now), []
        else:
            self._gauges, self._tick = gauges_of(roster_now, readings)
        body = roster.encode(with_memory(roster_now, self._gauges))
        if body != self._roster:
            self._roster = body

    def parts(self, at: int, source: SourceState) -> dict[Part, bytes]:
        """Everything that is published."""
        scene = self._scene(at)
        claimed = self.idleness.look(scene)
        read = ~np.isnan(scene.gauges.values[Metric.UTILIZATION][scene.claims.gpu])
        idle_since = np.where(read, claimed, 0)
        self.unused_milli = picture.held_unused(scene, idle_since, at - LONG_IDLE_MS)
        of_workloads = picture.idle_since(scene, claimed, self._idle_up_to)
        return {
            Part.OVERVIEW: live_views.encode(picture.overview(scene, source)),
            Part.CONSUMERS: live_views.encode(picture.consumers(scene, of_workloads)),
            Part.NODES: live_views.encode(picture.nodes(scene)),
            Part.GPUS: self._sheet.encode(scene, idle_since),
        }

    def most_used(self, namespaces: Collection[str]) -> dict[str, float | None]:
        """What the last reading says of those who hold GPUs now."""
        return picture.most_used(self._scene(0), namespaces)

    def _scene(self, at: int) -> picture.Scene:
        return picture.scene_of(at, self._layout, self._gauges, self._book.claims())

    def _lay_out(self, nodes: Iterable[Node]) -> None:
        before = self._layout.roster
        self._layout = layout_of(nodes, self._layout)
        if self._layout.roster is not before:
            self.read(self._readings)
