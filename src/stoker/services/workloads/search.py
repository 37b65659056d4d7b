"""Lists, counts and reads the workload records that the caller may see.

Records of deleted workloads are included if the query selects them.
"""

from collections.abc import Sequence

from msgspec import structs

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target
from stoker.domain.errors import not_found
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.workload_query import WorkloadQuery
from stoker.domain.queries.workload_records import WorkloadRecord, WorkloadRecordPage, WorkloadWithPods
from stoker.domain.workload.status import describe_status
from stoker.services.access import redact_env, restrict_to_visible
from stoker.services.context import Context, authorise
from stoker.services.fleet.leadership import ClusterLeadership
from stoker.store.db.base import Transaction
from stoker.store.workloads import pods, rows, summaries
from stoker.store.workloads.query import pages


class WorkloadSearch:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._leadership = ClusterLeadership(context)

    async def list_workloads(self, actor: Actor, query: WorkloadQuery, window: PageRequest) -> WorkloadRecordPage:
        """Admins see all workloads, others those of their workspaces."""
        visible = restrict_to_visible(actor, query)
        now = self._context.clock.now()

        def read(transaction: Transaction) -> WorkloadRecordPage:
            records, has_more = pages.fetch_slice(transaction, visible, window, now, self._read_records)
            return WorkloadRecordPage([_redact(actor, record) for record in records], has_more, now)

        return await self._context.store.read(read)

    async def count(self, actor: Actor, query: WorkloadQuery) -> int:
        visible = restrict_to_visible(actor, query)
        now = self._context.clock.now()
        return await self._context.store.read(lambda tx: pages.count(tx, visible, now))

    async def read(self, actor: Actor, ref: str) -> WorkloadWithPods:
        """A workload by uid or slug, deleted or not, with the pods of its last attempt."""

        def query(transaction: Transaction) -> WorkloadWithPods:
            workload = rows.find(transaction, ref)
            if workload is None or not actor.can_see(workload.workspace_id):
                raise not_found("workload", ref)
            authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=workload.workspace_id))
            [record] = self._read_records(transaction, [workload.uid])
            last_pods = pods.of_attempt(transaction, workload.uid, workload.attempt)
            return WorkloadWithPods(_redact(actor, record), last_pods, self._context.clock.now())

        return await self._context.store.read(query)

    def _read_records(self, transaction: Transaction, uids: Sequence[str]) -> list[WorkloadRecord]:
        """The projection of a page, with the status that users see."""
        unavailable = self._leadership.unavailable_clusters(transaction)
        return [
            structs.replace(
                record, status=describe_status(record.workload, unavailable.get(record.workload.cluster_id))
            )
            for record in summaries.read_summaries(transaction, uids)
        ]


def _redact(actor: Actor, record: WorkloadRecord) -> WorkloadRecord:
    return structs.replace(record, workload=redact_env(actor, record.workload))
