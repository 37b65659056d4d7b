"""The audit log. Records are never changed; retention deletes old ones."""

from msgspec import structs

from stoker.domain.access.identity import AuditRecord
from stoker.domain.queries.pages import AuditQuery
from stoker.store.db.base import Transaction
from stoker.store.sql.pagination import where_clause

SELECT = """
SELECT id, at, actor_id, actor, credential, address, action, target, result, detail, trace_id
FROM audit_log
"""
ADD = """
INSERT INTO audit_log (id, at, actor_id, actor, credential, address, action, target, result, detail, trace_id)
VALUES (:id, :at, :actor_id, :actor, :credential, :address, :action, :target, :result, :detail, :trace_id)
"""


def add(transaction: Transaction, record: AuditRecord) -> None:
    transaction.execute(ADD, structs.asdict(record))


def list_records(transaction: Transaction, query: AuditQuery) -> list[AuditRecord]:
    """Matching records, newest first. Ids are ordered by time, so `before` is the cursor of the next page."""
    condition = where_clause(
        "actor = :actor" if query.actor else None,
        "action = :action" if query.action else None,
        "target = :target" if query.target else None,
        "result = :result" if query.result else None,
        "at >= :since" if query.since is not None else None,
        "at <= :until" if query.until is not None else None,
        "id < :before" if query.before else None,
    )
    rows = transaction.fetch_all(f"{SELECT} {condition} ORDER BY id DESC LIMIT :limit", structs.asdict(query))
    return [AuditRecord(*row) for row in rows]
