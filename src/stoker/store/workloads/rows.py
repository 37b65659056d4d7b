"""Rows of the workload table: reading them, and the column values of a workload to be written.

Only `transitions` changes the versioned columns of a workload.
"""

import functools
from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec import structs

from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import EnginePhase, Phase, StatusReason
from stoker.domain.workload.spec import Spec
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.select_in import select_in

COLUMNS = """
workload.uid, workload.slug, workload.name, workload.description, workload.kind, workload.cluster_id,
workload.workspace_id, workload.namespace, workload.user_id, workload.user_name, workload.origin_api,
workload.spec, workload.priority, workload.preemptible, workload.timeout_seconds, workload.max_retry,
workload.phase, workload.version, workload.revision, workload.attempt, workload.retries, workload.requeued,
workload.not_before, workload.next_phase, workload.message, workload.submitted_at, workload.phase_at,
workload.started_at, workload.ended_at, workload.running_since, workload.running_ms, workload.deleted_at,
workload.pending_message, workload.pending_ms, workload.node_pools, workload.guaranteed_until,
workload.pending_reason, workload.reserved_nodes, workload.grace_seconds, workload.good_revision, workload.notes,
workload.managed, workload.engine_ref, workload.api_version, workload.engine_phase
"""
BY_REF = f"SELECT {COLUMNS} FROM workload WHERE uid = :ref OR slug = :ref"
BY_UID = f"SELECT {COLUMNS} FROM workload WHERE uid IN (:keys)"
UNFINISHED_BY_UID = f"SELECT {COLUMNS} FROM workload WHERE uid IN (:keys) AND ended_at IS NULL"
VERSIONS = "SELECT uid, version, cluster_id FROM workload WHERE uid IN (:keys)"
UNFINISHED_OF_CLUSTER = f"SELECT {COLUMNS} FROM workload WHERE cluster_id = :cluster_id AND ended_at IS NULL"
PHASE_BY_REF = "SELECT slug, phase FROM workload WHERE uid = :ref OR slug = :ref"
SLUG_EXISTS = "SELECT 1 FROM workload WHERE slug = :slug"
COUNT_UNFINISHED = """
SELECT COUNT(*)
FROM workload
WHERE cluster_id = :cluster_id
  AND workspace_id = :workspace_id
  AND ended_at IS NULL
"""
SET_PENDING_REASON = """
UPDATE workload
SET pending_message = :message, pending_reason = :reason
WHERE uid = :uid
  AND ended_at IS NULL
"""
ADD = """
INSERT INTO workload (
    uid, slug, name, description, search_description, kind, cluster_id, workspace_id, namespace,
    user_id, user_name, search_user, origin_api, priority, preemptible, timeout_seconds, max_retry,
    gpu_milli, cpu_milli, memory_bytes, replicas, spec, phase, version, revision, attempt, retries, requeued,
    not_before, next_phase, message, submitted_at, phase_at, started_at, ended_at, running_since, running_ms,
    pending_ms, deleted_at, node_pools, search_image, guaranteed_until, good_revision, notes, managed,
    engine_ref, api_version, engine_phase
)
VALUES (
    :uid, :slug, :name, :description, :search_description, :kind, :cluster_id, :workspace_id, :namespace,
    :user_id, :user_name, :search_user, :origin_api, :priority, :preemptible, :timeout_seconds, :max_retry,
    :gpu_milli, :cpu_milli, :memory_bytes, :replicas, :spec, :phase, :version, :revision, :attempt, :retries, :requeued,
    :not_before, :next_phase, :message, :submitted_at, :phase_at, :started_at, :ended_at, :running_since, :running_ms,
    :pending_ms, :deleted_at, :node_pools, :search_image, :guaranteed_until, :good_revision, :notes, :managed,
    :engine_ref, :api_version, :engine_phase
)
"""
ADD_LABEL = """
INSERT INTO workload_label (workload_uid, kind, key, value)
VALUES (:workload_uid, :kind, :key, :value)
"""
MUTABLE_FIELDS = (
    "phase",
    "attempt",
    "message",
    "phase_at",
    "started_at",
    "ended_at",
    "running_since",
    "running_ms",
    "pending_ms",
    "node_pools",
    "guaranteed_until",
    "reserved_nodes",
    "pending_message",
    "pending_reason",
    "requeued",
    "not_before",
    "next_phase",
    "retries",
    "revision",
    "good_revision",
    "notes",
    "spec",
    "priority",
    "preemptible",
    "timeout_seconds",
    "max_retry",
    "description",
    "deleted_at",
    "grace_seconds",
    "engine_ref",
    "engine_phase",
)
"""The fields that a transition may change."""
NO_NOTES = "{}"
_decode_spec = msgspec.json.Decoder(Spec).decode
_decode_spec_cached = functools.lru_cache(1024)(_decode_spec)
MAX_CACHED_SPEC_BYTES = 4096
"""Decoded specs up to this size are cached, because a workload is read many times and many have the same spec."""
_encode_json = msgspec.json.Encoder().encode


