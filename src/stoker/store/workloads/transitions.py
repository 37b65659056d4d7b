"""Transitions of workloads, written with compare-and-set on the version.

A transition writes the changed columns, its conditions, events, phase interval, counts and webhook deliveries in one
transaction; if another writer changed the workload first, nothing is written.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from stoker.domain.workload.lifecycle import Transition
from stoker.domain.workload.model import Phase, Spec, Workload
from stoker.domain.workload.phase import Condition, ConditionType
from stoker.store.db.base import Transaction
from stoker.store.usage import value_history
from stoker.store.usage.value_history import PastRequest
from stoker.store.webhooks import outbox
from stoker.store.workloads import counts, revisions
from stoker.store.workloads.rows import ADD, ADD_LABEL, MUTABLE_FIELDS, column_values, label_rows, row_params

UPDATE = """
UPDATE workload
SET {columns}, version = :version
WHERE uid = :uid
  AND version = :version - 1
"""
ADD_CONDITION = """
INSERT INTO workload_condition (workload_uid, version, position, type, reason, message, at)
VALUES (:workload_uid, :version, :position, :type, :reason, :message, :at)
"""
KEEP_FIRST_CONDITIONS = 20
KEEP_LAST_CONDITIONS = 180
"""Conditions of the versions in between are deleted: a crash-looping workload would add them without end."""
DELETE_CONDITIONS = """
DELETE FROM workload_condition
WHERE workload_uid = :uid
  AND version > :first
  AND version <= :last
"""
CONDITIONS = """
SELECT type, reason, message, at
FROM workload_condition
WHERE workload_uid = :uid
ORDER BY version, position
"""
PHASE_INTERVALS = """
SELECT phase, from_at, to_at
FROM phase_interval
WHERE workload_uid = :uid
ORDER BY version
"""
CLOSE_PHASE = """
UPDATE phase_interval
SET to_at = :at
WHERE workload_uid = :uid
  AND to_at IS NULL
