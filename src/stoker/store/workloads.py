"""Workloads: rows that change only by compare-and-set, each change with its conditions beside it."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import structs

from stoker.domain.lifecycle import Change
from stoker.domain.workload import Condition, ConditionType, Kind, Phase, Spec, Workload
from stoker.store.base import Row, Transaction

COLUMNS = """
workload.uid, workload.slug, workload.name, workload.description, workload.kind, workload.cluster_id,
workload.workspace_id, workload.namespace, workload.user_id, workload.user_name, workload.origin_api,
workload.spec, workload.priority, workload.preemptible, workload.timeout_seconds, workload.max_retry,
workload.phase, workload.version, workload.revision, workload.attempt, workload.retries, workload.requeued,
workload.not_before, workload.then_phase, workload.message, workload.submitted_at, workload.phase_at,
workload.started_at, workload.ended_at, workload.running_since, workload.ran_ms, workload.deleted_at, workload.waiting
"""
BY_REF = f"SELECT {COLUMNS} FROM workload WHERE uid = :ref OR slug = :ref"
ACTIVE = f"SELECT {COLUMNS} FROM workload WHERE cluster_id = :cluster_id AND ended_at IS NULL"
PHASE = "SELECT slug, phase FROM workload WHERE uid = :ref OR slug = :ref"
LIVE_IN = """
SELECT COUNT(*)
FROM workload
WHERE workspace_id = :workspace_id
  AND ended_at IS NULL
"""
WAIT = """
UPDATE workload
SET waiting = :waiting
WHERE uid = :uid
  AND phase IN ('Pending', 'Resuming')
"""
ADD = """
INSERT INTO workload (
    uid, slug, name, folded_name, description, folded_description, kind, cluster_id, workspace_id, namespace,
    user_id, user_name, folded_user, origin_api, priority, preemptible, timeout_seconds, max_retry,
    gpu_milli, cpu_milli, memory_bytes, replicas, spec, phase, version, revision, attempt, retries, requeued,
    not_before, then_phase, message, submitted_at, phase_at, started_at, ended_at, running_since, ran_ms, deleted_at
)
VALUES (
    :uid, :slug, :name, :folded_name, :description, :folded_description, :kind, :cluster_id, :workspace_id, :namespace,
    :user_id, :user_name, :folded_user, :origin_api, :priority, :preemptible, :timeout_seconds, :max_retry,
    :gpu_milli, :cpu_milli, :memory_bytes, :replicas, :spec, :phase, :version, :revision, :attempt, :retries, :requeued,
    :not_before, :then_phase, :message, :submitted_at, :phase_at, :started_at, :ended_at, :running_since, :ran_ms,
    :deleted_at
)
"""
REPLACE = """
UPDATE workload
SET description = :description, folded_description = :folded_description, priority = :priority,
    preemptible = :preemptible, timeout_seconds = :timeout_seconds, max_retry = :max_retry,
    gpu_milli = :gpu_milli, cpu_milli = :cpu_milli, memory_bytes = :memory_bytes, replicas = :replicas,
    spec = :spec, phase = :phase, version = :version,
    revision = :revision, attempt = :attempt, retries = :retries, requeued = :requeued, not_before = :not_before,
    then_phase = :then_phase, message = :message, phase_at = :phase_at, started_at = :started_at,
    ended_at = :ended_at, running_since = :running_since, ran_ms = :ran_ms, deleted_at = :deleted_at
WHERE uid = :uid
  AND version = :version - 1
"""
ADD_CONDITION = """
INSERT INTO condition (workload_uid, version, place, type, reason, message, at)
VALUES (:workload_uid, :version, :place, :type, :reason, :message, :at)
"""
CONDITIONS = """
SELECT type, reason, message, at
FROM condition
WHERE workload_uid = :uid
ORDER BY version, place
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
ADD_CHANGE = """
INSERT INTO change (at, workload_uid, slug, workspace_id, kind, phase, reason, message)
VALUES (:at, :workload_uid, :slug, :workspace_id, :kind, :phase, :reason, :message)
"""
ADD_LABEL = """
INSERT INTO workload_label (workload_uid, kind, key, value)
VALUES (:workload_uid, :kind, :key, :value)
"""

_spec = msgspec.json.Decoder(Spec)
_encode = msgspec.json.Encoder().encode


class StaleError(Exception):
    """The workload was changed by someone else in between."""


