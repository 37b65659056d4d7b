"""The sensor model of the fleet: samples are a function of the seed, the time and the allocations.

The same function gives current and past samples, so history and live data agree. Temperature has inertia: it follows
the mean load over minutes.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.samples import GpuFault, GpuSamples, PodUsage, RdmaSample, VolumeUsage
from stoker.engines.simulated.fleet import gpu_models
from stoker.engines.simulated.fleet.faults import WHOLE_NODE, FaultSchedule, SimulatedFault
from stoker.engines.simulated.fleet.nodes import SimulatedFleet
from stoker.engines.simulated.seeded_random import hash_seed, noise
from stoker.engines.simulated.signals import inference_metrics
from stoker.engines.simulated.signals.gpu_load import DAY_SECONDS, LoadMatrix, LoadParameters

COOLDOWN_MS = 15 * 60_000
"""For how long past load still affects a GPU's temperature."""
THERMAL_TIME_CONSTANT_SECONDS = 150.0
AMBIENT_CELSIUS = 27.0
DRIVER_RESERVED_BYTES = 0.6 * 1024**3
"""GPU memory used by the driver itself."""
TERA = 10**12
Floats = NDArray[np.float32]


class SimulatedAllocation(Struct, frozen=True):
    """GPUs that a pod uses. `ended_at` may be in the future or unknown; `milli` is its share of each GPU."""

    pod_uid: str
    rows: tuple[int, ...]
    begun_at: int
    ended_at: int | None
    load: LoadParameters
    cpu_milli: int
    memory_bytes: int
    milli: int = 1000
    is_inference: bool = False

    def is_running(self, moment: int) -> bool:
        return self.begun_at <= moment and (self.ended_at is None or moment < self.ended_at)


class SampleMatrix(Struct, frozen=True):
    """A row per time, a column per GPU; NaN where there is no sample."""

    utilization: Floats
    memory_used: NDArray[np.float64]
    power: Floats
    temperature: Floats


