"""What the sensors of the fleet say: a function of the seed, the time, and who holds what.

The same function gives the readings of now and those of a month ago, so history and live data cannot disagree.
Temperature has inertia: it follows what a GPU does on average, rises over minutes and falls over minutes.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.readings import GpuFault, PodUse, Rdma, Readings, Volume
from stoker.engines.simulated import devices, serving
from stoker.engines.simulated.dice import mixed, noise
from stoker.engines.simulated.faults import NODE, Fault, Faults
from stoker.engines.simulated.load import DAY_SECONDS, Load, Loads
from stoker.engines.simulated.machine import Machines

COOLING_MS = 15 * 60_000
"""A GPU shows what it did for so long; after that it is as cold as if it never had."""
WARMING_SECONDS = 150.0
AIR = 27.0
BASE_BYTES = 0.6 * 1024**3
"""What the driver keeps for itself."""
TERA = 10**12
Floats = NDArray[np.float32]


class Held(Struct, frozen=True):
    """GPUs that a pod holds and works on. `ended_at` may lie ahead, or not be known; `milli` is its part of each."""

    pod_uid: str
    rows: tuple[int, ...]
    begun_at: int
    ended_at: int | None
    load: Load
    cpu_milli: int
    memory_bytes: int
    milli: int = 1000
    serves: bool = False

    def runs(self, moment: int) -> bool:
        return self.begun_at <= moment and (self.ended_at is None or moment < self.ended_at)


class Measured(Struct, frozen=True):
    """A row for each moment, a place for each GPU; NaN where nothing could be read."""

    utilization: Floats
    memory_used: NDArray[np.float64]
    power: Floats
    temperature: Floats


class Sensors:
    """`speed` is how many simulated seconds pass in a second, for everything that pods do."""

    def __init__(self, machines: Machines, faults: Faults, speed: float = 1.0) -> None:
        self._machines = machines
        self._faults = faults
        self._speed = speed
        self._figures = devices.columns(machines.model)
        seeds = [mixed(machines.seed, "gpu", row) for row in range(machines.gpus)]
        self._seeds = np.array(seeds, np.uint64)
        self._own = noise(self._seeds, np.zeros(1, np.uint64))[0]
        """What makes each GPU a little different from its like, in -1..1."""

    def measure(self, moments: Sequence[int], held: Sequence[Held]) -> Measured:
        """What every GPU says at each of these moments, in epoch milliseconds."""
        at = np.array(moments, np.float64)
        use, heat, memory = self._work(at, held)
        shake = noise(self._seeds, np.array(moments, np.uint64))
        used = np.clip(use * (1.0 + 0.03 * shake + 0.02 * self._own), 0.0, 1.0)
        figures = self._figures
        drawn = figures.idle + (figures.tdp - figures.idle) * np.clip(heat[0] * (1 + 0.02 * shake), 0.0, 0.995)
        drawn *= 1.0 + 0.004 * shake
        air = AIR + 2.5 * self._own + 0.8 * np.sin(2 * np.pi * at / 1000 / DAY_SECONDS)[:, np.newaxis]
        warm = air + 9.0 + figures.rise * np.clip(heat[1], 0.0, 1.0) + 0.4 * shake
        kept = np.minimum(BASE_BYTES * (1 + 0.2 * self._own) + memory * figures.memory, figures.memory)
        measured = Measured(  # drivers give whole percents, watts and degrees
            np.round(used, 2).astype(np.float32),
            np.round(kept),
            np.round(np.minimum(drawn, figures.tdp)).astype(np.float32),
            np.round(warm).astype(np.float32),
        )
        self._darken(moments, measured)
        return measured

    def readings(self, moment: int, held: Sequence[Held]) -> Readings:
        """Everything at one moment."""
        measured = self.measure([moment], held)
        machines = self._machines
        utilization = measured.utilization[0]
        return Readings(
            at=moment,
            nodes=machines.names,
            node=machines.node,
            device=machines.device,
            utilization=utilization,
            memory_used=measured.memory_used[0],
            memory_total=self._figures.memory,
            power=measured.power[0],
            temperature=measured.temperature[0],
            faults=tuple(
                GpuFault(machines.names[fault.place], fault.device, fault.message)
                for fault in self._faults.at(moment)
                if fault.device != NODE
            ),
            rdma=self._rdma(moment, held, utilization),
            volumes=volumes(moment),
            pods=self._pods(moment, held, utilization),
        )

    def _work(self, at: NDArray[np.float64], held: Sequence[Held]) -> tuple[NDArray, tuple[NDArray, NDArray], NDArray]:
        """Use, heat (of now, of the last minutes) and memory of every GPU, added up over all who hold it."""
        shape = (len(at), self._machines.gpus)
        if not held:
            none = np.zeros(shape)
            return none, (none, none), none
        begun = np.array([each.begun_at for each in held], np.float64)
        ended = np.array([np.inf if each.ended_at is None else each.ended_at for each in held])
        share = np.array([each.milli / 1000 for each in held])
        loads = Loads([each.load for each in held])
        moment = at[:, np.newaxis]
        elapsed = (np.minimum(moment, ended) - begun) * (self._speed / 1000)
        runs = (moment >= begun) & (moment < ended)
        present, usual = loads.use(elapsed, at / 1000 % DAY_SECONDS)
        strength = loads.column("intensity")
        seconds = self._speed / 1000
        warmed = 1.0 - np.exp(-np.maximum(elapsed, 0.0) / WARMING_SECONDS)
        cooled = np.exp(-np.maximum(moment - ended, 0.0) * seconds / WARMING_SECONDS)
        columns = (
            np.where(runs, present, 0.0) * share,
            np.where(runs, present * strength, 0.0) * share,
            np.where(moment >= begun, usual * strength * warmed * cooled, 0.0) * share,
            np.where(runs, loads.held(elapsed), 0.0) * share,
        )
        owner = np.repeat(np.arange(len(held)), [len(each.rows) for each in held])
        rows = np.fromiter((row for each in held for row in each.rows), np.int64, len(owner))
        use, heat, late, memory = (self._spread(column, owner, rows, shape) for column in columns)
        return use, (heat, late), memory

    @staticmethod
    def _spread(column: NDArray, owner: NDArray, rows: NDArray, shape: tuple[int, int]) -> NDArray:
        """From pods to the GPUs they hold; what several hold is added up."""
        if shape[0] == 1:
            return np.bincount(rows, column[0][owner], shape[1]).reshape(shape)
        places = (np.arange(shape[0])[:, np.newaxis] * shape[1] + rows).ravel()
        return np.bincount(places, column[:, owner].ravel(), shape[0] * shape[1]).reshape(shape)

    def _darken(self, moments: Sequence[int], measured: Measured) -> None:
        """Nothing is read from what is down."""
        for row, moment in enumerate(moments):
            for fault in self._faults.at(moment):
                if not fault.dark:
                    continue
                hit = self._gpus_of(fault)
                for column in (measured.utilization, measured.memory_used, measured.power, measured.temperature):
                    column[row, hit] = np.nan

    def _gpus_of(self, fault: Fault) -> slice:
        first, end = self._machines.first[fault.place], self._machines.first[fault.place + 1]
        return slice(first, end) if fault.device == NODE else slice(first + fault.device, first + fault.device + 1)

    def _rdma(self, moment: int, held: Sequence[Held], utilization: Floats) -> tuple[Rdma, ...]:
        machines = self._machines
        talk = np.zeros(machines.gpus)
        for each in held:
            if each.load.network and each.runs(moment):
                talk[list(each.rows)] = each.load.network
        sums = np.bincount(machines.node, np.nan_to_num(utilization) * talk, len(machines.names))
        rates = (sums * 50e9).tolist()  # bytes a second of a 400 Gbps port for each GPU that talks all the time
        down = {fault.place for fault in self._faults.at(moment) if fault.device == NODE}
        return tuple(
            Rdma(
                name,
                group.rdma_ports,
                0 if place in down else group.rdma_ports,
                group.rdma_bits_per_second,
                rates[place],
                rates[place],
            )
            for place, (name, group) in enumerate(zip(machines.names, machines.groups, strict=True))
        )

    def _pods(self, moment: int, held: Sequence[Held], utilization: Floats) -> tuple[PodUse, ...]:
        own = np.nan_to_num(utilization).tolist()
        speaking = {each.pod_uid for each in islice((each for each in held if each.serves), serving.MOST)}
        uses = []
        for each in held:
            if not each.runs(moment):
                continue
            use = own[each.rows[0]] if each.rows else 0.7
            said = each.pod_uid in speaking
            uses.append(
                PodUse(
                    each.pod_uid,
                    int(each.cpu_milli * each.load.cpu * (0.4 + 0.6 * use)),
                    int(each.memory_bytes * min(0.9, 0.15 + each.load.memory * 0.6)),
                    serving.served(each.pod_uid, each.begun_at, moment, self._speed, use) if said else {},
                )
            )
        return tuple(uses)


def volumes(moment: int) -> tuple[Volume, ...]:
    """Shared storage: it fills up over weeks, and is cleaned now and then."""
    week = moment / 1000 / DAY_SECONDS / 7
    return (
        Volume("scratch", 1000 * TERA, int(1000 * TERA * (0.38 + 0.24 * (week % 1.0)))),
        Volume("home", 200 * TERA, int(200 * TERA * (0.55 + 0.05 * (week / 4 % 1.0)))),
    )
