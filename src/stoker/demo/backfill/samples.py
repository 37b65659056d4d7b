"""The samples of a period of history: every five minutes, and every 15 seconds in its last hour."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.signals.sensors import COOLDOWN_MS, SensorModel, SimulatedAllocation
from stoker.store.telemetry.gpu_samples import EncodedBlock, SampleChunk
from stoker.telemetry.tsdb.codec import Columns, encode_hour, encode_tick
from stoker.telemetry.tsdb.device_index import DeviceIndex

COARSE_STEP_MS = 300_000
FINE_STEP_MS = 15_000


class SampledHour(Struct, frozen=True):
    """The samples of one hour up to `until`: a block if the hour is over, otherwise ticks, as the sampler stores
    them."""

    hour_at: int
    until: int
    packed: EncodedBlock | None
    ticks: list[tuple[int, list[SampleChunk]]]


def sample_times(start: int, end: int) -> NDArray[np.int64]:
    """The sample times in (start, end]."""
    fine = max(start, end - HOUR_MS)
    coarse_ticks = np.arange(start // COARSE_STEP_MS + 1, fine // COARSE_STEP_MS + 1) * COARSE_STEP_MS
    fine_ticks = np.arange(fine // FINE_STEP_MS + 1, end // FINE_STEP_MS + 1) * FINE_STEP_MS
    return np.concatenate([coarse_ticks, fine_ticks]).astype(np.int64)


def sample_hours(
    sensors: SensorModel,
    fleet: SimulatedFleet,
    gpu_index: DeviceIndex,
    held: Sequence[SimulatedAllocation],
    start: int,
    end: int,
    open_hour: int,
) -> Iterator[SampledHour]:
    """All samples, one hour at a time; hours from `open_hour` on are not over."""
    order = np.array(
        [fleet.device_rows(gpu_index.nodes[node], (int(device),))[0] for node, device in _gpu_rows(gpu_index)]
    )
    begun = np.array([each.begun_at for each in held], np.int64)
    until = np.array([np.iinfo(np.int64).max if each.ended_at is None else each.ended_at for each in held], np.int64)
    every = sample_times(start, end)
    first_hour = every // HOUR_MS * HOUR_MS
    for hour_at in np.unique(first_hour).tolist():
        ats = every[first_hour == hour_at]
        near = (begun < hour_at + HOUR_MS) & (until > hour_at - COOLDOWN_MS)
        measured = sensors.measure_gpus(ats.tolist(), [held[place] for place in np.flatnonzero(near).tolist()])
        values: Columns = {metric: getattr(measured, metric).T[order] for metric in GpuMetric}
        if hour_at < open_hour:
            yield SampledHour(hour_at, int(ats[-1]), encode_hour(ats, values), [])
        else:
            yield SampledHour(hour_at, int(ats[-1]), None, list(_encode_ticks(ats, values)))


def _encode_ticks(ats: NDArray[np.int64], values: Columns) -> Iterator[tuple[int, list[SampleChunk]]]:
    for place, at in enumerate(ats.tolist()):
        yield at, encode_tick({metric: column[:, place] for metric, column in values.items()})


def _gpu_rows(gpu_index: DeviceIndex) -> list[tuple[int, int]]:
    return list(zip(gpu_index.node.tolist(), gpu_index.device.tolist(), strict=True))
