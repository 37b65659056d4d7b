"""What GPUs were used for and what that cost, for admins of everything and for others of their workspaces."""

from collections.abc import AsyncIterator, Collection

from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, FOREVER, HOUR_MS
from stoker.domain.errors import bad_request
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.permissions import Action, Actor
from stoker.domain.report import Amounts, Cost, Group, Prices, UsageBy, UsageQuery, UsageSort
from stoker.services.context import Context, authorise
from stoker.services.monitoring import named
from stoker.services.workspaces import visible
from stoker.store import clusters, usage_report
from stoker.store.base import Transaction
from stoker.store.usage_report import PaidFor

USUAL_MS = 7 * DAY_MS
AT_ONCE = 10_000
"""Rows that are read together when all of a report are asked for."""


class Asked(Struct, frozen=True, kw_only=True):
    """A report as it is asked for; times of None are the usual ones, `by` of None is by label where one is given."""

    by: UsageBy | None = None
    label: str = ""
    since: int | None = None
    until: int | None = None
    cluster: str = ""
    workspace: str = ""
    sort: UsageSort = UsageSort.ALLOCATED
    descending: bool = True


class Reach(Struct, frozen=True):
    """The end of the last hour of a cluster that is closed; None when it has none."""

    cluster: Cluster
    through: int | None


class UsageRow(Struct, frozen=True):
    """`workload` says whose it is where a row is a workload that is still known."""

    key: str
    name: str
    amounts: Amounts
    cost: Cost
    workload: PaidFor | None = None


class Scope(Struct, frozen=True):
    """What a report is of: `whole` when it has what nobody held, in its totals and in rows of clusters and models."""

    query: UsageQuery
    reaches: list[Reach]

    @property
    def whole(self) -> bool:
        return self.query.workspace_ids is None

    @property
    def through(self) -> int:
        """Up to where all clusters are closed of which there is anything in the range."""
        return min([self.query.to_at, *self._known]) if self._known else self.query.from_at

    @property
    def closed(self) -> UsageQuery:
        """The same without hours of which nothing is closed yet: one that is closed meanwhile is not in it."""
        return structs.replace(self.query, to_at=min(self.query.to_at, max([self.query.from_at, *self._known])))

    @property
    def _known(self) -> list[int]:
        begin = self.query.from_at
        return [reach.through for reach in self.reaches if reach.through is not None and reach.through > begin]


class UsageReport(Struct, frozen=True):
    scope: Scope
    rows: Listing[UsageRow]
    totals: Amounts
    cost: Cost
    unpriced: list[str]


class Reports:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._prices = Prices(context.settings.gpu_prices)

    async def usage(self, actor: Actor, asked: Asked, window: Window) -> UsageReport:
        """One page, with the totals of everything that is asked for."""

        def read(transaction: Transaction) -> UsageReport:
            scope = self._scope(transaction, actor, asked)
            totals = usage_report.totals(transaction, scope.query)
            found = usage_report.page(transaction, scope.query, window)
            return UsageReport(
                scope,
                Listing(self._rows(transaction, scope.query.by, found.items), found.total),
                sum(totals.values(), Amounts()),
                self._prices.costs(totals),
                self._prices.missing(totals),
            )

        return await self._context.store.read(read)

    async def scope(self, actor: Actor, asked: Asked) -> Scope:
        return await self._context.store.read(lambda tx: self._scope(tx, actor, asked))

    async def stream(self, scope: Scope) -> AsyncIterator[list[UsageRow]]:
        """Every row in parts, so that a long report is never in memory as a whole."""
        query, offset = scope.closed, 0
        while True:
            window = Window(offset, AT_ONCE)
            part = await self._context.store.read(lambda tx, w=window: self._part(tx, query, w))
            yield part
            if len(part) < AT_ONCE:
                return
            offset += AT_ONCE

    def _part(self, transaction: Transaction, query: UsageQuery, window: Window) -> list[UsageRow]:
        return self._rows(transaction, query.by, usage_report.page(transaction, query, window).items)

    def _scope(self, transaction: Transaction, actor: Actor, asked: Asked) -> Scope:
        authorise(actor, Action.USAGE_READ)
        begin, end = self._hours(asked)
        found = named(clusters.every(transaction), asked.cluster)
        query = UsageQuery(
            by=_by(asked),
            label=asked.label,
            from_at=begin,
            to_at=end,
            cluster_ids=tuple(cluster.id for cluster in found),
            workspace_ids=_seen(transaction, actor, asked.workspace),
            sort=asked.sort,
            descending=asked.descending,
        )
        return Scope(query, [Reach(each, usage_report.through(transaction, each.id)) for each in found])

    def _hours(self, asked: Asked) -> tuple[int, int]:
        """Whole hours, with those that are only partly asked for."""
        end = self._context.clock.now() if asked.until is None else asked.until
        begin = end - USUAL_MS if asked.since is None else asked.since
        if begin >= end:
            raise bad_request("since", "it is not before until. Use an earlier time, or a later until.")
        return begin // HOUR_MS * HOUR_MS, min(-(-end // HOUR_MS) * HOUR_MS, FOREVER)

    def _rows(self, transaction: Transaction, by: UsageBy, groups: list[Group]) -> list[UsageRow]:
        keys = [group.key for group in groups if group.key]
        owned = usage_report.workloads(transaction, keys) if by is UsageBy.WORKLOAD else {}
        names = {uid: each.slug for uid, each in owned.items()} or _names(transaction, by, keys)
        return [
            UsageRow(
                group.key,
                names.get(group.key, group.key),
                group.amounts,
                self._prices.costs(group.models),
                owned.get(group.key),
            )
            for group in groups
        ]


def _by(asked: Asked) -> UsageBy:
    by = asked.by or (UsageBy.LABEL if asked.label else UsageBy.WORKSPACE)
    if by is UsageBy.LABEL and not asked.label:
        raise bad_request("label", "a report by label needs one. Use the key of a label, for example team.")
    if asked.label and by is not UsageBy.LABEL:
        raise bad_request("label", f"it is not for a report by {by}. Use by=label, or leave it out.")
    return by


def _seen(transaction: Transaction, actor: Actor, workspace: str) -> tuple[int, ...] | None:
    """The workspaces that are asked for and may be seen; None is everything."""
    if workspace:
        return (visible(transaction, actor, workspace).id,)
    return None if actor.admin else tuple(sorted(actor.memberships))


def _names(transaction: Transaction, by: UsageBy, keys: Collection[str]) -> dict[str, str]:
    match by:
        case UsageBy.CLUSTER:
            return {cluster.id: cluster.name for cluster in clusters.every(transaction)}
        case UsageBy.WORKSPACE:
            return usage_report.workspace_names(transaction, [int(key) for key in keys])
        case UsageBy.USER:
            return usage_report.user_names(transaction, keys)
        case _:
            return {}
