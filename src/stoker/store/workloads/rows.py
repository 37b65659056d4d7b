"""Workloads: rows that change only by compare-and-set, each change with its conditions beside it."""

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from stoker.domain.lifecycle import Change
from stoker.domain.workload import Condition, ConditionType, Kind, Phase, Spec, Wait, Workload
from stoker.store import outbox
from stoker.store.base import Row, Transaction
from stoker.store.keys import by_keys
from stoker.store.workload_counts import move

COLUMNS = """
workload.uid, workload.slug, workload.name, workload.description, workload.kind, workload.cluster_id,
workload.workspace_id, workload.namespace, workload.user_id, workload.user_name, workload.origin_api,
workload.spec, workload.priority, workload.preemptible, workload.timeout_seconds, workload.max_retry,
workload.phase, workload.version, workload.revision, workload.attempt, workload.retries, workload.requeued,
workload.not_before, workload.then_phase, workload.message, workload.submitted_at, workload.phase_at,
workload.started_at, workload.ended_at, workload.running_since, workload.ran_ms, workload.deleted_at, workload.waiting,
workload.waited_ms, workload.pools, workload.guaranteed_until, workload.waiting_code
"""
BY_REF = f"SELECT {COLUMNS} FROM workload WHERE uid = :ref OR slug = :ref"
BY_UID = f"SELECT {COLUMNS} FROM workload WHERE uid IN (:keys)"
LIVE = f"SELECT {COLUMNS} FROM workload WHERE uid IN (:keys) AND ended_at IS NULL"
VERSIONS = "SELECT uid, version, cluster_id FROM workload WHERE uid IN (:keys)"
ACTIVE = f"SELECT {COLUMNS} FROM workload WHERE cluster_id = :cluster_id AND ended_at IS NULL"
PHASE = "SELECT slug, phase FROM workload WHERE uid = :ref OR slug = :ref"
TAKEN = "SELECT 1 FROM workload WHERE slug = :slug"
LIVE_IN = """
SELECT COUNT(*)
FROM workload
WHERE cluster_id = :cluster_id
  AND workspace_id = :workspace_id
  AND ended_at IS NULL
"""
WAIT = """
UPDATE workload
SET waiting = :waiting, waiting_code = :code
WHERE uid = :uid
  AND phase IN ('Pending', 'Resuming')
"""
ADD = """
INSERT INTO workload (
    uid, slug, name, description, folded_description, kind, cluster_id, workspace_id, namespace,
    user_id, user_name, folded_user, origin_api, priority, preemptible, timeout_seconds, max_retry,
    gpu_milli, cpu_milli, memory_bytes, replicas, spec, phase, version, revision, attempt, retries, requeued,
    not_before, then_phase, message, submitted_at, phase_at, started_at, ended_at, running_since, ran_ms, waited_ms,
    deleted_at, pools, folded_image, guaranteed_until
)
VALUES (
    :uid, :slug, :name, :description, :folded_description, :kind, :cluster_id, :workspace_id, :namespace,
    :user_id, :user_name, :folded_user, :origin_api, :priority, :preemptible, :timeout_seconds, :max_retry,
    :gpu_milli, :cpu_milli, :memory_bytes, :replicas, :spec, :phase, :version, :revision, :attempt, :retries, :requeued,
    :not_before, :then_phase, :message, :submitted_at, :phase_at, :started_at, :ended_at, :running_since, :ran_ms,
    :waited_ms, :deleted_at, :pools, :folded_image, :guaranteed_until
)
"""
REPLACE = """
UPDATE workload
SET {columns}, version = :version
WHERE uid = :uid
  AND version = :version - 1
"""
ADD_CONDITION = """
INSERT INTO condition (workload_uid, version, place, type, reason, message, at)
VALUES (:workload_uid, :version, :place, :type, :reason, :message, :at)
"""
FIRST_KEPT = 20
LAST_KEPT = 180
"""Conditions are kept of the first and the last so many changes of a workload: one that falls over again and again
has no end of them."""
DROP_CONDITIONS = """
DELETE FROM condition
WHERE workload_uid = :uid
  AND version > :first
  AND version <= :last
"""
CONDITIONS = """
SELECT type, reason, message, at
FROM condition
WHERE workload_uid = :uid
ORDER BY version, place
"""
PHASES = """
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
ADD_CHANGE = """
INSERT INTO change (at, workload_uid, slug, workspace_id, kind, phase, reason, message)
VALUES (:at, :workload_uid, :slug, :workspace_id, :kind, :phase, :reason, :message)
"""
ADD_LABEL = """
INSERT INTO workload_label (workload_uid, kind, key, value)
VALUES (:workload_uid, :kind, :key, :value)
"""

CHANGING = (
    "phase",
    "attempt",
    "message",
    "phase_at",
    "started_at",
    "ended_at",
    "running_since",
    "ran_ms",
    "waited_ms",
    "pools",
    "guaranteed_until",
    "requeued",
    "not_before",
    "then",
    "retries",
    "revision",
    "spec",
    "priority",
    "preemptible",
    "timeout_seconds",
    "max_retry",
    "description",
    "deleted_at",
)
"""What of a workload is ever different from what it was."""

_decode = msgspec.json.Decoder(Spec).decode
_decode_again = functools.lru_cache(1024)(_decode)
AGAIN_BYTES = 4096
"""A workload is read many times in its life, and many are alike: specs that are not larger are decoded once."""
_encode = msgspec.json.Encoder().encode


class Passed(Struct, frozen=True):
    """A phase that a workload was in; `to_at` is None for the present one."""

    phase: Phase
    from_at: int
    to_at: int | None


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
        spec=_decode_again(row[11]) if len(row[11]) <= AGAIN_BYTES else _decode(row[11]),
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
        waited_ms=row[33],
        pools=tuple(row[34].split(",")) if row[19] else (),
        guaranteed_until=row[35],
        waiting_code=row[36],
    )


def find(transaction: Transaction, ref: str) -> Workload | None:
    """By uid or by slug, deleted ones too."""
    row = transaction.one(BY_REF, {"ref": ref})
    return build(row) if row else None


def by_uid(transaction: Transaction, uids: Collection[str]) -> dict[str, Workload]:
    """Those that there are of them."""
    return {row[0]: build(row) for row in by_keys(transaction, BY_UID, uids)}


def live(transaction: Transaction, uids: Collection[str]) -> list[Workload]:
    """Those of them that have not ended."""
    return [build(row) for row in by_keys(transaction, LIVE, uids)]


def versions(transaction: Transaction, uids: Collection[str]) -> dict[str, tuple[int, str]]:
    """The version and the cluster of each that there is."""
    return {row[0]: (row[1], row[2]) for row in by_keys(transaction, VERSIONS, uids)}


def active(transaction: Transaction, cluster_id: str) -> list[Workload]:
    """Everything of a cluster that has not ended."""
    return [build(row) for row in transaction.all(ACTIVE, {"cluster_id": cluster_id})]


def is_taken(transaction: Transaction, slug: str) -> bool:
    return transaction.one(TAKEN, {"slug": slug}) is not None


def phase_of(transaction: Transaction, ref: str) -> tuple[str, Phase]:
    """Slug and phase of what another workload depends on; what is not there has failed."""
    row = transaction.one(PHASE, {"ref": ref})
    return (row[0], Phase(row[1])) if row else (ref, Phase.FAILED)


def live_in(transaction: Transaction, cluster_id: str, workspace_id: int) -> int:
    """How many workloads of a workspace, which belongs to the cluster, have not ended."""
    row = transaction.one(LIVE_IN, {"cluster_id": cluster_id, "workspace_id": workspace_id})
    return row[0] if row else 0


def set_waiting(transaction: Transaction, reasons: Mapping[str, Wait]) -> None:
    """Why each of these waits."""
    transaction.many(WAIT, [{"uid": uid, "waiting": each.sentence, "code": each.code} for uid, each in reasons.items()])


def add(transaction: Transaction, change: Change) -> None:
    """A new workload with its labels, its first condition and its first phase."""
    workload = change.workload
    transaction.run(ADD, params(workload))
    move(transaction, (), (workload,))
    transaction.many(ADD_LABEL, label_rows(workload))
    transaction.run(OPEN_PHASE, _phase(workload))
    _write_conditions(transaction, [(workload, change.conditions, "created")])


def apply(transaction: Transaction, before: Workload, change: Change) -> None:
    """Write a change over the version it was made from; `StaleError` when that is no longer the present one."""
    apply_all(transaction, [(before, change)])


def apply_all(transaction: Transaction, changes: Sequence[tuple[Workload, Change]]) -> None:
    """The same for many, no two of them of one workload. Only what is different is written."""
    _replace(transaction, changes)
    move(transaction, (before for before, _ in changes), (change.workload for _, change in changes))
    moved = [(before, change.workload) for before, change in changes if change.workload.phase is not before.phase]
    transaction.many(CLOSE_PHASE, [{"uid": after.uid, "at": after.phase_at} for _, after in moved])
    transaction.many(OPEN_PHASE, [_phase(after) for _, after in moved if not after.phase.ended])
    _write_conditions(
        transaction,
        [
            (change.workload, change.conditions, "changed" if change.workload.phase is before.phase else "phase")
            for before, change in changes
        ],
    )
    many = [change.workload for _, change in changes if change.workload.version > FIRST_KEPT + LAST_KEPT]
    kept = [{"uid": each.uid, "first": FIRST_KEPT, "last": each.version - LAST_KEPT} for each in many]
    transaction.many(DROP_CONDITIONS, kept)
    outbox.tell_changes(transaction, changes)


def _replace(transaction: Transaction, changes: Sequence[tuple[Workload, Change]]) -> None:
    alike: dict[tuple[str, ...], list[dict[str, object]]] = defaultdict(list)
    for before, change in changes:
        after = change.workload
        different = tuple(
            name
            for name in CHANGING
            if (value := getattr(after, name)) is not (old := getattr(before, name)) and value != old
        )
        columns = {column: value for name in different for column, value in _columns(after, name)}
        alike[tuple(columns)].append({**columns, "uid": after.uid, "version": after.version})
    for columns, rows in alike.items():
        if transaction.many(_update(columns), rows) != len(rows):
            raise StaleError


@functools.cache
def _update(columns: tuple[str, ...]) -> str:
    return REPLACE.replace("{columns}, ", "".join(f"{column} = :{column}, " for column in columns))


def phases(transaction: Transaction, uid: str) -> list[Passed]:
    """The phases that a workload went through, oldest first."""
    return [Passed(Phase(row[0]), row[1], row[2]) for row in transaction.all(PHASES, {"uid": uid})]


def conditions(transaction: Transaction, uid: str) -> list[Condition]:
    """Oldest first."""
    return [
        Condition(ConditionType(row[0]), row[1], row[2], row[3]) for row in transaction.all(CONDITIONS, {"uid": uid})
    ]


def _phase(workload: Workload) -> dict[str, object]:
    return {"uid": workload.uid, "version": workload.version, "phase": workload.phase, "at": workload.phase_at}


def _write_conditions(transaction: Transaction, written: Iterable[tuple[Workload, Iterable[Condition], str]]) -> None:
    rows = [row for workload, conditions, kind in written for row in condition_rows(workload, conditions, kind)]
    transaction.many(ADD_CONDITION, rows)
    transaction.many(ADD_CHANGE, rows)


def condition_rows(workload: Workload, conditions: Iterable[Condition], kind: str) -> list[dict[str, object]]:
    """What is kept of conditions, and told in the event stream."""
    return [
        {
            "workload_uid": workload.uid,
            "version": workload.version,
            "place": place,
            "type": condition.type,
            "reason": condition.reason,
            "message": condition.message,
            "at": condition.at,
            "slug": workload.slug,
            "workspace_id": workload.workspace_id,
            "kind": kind,
            "phase": workload.phase,
        }
        for place, condition in enumerate(conditions)
    ]


def label_rows(workload: Workload) -> list[dict[str, object]]:
    return [
        {"workload_uid": workload.uid, "kind": kind, "key": key, "value": value}
        for kind, pairs in (("label", workload.spec.labels), ("annotation", workload.spec.annotations))
        for key, value in pairs.items()
    ]


def _columns(workload: Workload, field: str) -> Iterator[tuple[str, object]]:
    """What a field is in the table."""
    value = getattr(workload, field)
    match field:
        case "spec":
            yield "spec", _encode(value).decode()
            yield "replicas", value.replicas
            yield "pools", ",".join(workload.current_pools)
            yield "folded_image", value.image.casefold()
            yield from structs.asdict(value.resources).items()
        case "pools":
            yield field, ",".join(workload.current_pools)
        case "then":
            yield "then_phase", value
        case "preemptible" | "requeued":
            yield field, int(value)
        case "description":
            yield field, value
            yield "folded_description", value.casefold()
        case _:
            yield field, value


def params(workload: Workload) -> dict[str, object]:
    """Every column of a new workload."""
    spec = workload.spec
    return {
        **structs.asdict(workload),
        **structs.asdict(spec.resources),
        "spec": _encode(spec).decode(),
        "replicas": spec.replicas,
        "preemptible": int(workload.preemptible),
        "requeued": int(workload.requeued),
        "then_phase": workload.then,
        "pools": ",".join(workload.current_pools),
        "folded_image": spec.image.casefold(),
        "folded_description": workload.description.casefold(),
        "folded_user": workload.user_name.casefold(),
    }
