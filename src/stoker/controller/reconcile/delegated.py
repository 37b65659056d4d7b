"""Delegated workloads: submitted here to an engine that queues, places and replaces pods by itself.

Stoker hands them over and stores what the engine reports; their phase is the engine's.
"""

from collections.abc import Collection, Iterable

from stoker.domain.workload.engine_status import EngineStatus, follow_engine
from stoker.domain.workload.events import SubmittedToEngine
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import EnginePhase
from stoker.engines.model import ObservedWorkload
from stoker.store.db.base import Transaction
from stoker.store.workloads import rows, transitions


def submit_pending(transaction: Transaction, cluster_id: str, at: int) -> list[str]:
    """Begin an attempt of every pending workload of the cluster. Returns their uids."""
    pending = [
        workload
        for workload in rows.unfinished_of_cluster(transaction, cluster_id)
        if workload.managed and workload.phase.is_pending and (workload.not_before is None or workload.not_before <= at)
    ]
    changes = [(each, change) for each in pending if (change := transition(each, SubmittedToEngine(at))) is not None]
    transitions.apply_all(transaction, changes)
    return [workload.uid for workload, _ in changes]


def record_delegated_workloads(
    transaction: Transaction, cluster_id: str, observed: Iterable[ObservedWorkload], at: int
) -> set[str]:
    """Store what the engine reports of delegated workloads. Returns the uids of those that have changed."""
    reports = {report.workload_uid: report for report in observed if report.workload_uid}
    changed: set[str] = set()
    for uid, workload in rows.by_uid(transaction, reports).items():
        report = reports[uid]
        if workload.cluster_id == cluster_id and workload.attempt == report.attempt:
            changed |= _follow(transaction, workload, _status(report), at)
    return changed


def record_missing_delegated_workloads(
    transaction: Transaction, unfinished: Iterable[Workload], reported: Collection[str], at: int
) -> set[str]:
    """Record that the engine no longer has workloads which it once had. Returns their uids."""
    changed: set[str] = set()
    for workload in unfinished:
        known_to_engine = workload.engine_phase not in {None, EnginePhase.REQUESTED}
        if workload.managed and known_to_engine and workload.uid not in reported:
            changed |= _follow(transaction, workload, EngineStatus(EnginePhase.GONE), at)
    return changed


def record_submission(transaction: Transaction, planned: Workload, engine_ref: str, at: int) -> bool:
    """Record that the engine has accepted an attempt. Returns False if the workload has changed meanwhile."""
    workload = rows.find(transaction, planned.uid)
    if workload is None or (workload.attempt, workload.engine_phase) != (planned.attempt, EnginePhase.REQUESTED):
        return False
    return bool(_follow(transaction, workload, EngineStatus(EnginePhase.QUEUED, engine_ref=engine_ref), at))


def _status(report: ObservedWorkload) -> EngineStatus:
    return EngineStatus(
        report.phase,
        report.reason,
        report.message,
        started_at=report.started_at,
        ended_at=report.ended_at,
        engine_ref=report.engine_ref,
    )


def _follow(transaction: Transaction, workload: Workload, status: EngineStatus, at: int) -> set[str]:
    if workload.engine_phase is None:
        return set()
    change = follow_engine(workload, status, at)
    if change is None:
        return set()
    transitions.apply(transaction, workload, change)
    return {workload.uid}
