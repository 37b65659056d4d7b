"""What happens to workloads, as it happens, for those who may see it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from msgspec import Struct

from stoker.domain.permissions import Action, Actor
from stoker.services.context import Context, authorise
from stoker.services.visible import visible
from stoker.store import changes, workspaces
from stoker.store.base import Transaction
from stoker.store.changes import ChangeRow

QUIET_SECONDS = 5.0
RENEW_MS = 5_000
"""How long a stream goes on after its reader has lost the right to it."""


class Event(Struct, frozen=True):
    change: ChangeRow
    workspace: str


class Events:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def follow(
        self, actor: Actor, ref: str, after: int | None, renew: Callable[[], Awaitable[Actor]]
    ) -> AsyncIterator[Event | None]:
        """Every change after that one, or from now on; None now and then while nothing happens."""
        authorise(actor, Action.WORKLOAD_LIST)
        store = self._context.store
        uid = (await store.peek(lambda tx: visible(tx, actor, ref))).workload.uid if ref else ""
        seen = await store.peek(changes.last) if after is None else after
        cursor = changes.Cursor(seen)
        checked = self._context.clock.now()
        with self._context.signal.listening() as listener:
            while True:
                if not 0 <= (now := self._context.clock.now()) - checked < RENEW_MS:  # the clock may be set back
                    actor, checked = await renew(), now
                    if ref:
                        await store.peek(lambda tx, who=actor: visible(tx, who, ref))
                rows, names = await store.read(lambda tx, s=seen: self._read(tx, uid, s, cursor))
                for row in rows:
                    if actor.admin or row.workspace_id in actor.memberships:
                        yield Event(row, names.get(row.workspace_id, ""))
                if rows:
                    seen = max(seen, rows[-1].seq)
                    continue
                yield None
                await listener.wait(QUIET_SECONDS)

    def _read(
        self, transaction: Transaction, uid: str, after: int, cursor: changes.Cursor
    ) -> tuple[list[ChangeRow], Mapping[int, str]]:
        """New changes of a workload, or of all, and the names of their workspaces."""
        if uid:
            rows = changes.of_workload(transaction, uid, after)
        else:
            rows = cursor.read(transaction, self._context.clock.now())
        found = (workspaces.get(transaction, workspace_id) for workspace_id in {row.workspace_id for row in rows})
        return rows, {workspace.id: workspace.name for workspace in found if workspace}