def build(row: Row) -> Workload:
    return Workload(
        uid=row[0],
        slug=row[1],
        name=row[2],
        description=row[3],
        kind=Kind(row[4]),
        cluster_id=row[5],
        workspace_id=row[6],
        namespace=row[7],
        user_id=row[8],
        user_name=row[9],
        origin_api=row[10],
        spec=_spec.decode(row[11]),
        priority=row[12],
        preemptible=bool(row[13]),
        timeout_seconds=row[14],
        max_retry=row[15],
        phase=Phase(row[16]),
        version=row[17],
        revision=row[18],
        attempt=row[19],
        retries=row[20],
        requeued=bool(row[21]),
        not_before=row[22],
        then=Phase(row[23]) if row[23] else None,
        message=row[24],
        submitted_at=row[25],
        phase_at=row[26],
        started_at=row[27],
        ended_at=row[28],
        running_since=row[29],
        ran_ms=row[30],
        deleted_at=row[31],
        waiting=row[32],
    )


def find(transaction: Transaction, ref: str) -> Workload | None:
    """By uid or by slug, deleted ones too."""
    row = transaction.one(BY_REF, {"ref": ref})
    return build(row) if row else None


def active(transaction: Transaction, cluster_id: str) -> list[Workload]:
    """Everything of a cluster that has not ended."""
    return [build(row) for row in transaction.all(ACTIVE, {"cluster_id": cluster_id})]


def phase_of(transaction: Transaction, ref: str) -> tuple[str, Phase]:
    """Slug and phase of what another workload depends on; what is not there has failed."""
    row = transaction.one(PHASE, {"ref": ref})
    return (row[0], Phase(row[1])) if row else (ref, Phase.FAILED)


def live_in(transaction: Transaction, workspace_id: int) -> int:
    """How many workloads of a workspace have not ended."""
    row = transaction.one(LIVE_IN, {"workspace_id": workspace_id})
    return row[0] if row else 0


def set_waiting(transaction: Transaction, reasons: Mapping[str, str]) -> None:
    """Why each of these waits."""
    transaction.many(WAIT, [{"uid": uid, "waiting": reason} for uid, reason in reasons.items()])


def add(transaction: Transaction, change: Change) -> None:
    """A new workload with its labels, its first condition and its first phase."""
    workload = change.workload
    transaction.run(ADD, _params(workload))
    for kind, pairs in (("label", workload.spec.labels), ("annotation", workload.spec.annotations)):
        for key, value in pairs.items():
            params = {"workload_uid": workload.uid, "kind": kind, "key": key, "value": value}
            transaction.run(ADD_LABEL, params)
    _open_phase(transaction, workload)
    _write_conditions(transaction, workload, change.conditions, "created")


def apply(transaction: Transaction, before: Workload, change: Change) -> None:
    """Write a change over the version it was made from; `StaleError` when that is no longer the present one."""
    after = change.workload
    if transaction.run(REPLACE, _params(after)) != 1:
        raise StaleError(after.uid)
    if after.phase is not before.phase:
        transaction.run(CLOSE_PHASE, {"uid": after.uid, "at": after.phase_at})
        if not after.phase.ended:
            _open_phase(transaction, after)
    _write_conditions(transaction, after, change.conditions, "phase" if after.phase is not before.phase else "changed")


def conditions(transaction: Transaction, uid: str) -> list[Condition]:
    """Oldest first."""
    return [
        Condition(ConditionType(row[0]), row[1], row[2], row[3]) for row in transaction.all(CONDITIONS, {"uid": uid})
    ]


def _open_phase(transaction: Transaction, workload: Workload) -> None:
    params = {"uid": workload.uid, "version": workload.version, "phase": workload.phase, "at": workload.phase_at}
    transaction.run(OPEN_PHASE, params)


def _write_conditions(transaction: Transaction, workload: Workload, written: Iterable[Condition], kind: str) -> None:
    for place, condition in enumerate(written):
        about = {"workload_uid": workload.uid, **structs.asdict(condition)}
        transaction.run(ADD_CONDITION, {**about, "version": workload.version, "place": place})
        transaction.run(
            ADD_CHANGE,
            {
                **about,
                "slug": workload.slug,
                "workspace_id": workload.workspace_id,
                "kind": kind,
                "phase": workload.phase,
            },
        )


def _params(workload: Workload) -> dict[str, object]:
    spec = workload.spec
    return {
        **structs.asdict(workload),
        **structs.asdict(spec.resources),
        "spec": _encode(spec).decode(),
        "replicas": spec.replicas,
        "preemptible": int(workload.preemptible),
        "requeued": int(workload.requeued),
        "then_phase": workload.then,
        "folded_name": f"{workload.name}\n{workload.slug}".casefold(),
        "folded_description": workload.description.casefold(),
        "folded_user": workload.user_name.casefold(),
    }
