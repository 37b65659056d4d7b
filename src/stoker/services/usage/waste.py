"""GPUs that are allocated but idle now, by workload, most wasteful first.

A GPU is idle when its utilization is at most a threshold. The start of its idle time is known only for GPUs at or below
the setting `idle_threshold`; it resets when the GPU is reallocated.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.live_view import GpuConsumer
from stoker.domain.usage.report import PriceList
from stoker.services.context import Context, authorise
from stoker.services.fleet.gpu_grid import IdleAllocation
from stoker.services.fleet.live import LiveViewReader
from stoker.services.identity.workspaces import get_visible_workspace
from stoker.store.db.base import Transaction
from stoker.store.usage import reports
from stoker.store.usage.reports import WorkloadOwner


class WasteQuery(Struct, frozen=True, kw_only=True):
    """`threshold` is in percent, None for the setting; shorter idle times than `min_idle_seconds` are left out."""

    threshold: float | None = None
    min_idle_seconds: int = 0
    cluster: str = ""
    workspace: str = ""


class WastedAllocation(Struct, frozen=True):
    """A workload with idle GPUs.

    `amounts` is their idle time so far, in milli-GPU-milliseconds by model; `idle_since` is the earliest start, None
    when none is known.
    """

    cluster: Cluster
    consumer: GpuConsumer
    owner: WorkloadOwner
    idle_milli: int
    idle_since: int | None
    amounts: Mapping[str, int]
    cost: float | None

    @property
    def amount(self) -> int:
        return sum(self.amounts.values())


class WasteResult(Struct, frozen=True):
    """The idle allocations, most wasteful first, and their totals. `threshold` is in percent."""

    at: int
    threshold: float
    items: list[WastedAllocation]
    idle_milli: int
    amount: int
    cost: float | None
    unpriced: list[str]


class WasteService:
    def __init__(self, context: Context, live: LiveViewReader) -> None:
        self._context = context
        self._live = live
        self._prices = PriceList(context.settings.gpu_prices)

    async def read_current(self, actor: Actor, query: WasteQuery) -> WasteResult:
        """The idle allocations that the caller may see, by cost; by GPU-hours when a price is missing."""
        authorise(actor, Action.USAGE_READ)
        clusters = await self._live.clusters(query.cluster)
        cluster_id = clusters[0].cluster.id if query.cluster else ""
        threshold = self._context.settings.idle_threshold if query.threshold is None else query.threshold
        grid, consumers = await self._live.gpus(), await self._live.consumers()
        now = self._context.clock.now()

        def read(transaction: Transaction) -> WasteResult:
            idle = [
                gpu
                for gpu in grid.idle_allocations(cluster_id, threshold)
                if _idle_seconds(gpu, now) >= query.min_idle_seconds
            ]
            gpus_by_workload = _group_by_workload(idle)
            running = {
                consumer.slug: (cluster, consumer)
                for cluster, consumer in consumers
                if consumer.slug in gpus_by_workload
            }
            uids = [consumer.uid for _, consumer in running.values()]
            owners = _visible_owners(transaction, actor, query.workspace, uids)
            wasted = [
                self._build_item(cluster, consumer, owners[consumer.uid], gpus_by_workload[slug], now)
                for slug, (cluster, consumer) in running.items()
                if consumer.uid in owners
            ]
            return self._build_result(now, threshold, wasted)

        return await self._context.store.read(read)

    def _build_result(self, now: int, threshold: float, wasted: list[WastedAllocation]) -> WasteResult:
        amounts: Counter[str] = Counter()
        for item in wasted:
            amounts.update(item.amounts)
        cost = self._prices.cost(amounts.items())
        return WasteResult(
            now,
            threshold,
            sorted(wasted, key=lambda item: _sort_key(item, priced=cost is not None)),
            sum(item.idle_milli for item in wasted),
            amounts.total(),
            cost,
            sorted(model for model in amounts if self._prices.price_of(model) is None),
        )

    def _build_item(
        self, cluster: Cluster, consumer: GpuConsumer, owner: WorkloadOwner, gpus: Sequence[IdleAllocation], now: int
    ) -> WastedAllocation:
        amounts: Counter[str] = Counter()
        for gpu in gpus:
            amounts[gpu.model] += gpu.gpu_milli * (now - (gpu.idle_since or now))
        return WastedAllocation(
            cluster=cluster,
            consumer=consumer,
            owner=owner,
            idle_milli=sum(gpu.gpu_milli for gpu in gpus),
            idle_since=min((gpu.idle_since for gpu in gpus if gpu.idle_since is not None), default=None),
            amounts=amounts,
            cost=self._prices.cost(amounts.items()),
        )


def _sort_key(wasted: WastedAllocation, *, priced: bool) -> tuple[float, int, int, str]:
    """By cost only when the prices of all models are known."""
    return -(wasted.cost or 0) if priced else 0, -wasted.amount, -wasted.idle_milli, wasted.consumer.slug


def _idle_seconds(gpu: IdleAllocation, now: int) -> float:
    """The known idle time of a GPU; 0 when its start is unknown."""
    return 0 if gpu.idle_since is None else (now - gpu.idle_since) / 1000


def _group_by_workload(gpus: Iterable[IdleAllocation]) -> dict[str, list[IdleAllocation]]:
    grouped: defaultdict[str, list[IdleAllocation]] = defaultdict(list)
    for gpu in gpus:
        grouped[gpu.workload].append(gpu)
    return grouped


def _visible_owners(
    transaction: Transaction, actor: Actor, workspace: str, uids: Sequence[str]
) -> dict[str, WorkloadOwner]:
    """The owners of the workloads in the named workspace, or in all visible workspaces."""
    workspace_id = get_visible_workspace(transaction, actor, workspace).id if workspace else None
    owners = reports.workload_owners(transaction, uids)
    return {
        uid: owner
        for uid, owner in owners.items()
        if owner.workspace_id == workspace_id or (workspace_id is None and actor.can_see(owner.workspace_id))
    }
