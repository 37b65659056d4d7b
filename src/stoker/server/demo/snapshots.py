"""Snapshots of the past of the demo, taken from what the store holds of it: who held what, and what was read then."""

from collections import defaultdict

import numpy as np

from stoker.controller.snapshots import named
from stoker.domain.clock import HOUR_MS
from stoker.store import snapshots, usage_facts
from stoker.store.base import Transaction
from stoker.telemetry.measured import MISSING, hour_readings

FULL = 10_000
"""A utilization of one, as it is kept."""


def take(transaction: Transaction, cluster_id: str, gpus: int, hour_at: int, slots: range) -> None:
    """Keep these slots of an hour; those that are there stay as they are."""
    held = usage_facts.held(transaction, cluster_id, hour_at, hour_at + HOUR_MS)
    place = {gpu: number for number, gpu in enumerate(sorted({(each.node, each.device) for each in held}))}
    readings = hour_readings(transaction, cluster_id, hour_at, list(place))
    column = {at: number for number, at in enumerate(readings.ats.tolist())}
    nothing = np.full(len(place), MISSING)
    for slot in slots:
        said = readings.utilization[:, column[slot]] if slot in column else nothing
        amounts: defaultdict[str, int] = defaultdict(int)
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for each in held:
            if each.from_at <= slot < each.to_at:
                amounts[each.workload_uid] += each.gpu_milli
                rows[each.workload_uid].append(place[each.node, each.device])
        utilization = {
            uid: float(known.mean()) / FULL for uid, some in rows.items() if len(known := _known(said[some]))
        }
        snapshots.add(transaction, cluster_id, slot, gpus, named(transaction, amounts, utilization), slot)


def _known(values: np.ndarray) -> np.ndarray:
    return values[values != MISSING]
