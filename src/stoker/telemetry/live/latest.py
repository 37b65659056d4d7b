"""The latest samples of a cluster in the order of its device index.

Values are rounded to their quantization steps, so that the live view and stored samples show the same.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.domain.cluster.live_view import MAX_TOP_GPUS, TopGpu
from stoker.domain.cluster.samples import GpuMetric, GpuSamples, RdmaSample, VolumeUsage
from stoker.store.telemetry.gpu_samples import SampleChunk
from stoker.telemetry.tsdb.codec import QUANTIZATIONS, pack_tick, quantize, quantize_ages
from stoker.telemetry.tsdb.device_index import DeviceIndex


class LatestSamples(Struct, frozen=True, eq=False):
    """NaN where there is no sample. `sampled_at` is when each GPU was measured, 0 for one that was not."""

    values: Mapping[GpuMetric, NDArray[np.float64]]
    memory_bytes: NDArray[np.int64]
    sampled_at: NDArray[np.int64]
    rdma: tuple[RdmaSample, ...] = ()
    volumes: tuple[VolumeUsage, ...] = ()
    top_gpus: Mapping[GpuMetric, list[TopGpu]] = {}

    @property
    def memory_fraction(self) -> NDArray[np.float64]:
        """The used fraction of each GPU's memory; NaN if the used memory or the size is not known."""
        total = np.where(self.memory_bytes > 0, self.memory_bytes, np.nan)
        return np.minimum(self.values[GpuMetric.MEMORY_USED] / total, 1.0)


def no_samples(index: DeviceIndex) -> LatestSamples:
    """The latest samples of a cluster without any."""
    missing = np.full(index.gpu_count, np.nan)
    never = np.zeros(index.gpu_count, np.int64)
    no_top_gpus: dict[GpuMetric, list[TopGpu]] = {metric: [] for metric in GpuMetric}
    return LatestSamples(dict.fromkeys(GpuMetric, missing), index.memory_bytes, never, top_gpus=no_top_gpus)


def memory_sizes_in(samples: GpuSamples, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """The memory size of each GPU according to its sample, which is in one of `rows`; 0 if that has none."""
    sizes = np.zeros(len(rows), np.int64)
    known = rows >= 0
    sizes[known] = np.nan_to_num(samples.memory_total[rows[known]]).astype(np.int64)
    return sizes


def build_latest_samples(
    index: DeviceIndex, samples: GpuSamples, rows: NDArray[np.intp], slot: int
) -> tuple[LatestSamples, list[SampleChunk]]:
    """The samples in the order of the device index, and encoded as the tick at `slot`, empty without samples. `rows`
    are those of the samples, by GPU."""
    steps = {metric: _quantize_rows(samples, metric, rows) for metric in GpuMetric}
    values = {metric: _dequantize(metric, array) for metric, array in steps.items()}
    sampled_at = _sampled_at(samples, rows)
    latest = LatestSamples(values, index.memory_bytes, sampled_at, samples.rdma, samples.volumes)
    top_gpus = {metric: _find_top_gpus(index, array) for metric, array in values.items()}
    ages = quantize_ages(np.where(rows >= 0, slot - sampled_at, 0))
    tick = pack_tick(steps, ages) if (rows >= 0).any() else []
    return structs.replace(latest, top_gpus=top_gpus), tick


def _sampled_at(samples: GpuSamples, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    if samples.sampled_at is None:
        return np.where(rows >= 0, samples.at, 0)
    return np.where(rows >= 0, np.append(samples.sampled_at, 0)[rows], 0)


def _quantize_rows(samples: GpuSamples, metric: GpuMetric, rows: NDArray[np.intp]) -> NDArray[np.signedinteger]:
    steps = np.full(len(rows), QUANTIZATIONS[metric].missing, QUANTIZATIONS[metric].dtype)
    known = rows >= 0
    values = samples.values(metric)[rows[known]]
    if metric is not GpuMetric.TEMPERATURE:  # some drivers report slightly more than 100 %
        values = np.clip(values, 0.0, 1.0 if metric is GpuMetric.UTILIZATION else None)
    steps[known] = quantize(metric, values)
    return steps


def _dequantize(metric: GpuMetric, steps: NDArray[np.signedinteger]) -> NDArray[np.float64]:
    values = steps / QUANTIZATIONS[metric].steps_per_unit
    values[steps == QUANTIZATIONS[metric].missing] = np.nan
    return values


def _find_top_gpus(index: DeviceIndex, values: NDArray[np.float64]) -> list[TopGpu]:
    """The highest first; equal ones in the order of the device index."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) > MAX_TOP_GPUS:
        lowest = np.partition(values[known], len(known) - MAX_TOP_GPUS)[len(known) - MAX_TOP_GPUS]
        known = known[values[known] >= lowest]
    top = known[np.argsort(-values[known], kind="stable")][:MAX_TOP_GPUS]
    return [
        TopGpu(
            index.nodes[index.node[row]],
            int(index.device[row]),
            index.models[index.model[row]],
            float(values[row]),
        )
        for row in top.tolist()
    ]
