"""The audit log: reads of it, and the records of refused writes."""

from stoker.domain.access.identity import AuditRecord
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.queries.pages import AuditQuery
from stoker.services.context import Context, add_audit_record, authorise
from stoker.services.refusal_rate_limit import RefusalRateLimiter
from stoker.store.identity import audit


class AuditLog:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._refusal_limiter = RefusalRateLimiter(context.clock)

    async def list_records(self, actor: Actor, query: AuditQuery) -> list[AuditRecord]:
        """Newest first."""
        authorise(actor, Action.AUDIT_READ)
        return await self._context.store.read(lambda tx: audit.list_records(tx, query))

    async def record_refusal(self, actor: Actor, action: Action, target: str, result: str, detail: str) -> None:
        """Record a refused write of a known caller, unless that caller has used up its rate of records."""
        limited_detail = self._refusal_limiter.admit(actor.user_id or actor.pod_uid, detail[:500])
        if limited_detail is not None:
            await self._context.store.write(
                lambda tx: add_audit_record(self._context, tx, actor, action, target, result, limited_detail)
            )
