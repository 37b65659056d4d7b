"""Specs of earlier revisions of Deployments and StatefulSets, for rollbacks.

The spec of a revision is archived in the transaction that creates the next one.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Spec
from stoker.store.db.base import Row, Transaction

MAX_KEPT_REVISIONS = 10
"""This many revisions before the current one are kept, and always the last good one."""
ADD = """
INSERT INTO workload_revision (workload_uid, revision, spec)
VALUES (:workload_uid, :revision, :spec)
ON CONFLICT (workload_uid, revision) DO NOTHING
"""
DELETE_OLD = """
DELETE FROM workload_revision
WHERE workload_uid = :workload_uid
  AND revision < :first
  AND revision <> :good
"""
FIND = """
SELECT revision, spec
FROM workload_revision
WHERE workload_uid = :uid
  AND revision = :revision
"""
PREVIOUS = """
SELECT revision, spec
FROM workload_revision
WHERE workload_uid = :uid
  AND revision < :revision
ORDER BY revision DESC
LIMIT 1
"""
REASSIGN_PODS = """
UPDATE pod
SET revision = :to_revision
WHERE workload_uid = :uid
  AND attempt = :attempt
  AND revision = :from_revision
  AND ended_at IS NULL
"""


class Revision(Struct, frozen=True):
    number: int
    spec: Spec


def archive_previous(transaction: Transaction, changes: Iterable[tuple[Workload, Workload]]) -> None:
    """Archive the specs of workloads whose change, given as (before, after), starts a new revision."""
    changed = [(old, new) for old, new in changes if old.uses_rolling_update and new.revision != old.revision]
    rows = [
        {"workload_uid": old.uid, "revision": old.revision, "spec": msgspec.json.encode(old.spec).decode()}
        for old, _ in changed
    ]
    transaction.execute_many(ADD, rows)
    trimmed = [(old, new.revision - MAX_KEPT_REVISIONS) for old, new in changed if new.revision > MAX_KEPT_REVISIONS]
    transaction.execute_many(
        DELETE_OLD, [{"workload_uid": old.uid, "first": first, "good": old.good_revision} for old, first in trimmed]
    )


def find(transaction: Transaction, uid: str, number: int) -> Revision | None:
    return _revision_from_row(transaction.fetch_one(FIND, {"uid": uid, "revision": number}))


def previous(transaction: Transaction, workload: Workload) -> Revision | None:
    """The newest archived revision before the current one."""
    return _revision_from_row(transaction.fetch_one(PREVIOUS, {"uid": workload.uid, "revision": workload.revision}))


def reassign_pods(transaction: Transaction, workload: Workload, number: int) -> None:
    """Assign the unfinished pods of an earlier revision to the current one, which has the same spec."""
    pods = {"uid": workload.uid, "attempt": workload.attempt}
    transaction.execute(REASSIGN_PODS, {**pods, "from_revision": number, "to_revision": workload.revision})


def _revision_from_row(row: Row | None) -> Revision | None:
    return Revision(row[0], msgspec.json.decode(row[1], type=Spec)) if row else None
