"""Workloads added up now: how many there are, the GPUs they hold, and how long they have waited."""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct, structs

from stoker.domain.clock import HOUR_MS, MINUTE_MS
from stoker.domain.identity import Workspace
from stoker.domain.permissions import Action, Actor
from stoker.domain.resources import MILLI
from stoker.domain.workload import CATEGORY, Kind, Phase
from stoker.services.context import Context, authorise
from stoker.services.monitoring import cluster_id
from stoker.store import clusters, inventory_totals, workspaces
from stoker.store.base import Transaction
from stoker.store.inventory_totals import Total, TotalsQuery

WAITED_MS = (5 * MINUTE_MS, HOUR_MS, 24 * HOUR_MS)


class Amount(StrEnum):
    WORKLOADS = "workloads"
    GPUS = "gpus"
    WAITING = "waiting"


class Grouping(StrEnum):
    CLUSTER = "cluster"
    DEPARTMENT = "department"
    WORKSPACE = "workspace"
    KIND = "kind"
    POOLS = "pools"
    PHASE = "phase"
    CATEGORY = "category"
    WAITED = "waited"


class Group(Struct, frozen=True, order=True):
    by: Grouping
    value: str
    name: str = ""


class Sum(Struct, frozen=True):
    groups: tuple[Group, ...]
    amount: float


class SummaryQuery(Struct, frozen=True):
    amount: Amount
    by: tuple[Grouping, ...] = ()
    cluster: str = ""
    pool: str = ""
    department_id: str = ""
    phases: tuple[Phase, ...] | None = None


class Summary:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self, actor: Actor, query: SummaryQuery) -> tuple[list[Sum], int]:
        """Of what the caller may see, and when."""
        authorise(actor, Action.WORKLOAD_LIST)
        now = self._context.clock.now()
        return await self._context.store.read(lambda tx: _sums(tx, actor, query, now)), now


def _sums(transaction: Transaction, actor: Actor, query: SummaryQuery, now: int) -> list[Sum]:
    known = {each.id: each for each in clusters.every(transaction)}
    query = structs.replace(query, cluster=cluster_id(transaction, query.cluster))
    homes = {each.id: each for cluster in known for each in workspaces.of_cluster(transaction, cluster)}
    totals = _totals(transaction, query, _asked(actor, query, homes), now)
    names = {cluster.id: cluster.name for cluster in known.values()}
    added: dict[tuple[Group, ...], int] = defaultdict(int)
    if not query.by:
        added[()] = 0
    for total in totals:
        added[tuple(_group(by, total, homes, names) for by in query.by)] += total.amount
    return [Sum(groups, amount) for groups, amount in sorted(_whole(query, added).items())]


def _whole(query: SummaryQuery, added: dict[tuple[Group, ...], int]) -> dict[tuple[Group, ...], float]:
    """GPUs as such, and every length of a wait, if nothing waits that long too."""
    if query.amount is Amount.GPUS:
        return {groups: milli / MILLI for groups, milli in added.items()}
    if query.amount is not Amount.WAITING or Grouping.WAITED not in query.by:
        return dict(added)
    place = query.by.index(Grouping.WAITED)
    others = {groups[:place] + groups[place + 1 :] for groups in added} or ({()} if len(query.by) == 1 else set())
    lengths = [Group(Grouping.WAITED, str(bucket)) for bucket in range(len(WAITED_MS) + 1)]
    every = {(*rest[:place], length, *rest[place:]) for rest in others for length in lengths}
    return {groups: added.get(groups, 0) for groups in every}


def _asked(actor: Actor, query: SummaryQuery, homes: dict[int, Workspace]) -> TotalsQuery:
    seen = None if actor.admin else set(actor.memberships)
    if query.department_id:
        inside = {each.id for each in homes.values() if str(each.department_id) == query.department_id}
        seen = inside if seen is None else seen & inside
    return TotalsQuery(
        cluster_id=query.cluster,
        pool=query.pool,
        workspace_ids=None if seen is None else tuple(sorted(seen)),
        phases=query.phases,
    )


def _totals(transaction: Transaction, query: SummaryQuery, asked: TotalsQuery, now: int) -> Sequence[Total]:
    match query.amount:
        case Amount.WORKLOADS:
            return inventory_totals.counted(transaction, asked)
        case Amount.GPUS:
            return inventory_totals.allocated(transaction, asked)
        case Amount.WAITING:
            return inventory_totals.waiting(transaction, asked, now, WAITED_MS)


def _group(by: Grouping, total: Total, homes: dict[int, Workspace], clusters: dict[str, str]) -> Group:
    home = homes.get(total.workspace_id)
    match by:
        case Grouping.CLUSTER:
            return Group(by, total.cluster_id, clusters.get(total.cluster_id, ""))
        case Grouping.DEPARTMENT:
            return Group(by, str(home.department_id) if home else "0", home.department if home else "")
        case Grouping.WORKSPACE:
            return Group(by, str(total.workspace_id), home.name if home else "")
        case Grouping.KIND:
            return Group(by, total.kind)
        case Grouping.POOLS:
            return Group(by, total.pools)
        case Grouping.PHASE:
            return Group(by, total.phase)
        case Grouping.CATEGORY:
            return Group(by, CATEGORY[Kind(total.kind)])
        case Grouping.WAITED:
            return Group(by, str(total.bucket))
