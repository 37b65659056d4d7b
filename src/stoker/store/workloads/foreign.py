"""Foreign workloads by the name that their engine gives them, and the objects between them and their pods."""

from collections.abc import Collection, Iterable

from msgspec import structs

from stoker.domain.workload.model import Workload
from stoker.domain.workload.ownership import OwnedObject
from stoker.store.db.base import Transaction
from stoker.store.sql.select_in import select_in
from stoker.store.workloads.rows import ADD_LABEL, COLUMNS, label_rows, workload_from_row

UNFINISHED = f"""
SELECT {COLUMNS}
FROM workload
WHERE cluster_id = :cluster_id
  AND managed = 0
  AND ended_at IS NULL
"""  # index workload_by_engine_ref
UNFINISHED_BY_REF = f"{UNFINISHED} AND engine_ref IN (:keys)"
OBJECTS = """
SELECT uid, kind, name, namespace, owner_uid
FROM workload_object
WHERE workload_uid = :uid
ORDER BY uid
"""
DELETE_OBJECTS = "DELETE FROM workload_object WHERE workload_uid = :uid"
ADD_OBJECT = """
INSERT INTO workload_object (workload_uid, uid, kind, name, namespace, owner_uid)
VALUES (:workload_uid, :uid, :kind, :name, :namespace, :owner_uid)
"""
DELETE_LABELS = "DELETE FROM workload_label WHERE workload_uid = :uid"


def unfinished(transaction: Transaction, cluster_id: str) -> dict[str, Workload]:
    """The foreign workloads of a cluster that have not finished, by engine ref."""
    rows = transaction.fetch_all(UNFINISHED, {"cluster_id": cluster_id})
    return {workload.engine_ref: workload for workload in map(workload_from_row, rows)}


def unfinished_by_ref(transaction: Transaction, cluster_id: str, refs: Collection[str]) -> dict[str, Workload]:
    """Those of them with these engine refs."""
    rows = select_in(transaction, UNFINISHED_BY_REF, refs, {"cluster_id": cluster_id})
    return {workload.engine_ref: workload for workload in map(workload_from_row, rows)}


def objects_of(transaction: Transaction, uid: str) -> list[OwnedObject]:
    return [OwnedObject(*row) for row in transaction.fetch_all(OBJECTS, {"uid": uid})]


def replace_objects(transaction: Transaction, uid: str, objects: Iterable[OwnedObject]) -> None:
    transaction.execute(DELETE_OBJECTS, {"uid": uid})
    transaction.execute_many(ADD_OBJECT, [{**structs.asdict(each), "workload_uid": uid} for each in objects])


def replace_labels(transaction: Transaction, workload: Workload) -> None:
    transaction.execute(DELETE_LABELS, {"uid": workload.uid})
    transaction.execute_many(ADD_LABEL, label_rows(workload))
