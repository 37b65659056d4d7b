"""The readings of a moment laid beside a roster: what every GPU of the cluster shows, in the order of the roster.

Values are rounded to the steps in which they are kept, so that now and later show the same.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.domain.live import TOP_GPUS, HotGpu
from stoker.domain.readings import Metric, Rdma, Readings, Volume
from stoker.store.samples import Chunk
from stoker.telemetry.chunks import SCALES, pack_tick, to_whole
from stoker.telemetry.roster import Roster


class Gauges(Struct, frozen=True, eq=False):
    """NaN where there is no reading. `faults` are of GPUs, by their row."""

    values: Mapping[Metric, NDArray[np.float64]]
    memory_bytes: NDArray[np.int64]
    faults: Mapping[int, str] = {}
    rdma: tuple[Rdma, ...] = ()
    volumes: tuple[Volume, ...] = ()
    hottest: Mapping[Metric, list[HotGpu]] = {}

    @property
    def memory(self) -> NDArray[np.float64]:
        """The used fraction of each GPU's memory; NaN where either is not known."""
        total = np.where(self.memory_bytes > 0, self.memory_bytes, np.nan)
        return np.minimum(self.values[Metric.MEMORY_USED] / total, 1.0)


def unknown(roster: Roster) -> Gauges:
    """The gauges of a cluster of which there is no reading."""
    nothing = np.full(roster.gpus, np.nan)
    return Gauges(dict.fromkeys(Metric, nothing), roster.memory_bytes, hottest={metric: [] for metric in Metric})


def gauges_of(roster: Roster, readings: Readings) -> tuple[Gauges, list[Chunk]]:
    """What a reading says of the GPUs of a roster, and the same as a tick to be kept: empty if it says nothing."""
    rows = roster.rows_of(readings)
    steps = {metric: _steps(readings, metric, rows) for metric in Metric}
    values = {metric: _values(metric, whole) for metric, whole in steps.items()}
    places = roster.places([(fault.node, fault.device) for fault in readings.faults]).tolist()
    faults = {place: fault.message for place, fault in zip(places, readings.faults, strict=True) if place >= 0}
    gauges = Gauges(values, _memory(roster, readings, rows), faults, readings.rdma, readings.volumes)
    hottest = {metric: _hottest(roster, array) for metric, array in values.items()}
    tick = pack_tick(steps) if (rows >= 0).any() else []
    return structs.replace(gauges, hottest=hottest), tick


def with_memory(roster: Roster, gauges: Gauges) -> Roster:
    """The roster with the sizes that readings gave where the engine knew none."""
    if np.array_equal(roster.memory_bytes, gauges.memory_bytes):
        return roster
    return structs.replace(roster, memory_bytes=gauges.memory_bytes)


def _steps(readings: Readings, metric: Metric, rows: NDArray[np.intp]) -> NDArray[np.signedinteger]:
    whole = np.full(len(rows), SCALES[metric].missing, SCALES[metric].whole)
    there = rows >= 0
    values = readings.metric(metric)[rows[there]]
    if metric is not Metric.TEMPERATURE:  # drivers are known to count a little beyond
        values = np.clip(values, 0.0, 1.0 if metric is Metric.UTILIZATION else None)
    whole[there] = to_whole(metric, values)
    return whole


def _values(metric: Metric, steps: NDArray[np.signedinteger]) -> NDArray[np.float64]:
    values = steps / SCALES[metric].steps
    values[steps == SCALES[metric].missing] = np.nan
    return values


def _memory(roster: Roster, readings: Readings, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    read = np.zeros(roster.gpus, np.int64)
    there = rows >= 0
    read[there] = np.nan_to_num(readings.memory_total[rows[there]]).astype(np.int64)
    return np.where(roster.memory_bytes > 0, roster.memory_bytes, read)


def _hottest(roster: Roster, values: NDArray[np.float64]) -> list[HotGpu]:
    """The highest first; of equals the first of the roster."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) > TOP_GPUS:
        least = np.partition(values[known], len(known) - TOP_GPUS)[len(known) - TOP_GPUS]
        known = known[values[known] >= least]
    top = known[np.argsort(-values[known], kind="stable")][:TOP_GPUS]
    return [
        HotGpu(
            roster.nodes[roster.node[place]],
            int(roster.device[place]),
            roster.models[roster.model[place]],
            float(values[place]),
        )
        for place in top.tolist()
    ]