class SensorModel:
    """`speed` is how many simulated seconds of pod time pass in a second."""

    def __init__(self, fleet: SimulatedFleet, faults: FaultSchedule, speed: float = 1.0) -> None:
        self._fleet = fleet
        self._faults = faults
        self._speed = speed
        self._models = gpu_models.model_columns(fleet.row_model)
        seeds = [hash_seed(fleet.seed, "gpu", row) for row in range(fleet.gpu_count)]
        self._seeds = np.array(seeds, np.uint64)
        self._gpu_offsets = noise(self._seeds, np.zeros(1, np.uint64))[0]
        """The individual deviation of each GPU, in -1..1."""

    def measure_gpus(self, moments: Sequence[int], held: Sequence[SimulatedAllocation]) -> SampleMatrix:
        """The samples of all GPUs at these times, in epoch milliseconds."""
        at = np.array(moments, np.float64)
        use, heat, memory = self._gpu_state(at, held)
        shake = noise(self._seeds, np.array(moments, np.uint64))
        used = np.clip(use * (1.0 + 0.03 * shake + 0.02 * self._gpu_offsets), 0.0, 1.0)
        figures = self._models
        drawn = figures.idle_watts + (figures.tdp_watts - figures.idle_watts) * np.clip(
            heat[0] * (1 + 0.02 * shake), 0.0, 0.995
        )
        drawn *= 1.0 + 0.004 * shake
        air = (
            AMBIENT_CELSIUS + 2.5 * self._gpu_offsets + 0.8 * np.sin(2 * np.pi * at / 1000 / DAY_SECONDS)[:, np.newaxis]
        )
        warm = air + 9.0 + figures.rise * np.clip(heat[1], 0.0, 1.0) + 0.4 * shake
        kept = np.minimum(
            DRIVER_RESERVED_BYTES * (1 + 0.2 * self._gpu_offsets) + memory * figures.memory_bytes, figures.memory_bytes
        )
        measured = SampleMatrix(  # drivers report whole percents, watts and degrees
            np.round(used, 2).astype(np.float32),
            np.round(kept),
            np.round(np.minimum(drawn, figures.tdp_watts)).astype(np.float32),
            np.round(warm).astype(np.float32),
        )
        self._mask_unreadable(moments, measured)
        return measured

    def sample(self, moment: int, held: Sequence[SimulatedAllocation]) -> GpuSamples:
        """The samples at one time."""
        measured = self.measure_gpus([moment], held)
        fleet = self._fleet
        utilization = measured.utilization[0]
        return GpuSamples(
            at=moment,
            nodes=fleet.names,
            node=fleet.row_node,
            device=fleet.row_device,
            utilization=utilization,
            memory_used=measured.memory_used[0],
            memory_total=self._models.memory_bytes,
            power=measured.power[0],
            temperature=measured.temperature[0],
            faults=tuple(
                GpuFault(
                    fleet.names[fault.node_index],
                    fault.device,
                    fault.message,
                    fleet.nodes[fault.node_index].devices[fault.device].uuid,
                )
                for fault in self._faults.active_at(moment)
                if fault.device != WHOLE_NODE
            ),
            rdma=self._rdma_samples(moment, held, utilization),
            volumes=storage_volumes(moment),
            pods=self._pod_samples(moment, held, utilization),
            uuid=fleet.row_uuid,
        )

    def _gpu_state(
        self, at: NDArray[np.float64], held: Sequence[SimulatedAllocation]
    ) -> tuple[NDArray, tuple[NDArray, NDArray], NDArray]:
        """Utilization, heat (now and over the last minutes) and memory of every GPU, summed over its pods."""
        shape = (len(at), self._fleet.gpu_count)
        if not held:
            none = np.zeros(shape)
            return none, (none, none), none
        begun = np.array([each.begun_at for each in held], np.float64)
        ended = np.array([np.inf if each.ended_at is None else each.ended_at for each in held])
        share = np.array([each.milli / 1000 for each in held])
        loads = LoadMatrix([each.load for each in held])
        moment = at[:, np.newaxis]
        elapsed = (np.minimum(moment, ended) - begun) * (self._speed / 1000)
        runs = (moment >= begun) & (moment < ended)
        present, usual = loads.utilization(elapsed, at / 1000 % DAY_SECONDS)
        strength = loads.column("intensity")
        seconds = self._speed / 1000
        warmed = 1.0 - np.exp(-np.maximum(elapsed, 0.0) / THERMAL_TIME_CONSTANT_SECONDS)
        cooled = np.exp(-np.maximum(moment - ended, 0.0) * seconds / THERMAL_TIME_CONSTANT_SECONDS)
        columns = (
            np.where(runs, present, 0.0) * share,
            np.where(runs, present * strength, 0.0) * share,
            np.where(moment >= begun, usual * strength * warmed * cooled, 0.0) * share,
            np.where(runs, loads.memory_fraction(elapsed), 0.0) * share,
        )
        owner = np.repeat(np.arange(len(held)), [len(each.rows) for each in held])
        rows = np.fromiter((row for each in held for row in each.rows), np.int64, len(owner))
        use, heat, late, memory = (self._sum_by_gpu(column, owner, rows, shape) for column in columns)
        return use, (heat, late), memory

    @staticmethod
    def _sum_by_gpu(column: NDArray, owner: NDArray, rows: NDArray, shape: tuple[int, int]) -> NDArray:
        """Sum values of pods over the GPUs they hold."""
        if shape[0] == 1:
            return np.bincount(rows, column[0][owner], shape[1]).reshape(shape)
        places = (np.arange(shape[0])[:, np.newaxis] * shape[1] + rows).ravel()
        return np.bincount(places, column[:, owner].ravel(), shape[0] * shape[1]).reshape(shape)

    def _mask_unreadable(self, moments: Sequence[int], measured: SampleMatrix) -> None:
        """Remove the samples of GPUs that are down."""
        for row, moment in enumerate(moments):
            for fault in self._faults.active_at(moment):
                if not fault.is_unreadable:
                    continue
                hit = self._fault_rows(fault)
                for column in (measured.utilization, measured.memory_used, measured.power, measured.temperature):
                    column[row, hit] = np.nan

    def _fault_rows(self, fault: SimulatedFault) -> slice:
        first, end = self._fleet.first_row[fault.node_index], self._fleet.first_row[fault.node_index + 1]
        return (
            slice(first, end) if fault.device == WHOLE_NODE else slice(first + fault.device, first + fault.device + 1)
        )

    def _rdma_samples(
        self, moment: int, held: Sequence[SimulatedAllocation], utilization: Floats
    ) -> tuple[RdmaSample, ...]:
        fleet = self._fleet
        talk = np.zeros(fleet.gpu_count)
        for each in held:
            if each.load.network and each.is_running(moment):
                talk[list(each.rows)] = each.load.network
        sums = np.bincount(fleet.row_node, np.nan_to_num(utilization) * talk, len(fleet.names))
        rates = (
            sums * 50e9
        ).tolist()  # bytes per second of a 400 Gbps port for each GPU that communicates all the time
        down = {fault.node_index for fault in self._faults.active_at(moment) if fault.device == WHOLE_NODE}
        return tuple(
            RdmaSample(
                name,
                group.rdma_ports,
                0 if place in down else group.rdma_ports,
                group.rdma_bits_per_second,
                rates[place],
                rates[place],
            )
            for place, (name, group) in enumerate(zip(fleet.names, fleet.node_groups, strict=True))
        )

    def _pod_samples(
        self, moment: int, held: Sequence[SimulatedAllocation], utilization: Floats
    ) -> tuple[PodUsage, ...]:
        own = np.nan_to_num(utilization).tolist()
        speaking = {
            each.pod_uid
            for each in islice((each for each in held if each.is_inference), inference_metrics.MAX_REPORTING_PODS)
        }
        uses = []
        for each in held:
            if not each.is_running(moment):
                continue
            use = own[each.rows[0]] if each.rows else 0.7
            said = each.pod_uid in speaking
            uses.append(
                PodUsage(
                    each.pod_uid,
                    int(each.cpu_milli * each.load.cpu * (0.4 + 0.6 * use)),
                    int(each.memory_bytes * min(0.9, 0.15 + each.load.memory * 0.6)),
                    inference_metrics.inference_values(each.pod_uid, each.begun_at, moment, self._speed, use)
                    if said
                    else {},
                )
            )
        return tuple(uses)


def storage_volumes(moment: int) -> tuple[VolumeUsage, ...]:
    """The usage of shared storage: it grows over weeks and is cleaned now and then."""
    week = moment / 1000 / DAY_SECONDS / 7
    return (
        VolumeUsage("scratch", 1000 * TERA, int(1000 * TERA * (0.38 + 0.24 * (week % 1.0)))),
        VolumeUsage("home", 200 * TERA, int(200 * TERA * (0.55 + 0.05 * (week / 4 % 1.0)))),
    )