def workload_from_row(row: Row) -> Workload:
    return Workload(
        uid=row[0],
        slug=row[1],
        name=row[2],
        description=row[3],
        kind=row[4],
        cluster_id=row[5],
        workspace_id=row[6],
        namespace=row[7],
        user_id=row[8],
        user_name=row[9],
        origin_api=row[10],
        spec=_decode_spec_cached(row[11]) if len(row[11]) <= MAX_CACHED_SPEC_BYTES else _decode_spec(row[11]),
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
        next_phase=Phase(row[23]) if row[23] else None,
        message=row[24],
        submitted_at=row[25],
        phase_at=row[26],
        started_at=row[27],
        ended_at=row[28],
        running_since=row[29],
        running_ms=row[30],
        deleted_at=row[31],
        pending_message=row[32],
        pending_ms=row[33],
        node_pools=tuple(row[34].split(",")) if row[19] else (),
        guaranteed_until=row[35],
        pending_reason=row[36],
        reserved_nodes=tuple(row[37].split(",")) if row[37] else (),
        grace_seconds=row[38],
        good_revision=row[39],
        notes=msgspec.json.decode(row[40], type=dict[str, str]) if row[40] != NO_NOTES else {},
        managed=bool(row[41]),
        engine_ref=row[42],
        api_version=row[43],
        engine_phase=EnginePhase(row[44]) if row[44] else None,
    )


def find(transaction: Transaction, ref: str) -> Workload | None:
    """The workload with this uid or slug, also if it is deleted."""
    row = transaction.fetch_one(BY_REF, {"ref": ref})
    return workload_from_row(row) if row else None


def by_uid(transaction: Transaction, uids: Collection[str]) -> dict[str, Workload]:
    """The workloads with these uids, by uid; unknown uids are left out."""
    return {row[0]: workload_from_row(row) for row in select_in(transaction, BY_UID, uids)}


def unfinished_by_uid(transaction: Transaction, uids: Collection[str]) -> list[Workload]:
    """The workloads with these uids that have not finished."""
    return [workload_from_row(row) for row in select_in(transaction, UNFINISHED_BY_UID, uids)]


def versions(transaction: Transaction, uids: Collection[str]) -> dict[str, tuple[int, str]]:
    """Version and cluster id of the workloads with these uids."""
    return {row[0]: (row[1], row[2]) for row in select_in(transaction, VERSIONS, uids)}


def unfinished_of_cluster(transaction: Transaction, cluster_id: str) -> list[Workload]:
    """The workloads of a cluster that have not finished."""
    return [workload_from_row(row) for row in transaction.fetch_all(UNFINISHED_OF_CLUSTER, {"cluster_id": cluster_id})]


def is_slug_taken(transaction: Transaction, slug: str) -> bool:
    return transaction.fetch_one(SLUG_EXISTS, {"slug": slug}) is not None


def phase_of(transaction: Transaction, ref: str) -> tuple[str, Phase]:
    """Slug and phase of a dependency; a workload that does not exist counts as Failed."""
    row = transaction.fetch_one(PHASE_BY_REF, {"ref": ref})
    return (row[0], Phase(row[1])) if row else (ref, Phase.FAILED)


def count_unfinished(transaction: Transaction, cluster_id: str, workspace_id: int) -> int:
    """The number of unfinished workloads of a workspace; `cluster_id` is the workspace's cluster, for the index."""
    row = transaction.fetch_one(COUNT_UNFINISHED, {"cluster_id": cluster_id, "workspace_id": workspace_id})
    return row[0] if row else 0


def set_pending_reasons(transaction: Transaction, reasons: Mapping[str, StatusReason]) -> None:
    """Store why workloads or some of their replicas are pending; an empty reason clears it.

    The version stays the same: a pending reason is derived data, not a transition.
    """
    rows = [{"uid": uid, "message": reason.message, "reason": reason.code} for uid, reason in reasons.items()]
    transaction.execute_many(SET_PENDING_REASON, rows)


def label_rows(workload: Workload) -> list[dict[str, object]]:
    return [
        {"workload_uid": workload.uid, "kind": kind, "key": key, "value": value}
        for kind, pairs in (("label", workload.spec.labels), ("annotation", workload.spec.annotations))
        for key, value in pairs.items()
    ]


def column_values(workload: Workload, field: str) -> Iterator[tuple[str, object]]:
    """The columns, with their values, that hold a field of a workload."""
    value = getattr(workload, field)
    match field:
        case "spec":
            yield "spec", _encode_json(value).decode()
            yield "replicas", value.replicas
            yield "node_pools", ",".join(workload.current_node_pools)
            yield "search_image", value.image.casefold()
            yield from structs.asdict(value.resources).items()
        case "node_pools":
            yield "node_pools", ",".join(workload.current_node_pools)
        case "reserved_nodes":
            yield field, ",".join(value)
        case "notes":
            yield field, _encode_json(value).decode()
        case "preemptible" | "requeued":
            yield field, int(value)
        case "description":
            yield field, value
            yield "search_description", value.casefold()
        case _:
            yield field, value


def row_params(workload: Workload) -> dict[str, object]:
    """The parameters of `ADD`."""
    spec = workload.spec
    return {
        **structs.asdict(workload),
        **structs.asdict(spec.resources),
        "spec": _encode_json(spec).decode(),
        "replicas": spec.replicas,
        "preemptible": int(workload.preemptible),
        "requeued": int(workload.requeued),
        "managed": int(workload.managed),
        "notes": _encode_json(workload.notes).decode(),
        "node_pools": ",".join(workload.current_node_pools),
        "search_image": spec.image.casefold(),
        "search_description": workload.description.casefold(),
        "search_user": workload.user_name.casefold(),
    }
