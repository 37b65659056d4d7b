"""The audit trail: reading it, and noting writes that were refused."""

from stoker.domain.identity import AuditRecord
from stoker.domain.listing import AuditQuery
from stoker.domain.permissions import Action, Actor
from stoker.services.context import Context, add_record, authorise
from stoker.store import audit


class Trail:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, query: AuditQuery) -> list[AuditRecord]:
        """Newest first."""
        authorise(actor, Action.AUDIT_READ)
        return await self._context.store.read(lambda tx: audit.browse(tx, query))

    async def refused(self, actor: Actor, action: Action, target: str, result: str, detail: str) -> None:
        """Note a write that a known caller asked for and did not get."""
        await self._context.store.write(
            lambda tx: add_record(self._context, tx, actor, action, target, result, detail[:500])
        )
