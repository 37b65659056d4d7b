"""Usage reports with cost. Admins see all usage, other callers that of their workspaces."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator

from msgspec import Struct, structs

from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.clock import DAY_MS, HOUR_MS, MAX_TIMESTAMP_MS
from stoker.domain.errors import bad_request
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.report import (
    PriceList,
    UnclosedInterval,
    UsageAmounts,
    UsageCost,
    UsageGroup,
    UsageGroupBy,
    UsageQuery,
    UsageSort,
)
from stoker.services.context import Context, authorise
from stoker.services.fleet.fleet_workloads import select_clusters
from stoker.services.identity.workspaces import get_visible_workspace
from stoker.store.cluster import clusters, gpu_availability
from stoker.store.db.base import Transaction
from stoker.store.usage import closed_hours, reports
from stoker.store.usage.reports import WorkloadOwner

DEFAULT_RANGE_MS = 7 * DAY_MS
ROWS_BATCH_SIZE = 10_000
"""Rows per read when a whole report is streamed."""


class UsageReportRequest(Struct, frozen=True, kw_only=True):
    """The default range is the last 7 days; `by` None is by label when one is given, else by workspace."""

    by: UsageGroupBy | None = None
    label: str = ""
    since: int | None = None
    until: int | None = None
    cluster: str = ""
    workspace: str = ""
    sort: UsageSort = UsageSort.ALLOCATED
    descending: bool = True


class ClusterCoverage(Struct, frozen=True):
    """The end of the last closed hour of a cluster (None without one), and the past hours that are not closed yet."""

    cluster: Cluster
    closed_until: int | None
    hours_to_close: int


class UsageReportRow(Struct, frozen=True):
    """`workload` is set in rows of workloads that still exist."""

    key: str
    name: str
    amounts: UsageAmounts
    cost: UsageCost
    workload: WorkloadOwner | None = None


class ReportScope(Struct, frozen=True):
    """The resolved range and filters of a report, fixed once so that all batches of a report cover the same hours.

    `since` is the requested start; the query starts later when older usage is no longer retained.
    """

    query: UsageQuery
    coverage: list[ClusterCoverage]
    since: int
    retained_from: int

    @property
    def open_until(self) -> int | None:
        """The end of the allocations included from hours that are not closed yet; None when all are closed."""
        return max((span.to_at for span in self.query.unclosed_intervals), default=None)

    @property
    def includes_unallocated(self) -> bool:
        """Whether the totals, and the rows of clusters and models, include GPUs that were not allocated."""
        return self.query.workspace_ids is None

    @property
    def closed_until(self) -> int:
        """The time up to which all clusters with usage in the range are closed."""
        return min([self.query.to_at, *self._closed_ends]) if self._closed_ends else self.query.from_at

    @property
    def closed_query(self) -> UsageQuery:
        """The query without hours that no cluster has closed yet: hours closed meanwhile do not appear in it."""
        return structs.replace(self.query, to_at=min(self.query.to_at, max([self.query.from_at, *self._closed_ends])))

    @property
    def _closed_ends(self) -> list[int]:
        begin = self.query.from_at
        return [
            cluster.closed_until
            for cluster in self.coverage
            if cluster.closed_until is not None and cluster.closed_until > begin
        ]


class UsageReportPage(Struct, frozen=True):
    scope: ReportScope
    rows: PageResult[UsageReportRow]
    totals: UsageAmounts
    cost: UsageCost
    unpriced: list[str]


class UsageReportService:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._prices = PriceList(context.settings.gpu_prices)

    async def read_report(self, actor: Actor, request: UsageReportRequest, window: PageRequest) -> UsageReportPage:
        """One page of a report, with the totals of the whole report."""

        def read(transaction: Transaction) -> UsageReportPage:
            scope = self._resolve_scope(transaction, actor, request)
            totals = reports.totals_by_model(transaction, scope.query)
            groups = reports.list_groups(transaction, scope.query, window)
            return UsageReportPage(
                scope,
                PageResult(self._build_rows(transaction, scope.query.group_by, groups.items), groups.total),
                sum(totals.values(), UsageAmounts()),
                self._prices.usage_cost(totals),
                self._prices.unpriced_models(totals),
            )

        return await self._context.store.read(read)

    async def resolve_scope(self, actor: Actor, request: UsageReportRequest) -> ReportScope:
        return await self._context.store.read(lambda tx: self._resolve_scope(tx, actor, request))

    async def stream_rows(self, scope: ReportScope) -> AsyncIterator[list[UsageReportRow]]:
        """Every row in batches, so that a long report is never in memory as a whole."""
        query, offset = scope.closed_query, 0
        while True:
            window = PageRequest(offset, ROWS_BATCH_SIZE)
            batch = await self._context.store.read(lambda tx, w=window: self._read_batch(tx, query, w))
            yield batch
            if len(batch) < ROWS_BATCH_SIZE:
                return
            offset += ROWS_BATCH_SIZE

    def _read_batch(self, transaction: Transaction, query: UsageQuery, window: PageRequest) -> list[UsageReportRow]:
        return self._build_rows(transaction, query.group_by, reports.list_groups(transaction, query, window).items)

    def _resolve_scope(self, transaction: Transaction, actor: Actor, request: UsageReportRequest) -> ReportScope:
        authorise(actor, Action.USAGE_READ)
        begin, end = self._whole_hours(request)
        retained_from = closed_hours.retained_from(transaction)
        selected = select_clusters(clusters.all_clusters(transaction), request.cluster)
        now = self._context.clock.now()
        retained_begin = min(max(begin, retained_from), end)
        coverage = [_coverage_of(transaction, cluster, retained_begin, end, now) for cluster in selected]
        query = UsageQuery(
            group_by=_resolve_grouping(request),
            label=request.label,
            from_at=retained_begin,
            to_at=end,
            cluster_ids=tuple(cluster.id for cluster in selected),
            workspace_ids=_visible_workspace_ids(transaction, actor, request.workspace),
            unclosed_intervals=tuple(_unclosed_intervals(coverage, retained_begin, min(end, now))),
            sort=request.sort,
            descending=request.descending,
        )
        return ReportScope(query, coverage, begin, retained_from)

    def _whole_hours(self, request: UsageReportRequest) -> tuple[int, int]:
        """The requested range, extended to whole hours."""
        end = self._context.clock.now() if request.until is None else request.until
        begin = end - DEFAULT_RANGE_MS if request.since is None else request.since
        if begin >= end:
            raise bad_request("since", "it is not before until. Use an earlier time, or a later until.")
        return begin // HOUR_MS * HOUR_MS, min(-(-end // HOUR_MS) * HOUR_MS, MAX_TIMESTAMP_MS)

    def _build_rows(self, transaction: Transaction, by: UsageGroupBy, groups: list[UsageGroup]) -> list[UsageReportRow]:
        keys = [group.key for group in groups if group.key]
        owners = reports.workload_owners(transaction, keys) if by is UsageGroupBy.WORKLOAD else {}
        names = {uid: owner.slug for uid, owner in owners.items()} or _display_names(transaction, by, keys)
        return [
            UsageReportRow(
                group.key,
                names.get(group.key, group.key),
                group.total,
                self._prices.usage_cost(group.amounts_by_model),
                owners.get(group.key),
            )
            for group in groups
        ]


def _coverage_of(transaction: Transaction, cluster: Cluster, from_at: int, to_at: int, now: int) -> ClusterCoverage:
    closed_until = reports.closed_until(transaction, cluster.id)
    first = gpu_availability.first_gpu_at(transaction, cluster.id) if closed_until is None else closed_until
    past_hours = min(now, to_at) // HOUR_MS
    hours_to_close = 0 if first is None else past_hours - max(first, from_at) // HOUR_MS
    return ClusterCoverage(cluster, closed_until, max(0, hours_to_close))


def _unclosed_intervals(coverage: Iterable[ClusterCoverage], from_at: int, to_at: int) -> Iterator[UnclosedInterval]:
    for entry in coverage:
        begin = from_at if entry.closed_until is None else max(from_at, entry.closed_until)
        if begin < to_at:
            yield UnclosedInterval(entry.cluster.id, begin, to_at)


def _resolve_grouping(request: UsageReportRequest) -> UsageGroupBy:
    by = request.by or (UsageGroupBy.LABEL if request.label else UsageGroupBy.WORKSPACE)
    if by is UsageGroupBy.LABEL and not request.label:
        raise bad_request("label", "a report by label needs one. Use the key of a label, for example team.")
    if request.label and by is not UsageGroupBy.LABEL:
        raise bad_request("label", f"it is not for a report by {by}. Use by=label, or leave it out.")
    return by


def _visible_workspace_ids(transaction: Transaction, actor: Actor, workspace: str) -> tuple[int, ...] | None:
    """The ids of the named workspace, or of all visible workspaces; None is the whole fleet."""
    if workspace:
        return (get_visible_workspace(transaction, actor, workspace).id,)
    return actor.visible_workspaces


def _display_names(transaction: Transaction, by: UsageGroupBy, keys: Collection[str]) -> dict[str, str]:
    match by:
        case UsageGroupBy.CLUSTER:
            return {cluster.id: cluster.name for cluster in clusters.all_clusters(transaction)}
        case UsageGroupBy.WORKSPACE:
            return reports.workspace_names(transaction, [int(key) for key in keys])
        case UsageGroupBy.USER:
            return reports.user_names(transaction, keys)
        case _:
            return {}