"""
OPEN_PHASE = """
INSERT INTO phase_interval (workload_uid, version, phase, from_at, to_at)
VALUES (:uid, :version, :phase, :at, NULL)
"""
ADD_EVENT = """
INSERT INTO workload_event (at, workload_uid, slug, workspace_id, kind, phase, reason, message)
VALUES (:at, :workload_uid, :slug, :workspace_id, :kind, :phase, :reason, :message)
"""


class PhaseInterval(Struct, frozen=True):
    """A time that a workload spent in a phase; `to_at` is None for the current phase."""

    phase: Phase
    from_at: int
    to_at: int | None


class StaleVersionError(Exception):
    """Another writer has changed the workload since it was read."""


def add(transaction: Transaction, change: Transition) -> None:
    """Insert a new workload with its labels, its first conditions and its first phase."""
    workload = change.workload
    transaction.execute(ADD, row_params(workload))
    counts.adjust(transaction, (), (workload,))
    transaction.execute_many(ADD_LABEL, label_rows(workload))
    transaction.execute(OPEN_PHASE, _phase_row(workload))
    _write_conditions(transaction, [(workload, change.conditions, "created")])


def apply(transaction: Transaction, before: Workload, change: Transition) -> None:
    """Write a transition from `before`; raises `StaleVersionError` if `before` is no longer the current version."""
    apply_all(transaction, [(before, change)])


def apply_all(transaction: Transaction, changes: Sequence[tuple[Workload, Transition]]) -> None:
    """Write transitions of different workloads. Only columns whose value differs are updated."""
    _update_rows(transaction, changes)
    value_history.add_past_requests(transaction, _past_requests(changes))
    revisions.archive_previous(transaction, [(before, change.workload) for before, change in changes])
    counts.adjust(transaction, (before for before, _ in changes), (change.workload for _, change in changes))
    phase_changes = [
        (before, change.workload) for before, change in changes if change.workload.phase is not before.phase
    ]
    transaction.execute_many(CLOSE_PHASE, [{"uid": after.uid, "at": after.phase_at} for _, after in phase_changes])
    transaction.execute_many(
        OPEN_PHASE, [_phase_row(after) for _, after in phase_changes if not after.phase.is_finished]
    )
    _write_conditions(
        transaction,
        [
            (change.workload, change.conditions, "changed" if change.workload.phase is before.phase else "phase")
            for before, change in changes
        ],
    )
    _delete_middle_conditions(transaction, [change.workload for _, change in changes])
    outbox.enqueue_transitions(transaction, changes)


def _delete_middle_conditions(transaction: Transaction, workloads: Iterable[Workload]) -> None:
    ranges = [
        {"uid": workload.uid, "first": KEEP_FIRST_CONDITIONS, "last": workload.version - KEEP_LAST_CONDITIONS}
        for workload in workloads
        if workload.version > KEEP_FIRST_CONDITIONS + KEEP_LAST_CONDITIONS
    ]
    transaction.execute_many(DELETE_CONDITIONS, ranges)


def _update_rows(transaction: Transaction, changes: Sequence[tuple[Workload, Transition]]) -> None:
    rows_by_columns: dict[tuple[str, ...], list[dict[str, object]]] = defaultdict(list)
    for before, change in changes:
        after = change.workload
        changed_fields = tuple(
            name
            for name in MUTABLE_FIELDS
            if (value := getattr(after, name)) is not (old := getattr(before, name)) and value != old
        )
        columns = {column: value for name in changed_fields for column, value in column_values(after, name)}
        rows_by_columns[tuple(columns)].append({**columns, "uid": after.uid, "version": after.version})
    for columns, rows in rows_by_columns.items():
        if transaction.execute_many(_update_sql(columns), rows) != len(rows):
            raise StaleVersionError


@functools.cache
def _update_sql(columns: tuple[str, ...]) -> str:
    return UPDATE.replace("{columns}, ", "".join(f"{column} = :{column}, " for column in columns))


def _past_requests(changes: Iterable[tuple[Workload, Transition]]) -> Iterator[PastRequest]:
    """The previous GPU requests of workloads whose request has changed."""
    for before, change in changes:
        after = change.workload.spec
        if after is not before.spec and _requested_gpu_milli(after) != (milli := _requested_gpu_milli(before.spec)):
            yield PastRequest(before.uid, change.conditions[0].at, milli)


def _requested_gpu_milli(spec: Spec) -> int:
    """Requested milli-GPUs of all replicas."""
    return spec.resources.gpu_milli * spec.replicas


def conditions(transaction: Transaction, uid: str) -> list[Condition]:
    """The conditions of a workload, oldest first."""
    return [
        Condition(ConditionType(row[0]), row[1], row[2], row[3])
        for row in transaction.fetch_all(CONDITIONS, {"uid": uid})
    ]


def phase_intervals(transaction: Transaction, uid: str) -> list[PhaseInterval]:
    """The phases of a workload, oldest first."""
    return [
        PhaseInterval(Phase(row[0]), row[1], row[2]) for row in transaction.fetch_all(PHASE_INTERVALS, {"uid": uid})
    ]


def condition_rows(workload: Workload, conditions: Iterable[Condition], kind: str) -> list[dict[str, object]]:
    """The parameters of both `ADD_CONDITION` and `ADD_EVENT`."""
    return [
        {
            "workload_uid": workload.uid,
            "version": workload.version,
            "position": position,
            "type": condition.type,
            "reason": condition.reason,
            "message": condition.message,
            "at": condition.at,
            "slug": workload.slug,
            "workspace_id": workload.workspace_id,
            "kind": kind,
            "phase": workload.phase,
        }
        for position, condition in enumerate(conditions)
    ]


def _write_conditions(transaction: Transaction, changes: Iterable[tuple[Workload, Iterable[Condition], str]]) -> None:
    rows = [row for workload, conditions, kind in changes for row in condition_rows(workload, conditions, kind)]
    transaction.execute_many(ADD_CONDITION, rows)
    transaction.execute_many(ADD_EVENT, rows)


def _phase_row(workload: Workload) -> dict[str, object]:
    return {"uid": workload.uid, "version": workload.version, "phase": workload.phase, "at": workload.phase_at}
