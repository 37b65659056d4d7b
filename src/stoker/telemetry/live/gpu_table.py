"""The GPU grid of a cluster, ready to be kept. Columns that did not change are not packed again."""

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stoker.domain.live import GpuColumns
from stoker.domain.readings import Metric
from stoker.telemetry.gauges import Gauges
from stoker.telemetry.idleness import first_claims
from stoker.telemetry.layout import Layout
from stoker.telemetry.picture import Scene, or_none
from stoker.telemetry.roster import Roster

_encode = msgspec.msgpack.Encoder().encode


class GpuSheet:
    """Packs `GpuColumns` a column at a time, so that no thread waits long for another. `idle_since` is of claims."""

    def __init__(self) -> None:
        self._roster: Roster | None = None
        self._fixed: dict[str, Raw] = {}
        self._gauges: Gauges | None = None
        self._shown: dict[str, Raw] = {}

    def encode(self, scene: Scene, idle_since: NDArray[np.int64]) -> bytes:
        if self._roster is not scene.layout.roster:
            self._roster, self._fixed = scene.layout.roster, _fixed(scene.layout.roster)
        if self._gauges is not scene.gauges:
            self._gauges, self._shown = scene.gauges, _shown(scene.gauges)
        first = first_claims(scene)
        slugs = [*(holder.slug for holder in scene.claims.holders), None]
        held = {
            "workload": _raw([slugs[place] for place in np.append(scene.claims.holder, -1)[first].tolist()]),
            "allocated_milli": _raw(scene.allocated.tolist()),
            "fault": _raw(_faults(scene.layout, scene.gauges)),
            "idle_since": _raw([since or None for since in np.append(idle_since, 0)[first].tolist()]),
            "shared": _raw(_shared(scene, first, idle_since)),
        }
        columns = {**self._fixed, **held, **self._shown}
        return _encode({name: columns[name] for name in GpuColumns.__struct_fields__})


def _fixed(roster: Roster) -> dict[str, Raw]:
    return {
        "node": _raw([roster.nodes[place] for place in roster.node.tolist()]),
        "device": _raw(roster.device.tolist()),
        "model": _raw([roster.models[place] for place in roster.model.tolist()]),
    }


def _shown(gauges: Gauges) -> dict[str, Raw]:
    values = gauges.values
    used = values[Metric.MEMORY_USED]
    whole: list[int | None] = np.nan_to_num(used).astype(np.int64).tolist()
    for place in np.flatnonzero(np.isnan(used)).tolist():
        whole[place] = None
    return {
        "utilization": _raw(or_none(values[Metric.UTILIZATION])),
        "memory_used_bytes": _raw(whole),
        "memory_total_bytes": _raw(gauges.memory_bytes.tolist()),
        "power_watts": _raw(or_none(values[Metric.POWER], 1)),
        "temperature": _raw(or_none(values[Metric.TEMPERATURE], 1)),
    }


def _shared(scene: Scene, first: NDArray[np.int64], idle_since: NDArray[np.int64]) -> list[tuple]:
    """What is held of GPUs beside the first claims."""
    claims = scene.claims
    others = np.flatnonzero(first[claims.gpu] != np.arange(len(claims.gpu)))
    columns = (claims.gpu, claims.holder, claims.milli, idle_since)
    rows = zip(*(column[others].tolist() for column in columns), strict=True)
    return [(gpu, claims.holders[holder].slug, milli, since or None) for gpu, holder, milli, since in rows]


def _faults(layout: Layout, gauges: Gauges) -> list[str]:
    found = [""] * layout.roster.gpus
    for place, message in gauges.faults.items():
        found[place] = message
    for row in np.flatnonzero(~layout.healthy).tolist():
        node = layout.nodes[row]
        for device in node.devices:
            if device.fault:
                found[layout.places[node.name, device.index]] = device.fault
    return found


def _raw(column: list) -> Raw:
    return Raw(_encode(column))
