"""GPUs that somebody holds and nobody uses, as they were last read, worst first.

A GPU counts when a running workload holds it and its utilisation is not above a threshold. How long is known of those
that are not above the setting `idle_threshold`: since when they have been so in the same hands.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.identity import Cluster
from stoker.domain.live import Consumer
from stoker.domain.permissions import Action, Actor
from stoker.domain.report import Prices
from stoker.services.context import Context, authorise
from stoker.services.grids import IdleShare
from stoker.services.live import Live
from stoker.services.workspaces import visible
from stoker.store import usage_report
from stoker.store.base import Transaction
from stoker.store.usage_report import PaidFor


class WasteQuery(Struct, frozen=True, kw_only=True):
    """`threshold` is in percent, None for the setting; `least_seconds` is how long a GPU must have been idle."""

    threshold: float | None = None
    least_seconds: int = 0
    cluster: str = ""
    workspace: str = ""


class Wasted(Struct, frozen=True):
    """A workload with GPUs that it does not use. `amounts` is how much idle time they have seen so far, in
    milli-GPU-milliseconds by model; `since` is that of the first of them, None when it is known of none."""

    cluster: Cluster
    consumer: Consumer
    owner: PaidFor
    idle_milli: int
    since: int | None
    amounts: Mapping[str, int]
    cost: float | None

    @property
    def amount(self) -> int:
        return sum(self.amounts.values())


class WasteReport(Struct, frozen=True):
    """What is wasted at a moment, worst first, and all of it together. `threshold` is in percent."""

    at: int
    threshold: float
    found: list[Wasted]
    idle_milli: int
    amount: int
    cost: float | None
    unpriced: list[str]


class Waste:
    def __init__(self, context: Context, live: Live) -> None:
        self._context = context
        self._live = live
        self._prices = Prices(context.settings.gpu_prices)

    async def now(self, actor: Actor, query: WasteQuery) -> WasteReport:
        """Everything that the caller may see: the most costly first, and where a price is missing, most GPU-hours."""
        authorise(actor, Action.USAGE_READ)
        clusters = await self._live.clusters(query.cluster)
        cluster_id = clusters[0].cluster.id if query.cluster else ""
        threshold = self._context.settings.idle_threshold if query.threshold is None else query.threshold
        grid, consumers = await self._live.gpus(), await self._live.consumers()
        now = self._context.clock.now()

        def read(transaction: Transaction) -> WasteReport:
            idle = [gpu for gpu in grid.idle(cluster_id, threshold / 100) if _seconds(gpu, now) >= query.least_seconds]
            held = _held(idle)
            running = {each.slug: (cluster, each) for cluster, each in consumers if each.slug in held}
            owners = _owners(transaction, actor, query.workspace, [each.uid for _, each in running.values()])
            wasted = [
                self._wasted(cluster, each, owners[each.uid], held[slug], now)
                for slug, (cluster, each) in running.items()
                if each.uid in owners
            ]
            return self._report(now, threshold, wasted)

        return await self._context.store.read(read)

    def _report(self, now: int, threshold: float, wasted: list[Wasted]) -> WasteReport:
        amounts: Counter[str] = Counter()
        for each in wasted:
            amounts.update(each.amounts)
        cost = self._prices.cost(amounts.items())
        return WasteReport(
            now,
            threshold,
            sorted(wasted, key=lambda each: _worst(each, priced=cost is not None)),
            sum(each.idle_milli for each in wasted),
            amounts.total(),
            cost,
            sorted(model for model in amounts if self._prices.of(model) is None),
        )

    def _wasted(
        self, cluster: Cluster, consumer: Consumer, owner: PaidFor, gpus: Sequence[IdleShare], now: int
    ) -> Wasted:
        amounts: Counter[str] = Counter()
        for gpu in gpus:
            amounts[gpu.model] += gpu.gpu_milli * (now - (gpu.idle_since or now))
        return Wasted(
            cluster=cluster,
            consumer=consumer,
            owner=owner,
            idle_milli=sum(gpu.gpu_milli for gpu in gpus),
            since=min((gpu.idle_since for gpu in gpus if gpu.idle_since is not None), default=None),
            amounts=amounts,
            cost=self._prices.cost(amounts.items()),
        )


def _worst(wasted: Wasted, *, priced: bool) -> tuple[float, int, int, str]:
    """Costs can only be compared when all of them are known."""
    return -(wasted.cost or 0) if priced else 0, -wasted.amount, -wasted.idle_milli, wasted.consumer.slug


def _seconds(gpu: IdleShare, now: int) -> float:
    """How long it is known to have been idle."""
    return 0 if gpu.idle_since is None else (now - gpu.idle_since) / 1000


def _held(gpus: Iterable[IdleShare]) -> dict[str, list[IdleShare]]:
    found: defaultdict[str, list[IdleShare]] = defaultdict(list)
    for gpu in gpus:
        found[gpu.workload].append(gpu)
    return found


def _owners(transaction: Transaction, actor: Actor, workspace: str, uids: Sequence[str]) -> dict[str, PaidFor]:
    """Whose these workloads are, of those in workspaces that are asked for and may be seen."""
    wanted = visible(transaction, actor, workspace).id if workspace else None
    owners = usage_report.workloads(transaction, uids)
    return {
        uid: owner
        for uid, owner in owners.items()
        if owner.workspace_id == wanted or (wanted is None and (actor.admin or owner.workspace_id in actor.memberships))
    }
