"""The readings of a stretch of the past: every five minutes, and in its last hour every quarter of a minute."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.readings import Metric
from stoker.engines.simulated.machine import Machines
from stoker.engines.simulated.readings import COOLING_MS, Held, Sensors
from stoker.store.samples import Chunk, Packed
from stoker.telemetry.chunks import Columns, encode_hour, encode_tick
from stoker.telemetry.roster import Roster

COARSE_MS = 300_000
FINE_MS = 15_000


class Hour(Struct, frozen=True):
    """What was read in one hour, up to `until`: packed if the hour is over, else tick by tick, as the sampler does."""

    hour_at: int
    until: int
    packed: Packed | None
    ticks: list[tuple[int, list[Chunk]]]


def ticks(start: int, end: int) -> NDArray[np.int64]:
    """The moments after `start` and not after `end` at which was read."""
    fine = max(start, end - HOUR_MS)
    coarse_ticks = np.arange(start // COARSE_MS + 1, fine // COARSE_MS + 1) * COARSE_MS
    fine_ticks = np.arange(fine // FINE_MS + 1, end // FINE_MS + 1) * FINE_MS
    return np.concatenate([coarse_ticks, fine_ticks]).astype(np.int64)


def hours(
    sensors: Sensors, machines: Machines, roster: Roster, held: Sequence[Held], start: int, end: int, open_hour: int
) -> Iterator[Hour]:
    """Everything that was read, an hour at a time; those from `open_hour` on are not over."""
    order = np.array([machines.rows(roster.nodes[node], (int(device),))[0] for node, device in _gpus(roster)])
    begun = np.array([each.begun_at for each in held], np.int64)
    until = np.array([np.iinfo(np.int64).max if each.ended_at is None else each.ended_at for each in held], np.int64)
    every = ticks(start, end)
    first_hour = every // HOUR_MS * HOUR_MS
    for hour_at in np.unique(first_hour).tolist():
        ats = every[first_hour == hour_at]
        near = (begun < hour_at + HOUR_MS) & (until > hour_at - COOLING_MS)
        measured = sensors.measure(ats.tolist(), [held[place] for place in np.flatnonzero(near).tolist()])
        values: Columns = {metric: getattr(measured, metric).T[order] for metric in Metric}
        if hour_at < open_hour:
            yield Hour(hour_at, int(ats[-1]), encode_hour(ats, values), [])
        else:
            yield Hour(hour_at, int(ats[-1]), None, list(_ticks(ats, values)))


def _ticks(ats: NDArray[np.int64], values: Columns) -> Iterator[tuple[int, list[Chunk]]]:
    for place, at in enumerate(ats.tolist()):
        yield at, encode_tick({metric: column[:, place] for metric, column in values.items()})


def _gpus(roster: Roster) -> list[tuple[int, int]]:
    return list(zip(roster.node.tolist(), roster.device.tolist(), strict=True))
