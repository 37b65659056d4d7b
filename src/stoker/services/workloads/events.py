"""A live stream of workload events, limited to the workloads that the caller may see."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from msgspec import Struct

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import StokerError
from stoker.services.access import get_visible
from stoker.services.context import Context, authorise
from stoker.services.outage import DatabaseOutage
from stoker.store.db.base import Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import events
from stoker.store.workloads.events import WorkloadEventRow

POLL_SECONDS = 5.0
REAUTHORISE_MS = 5_000
"""How long a stream may continue after its reader has lost the permission."""


class StreamedEvent(Struct, frozen=True):
    event: WorkloadEventRow
    workspace: str


class EventStream:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def follow(
        self, actor: Actor, ref: str, after: int | None, renew: Callable[[], Awaitable[Actor]]
    ) -> AsyncIterator[StreamedEvent | None]:
        """Every event after `after`, or from now on.

        Yields None as a keep-alive while there are no events or the database is unavailable.
        """
        authorise(actor, Action.WORKLOAD_LIST)
        store = self._context.store
        uid = (await store.read_inline(lambda tx: get_visible(tx, actor, ref))).workload.uid if ref else ""
        last_seq = await store.read_inline(events.last_seq) if after is None else after
        cursor = events.EventCursor(last_seq)
        checked_at = self._context.clock.now()
        outage = DatabaseOutage(self._context.clock, self._context.settings.stream_patience_seconds)
        with self._context.notifier.listen() as listener:
            while True:
                advanced = cursor.copy()
                try:
                    if (
                        not 0 <= (now := self._context.clock.now()) - checked_at < REAUTHORISE_MS
                    ):  # the clock may be set back
                        actor = await renew()
                        if ref:
                            await store.read_inline(lambda tx, who=actor: get_visible(tx, who, ref))
                        checked_at = now
                    rows, names = await store.read(lambda tx, s=last_seq, c=advanced: self._read_events(tx, uid, s, c))
                except StokerError as error:
                    await outage.wait(error)
                    yield None
                    continue
                outage.reset()
                cursor = advanced
                for row in rows:
                    if actor.can_see(row.workspace_id):
                        yield StreamedEvent(row, names.get(row.workspace_id, ""))
                if rows:
                    last_seq = max(last_seq, rows[-1].seq)
                    continue
                yield None
                await listener.wait(POLL_SECONDS)

    def _read_events(
        self, transaction: Transaction, uid: str, after: int, cursor: events.EventCursor
    ) -> tuple[list[WorkloadEventRow], Mapping[int, str]]:
        """New events of one workload or of all, and the names of their workspaces."""
        if uid:
            rows = events.of_workload(transaction, uid, after)
        else:
            rows = cursor.read(transaction, self._context.clock.now())
        found = (workspaces.get(transaction, workspace_id) for workspace_id in {row.workspace_id for row in rows})
        return rows, {workspace.id: workspace.name for workspace in found if workspace}
