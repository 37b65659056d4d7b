"""Snapshots of the past of the demo, taken from what the store holds of it: who held what, and what was read then."""

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
    uids = sorted({each.workload_uid for each in held})
    whose = usage_facts.workloads(transaction, uids).payers
    places = {gpu: place for place, gpu in enumerate(sorted({(each.node, each.device) for each in held}))}
    numbers = {uid: number for number, uid in enumerate(uids)}
    owner = np.array([numbers[each.workload_uid] for each in held], np.intp)
    row = np.array([places[each.node, each.device] for each in held], np.intp)
    milli = np.array([each.gpu_milli for each in held], np.int64)
    from_at = np.array([each.from_at for each in held], np.int64)
    to_at = np.array([each.to_at for each in held], np.int64)
    readings = hour_readings(transaction, cluster_id, hour_at, list(places))
    column = {at: number for number, at in enumerate(readings.ats.tolist())}
    for slot in slots:
        then = (from_at <= slot) & (slot < to_at)
        said = readings.utilization[row, column[slot]] if slot in column else np.full(len(held), MISSING)
        known = then & (said != MISSING)
        amounts = np.bincount(owner[then], milli[then], len(uids)).tolist()
        sums = np.bincount(owner[known], said[known], len(uids)).tolist()
        counts = np.bincount(owner[known], minlength=len(uids)).tolist()
        holding = {uid: round(amount) for uid, amount in zip(uids, amounts, strict=True) if amount}
        utilization = {uid: total / count / FULL for uid, total, count in zip(uids, sums, counts, strict=True) if count}
        snapshots.add(transaction, cluster_id, slot, gpus, named(whose, holding, utilization), slot)
