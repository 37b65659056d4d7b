"""The audit log: only ever added to, read newest first, forgotten by age."""

from msgspec import structs

from stoker.domain.identity import AuditRecord
from stoker.domain.listing import AuditQuery
from stoker.store.base import Transaction
from stoker.store.listing import where

SELECT = """
SELECT id, at, actor_id, actor, credential, address, action, target, result, detail, trace_id
FROM audit
"""
ADD = """
INSERT INTO audit (id, at, actor_id, actor, credential, address, action, target, result, detail, trace_id)
VALUES (:id, :at, :actor_id, :actor, :credential, :address, :action, :target, :result, :detail, :trace_id)
"""


def add(transaction: Transaction, record: AuditRecord) -> None:
    transaction.run(ADD, structs.asdict(record))


def browse(transaction: Transaction, query: AuditQuery) -> list[AuditRecord]:
    """Newest first. Ids are in the order of time, so they are the cursor too."""
    condition = where(
        "actor = :actor" if query.actor else None,
        "action = :action" if query.action else None,
        "target = :target" if query.target else None,
        "result = :result" if query.result else None,
        "at >= :since" if query.since is not None else None,
        "at <= :until" if query.until is not None else None,
        "id < :before" if query.before else None,
    )
    rows = transaction.all(f"{SELECT} {condition} ORDER BY id DESC LIMIT :limit", structs.asdict(query))
    return [AuditRecord(*row) for row in rows]
