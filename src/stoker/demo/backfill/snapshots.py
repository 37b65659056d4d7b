"""Allocation snapshots of the demo's history, computed from the stored allocations and samples."""

import numpy as np

from stoker.controller.usage.snapshots import build_snapshot_workloads
from stoker.domain.clock import HOUR_MS
from stoker.store.db.base import Transaction
from stoker.store.usage import hour_facts, snapshots
from stoker.telemetry.tsdb.hour_matrix import MISSING, read_hour_matrix

UTILIZATION_SCALE = 10_000
"""The stored value of a utilization of one."""


def backfill_snapshots(transaction: Transaction, cluster_id: str, gpus: int, hour_at: int, slots: range) -> None:
    """Store snapshots for these slots of an hour; existing ones stay as they are."""
    held = hour_facts.allocations_in_range(transaction, cluster_id, hour_at, hour_at + HOUR_MS)
    uids = sorted({each.workload_uid for each in held})
    whose = hour_facts.read_workload_facts(transaction, uids).cost_owners
    places = {gpu: place for place, gpu in enumerate(sorted({each.gpu for each in held}))}
    numbers = {uid: number for number, uid in enumerate(uids)}
    owner = np.array([numbers[each.workload_uid] for each in held], np.intp)
    row = np.array([places[each.gpu] for each in held], np.intp)
    milli = np.array([each.gpu_milli for each in held], np.int64)
    from_at = np.array([each.from_at for each in held], np.int64)
    to_at = np.array([each.to_at for each in held], np.int64)
    readings = read_hour_matrix(transaction, cluster_id, hour_at, list(places))
    column = {at: number for number, at in enumerate(readings.ats.tolist())}
    for slot in slots:
        then = (from_at <= slot) & (slot < to_at)
        utilization = readings.utilization[row, column[slot]] if slot in column else np.full(len(held), MISSING)
        known = then & (utilization != MISSING)
        amounts = np.bincount(owner[then], milli[then], len(uids)).tolist()
        sums = np.bincount(owner[known], utilization[known], len(uids)).tolist()
        counts = np.bincount(owner[known], minlength=len(uids)).tolist()
        holding = {uid: round(amount) for uid, amount in zip(uids, amounts, strict=True) if amount}
        utilization = {
            uid: total / count / UTILIZATION_SCALE
            for uid, total, count in zip(uids, sums, counts, strict=True)
            if count
        }
        snapshots.add(transaction, cluster_id, slot, gpus, build_snapshot_workloads(whose, holding, utilization), slot)
