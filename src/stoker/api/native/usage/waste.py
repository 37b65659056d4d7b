"""GPUs that are held and not used, now."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.csv_text import CSV
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.fleet import ClusterName
from stoker.api.native.shapes import PageParams, Time, moment, paged
from stoker.api.native.usage import DIGITS, Hours, Money, Prices
from stoker.api.sheets import PARQUET, Format, sheet, wanted
from stoker.api.staleness import mark_stale
from stoker.api.streams import Stream
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode
from stoker.domain.listing import Listing
from stoker.domain.permissions import Action
from stoker.domain.resources import MILLI
from stoker.domain.usage import GPU_HOUR
from stoker.services.waste import Wasted, WasteQuery, WasteReport

AT_ONCE = 5000
Threshold = Annotated[
    float, Meta(ge=0, le=100, description="Percent: a GPU that is used no more is idle. The setting idle_threshold.")
]


class WasteParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    threshold: Threshold | None = None
    least_seconds: Annotated[int, Meta(ge=0, le=10**9, description="Only GPUs that have been idle for so long.")] = 300
    cluster: ClusterName = ""
    workspace: Annotated[str, Meta(max_length=63, description="Only of this workspace.")] = ""
    format: Annotated[Format, Meta(description="`csv` and `parquet` have every row, not a page.")] | None = None


class WasteItem(Struct, frozen=True, rename="camel"):
    """A workload with idle GPUs; `idleSince` is of the one that is idle longest, null when it is known of none."""

    workload_id: str
    uid: str
    name: str
    kind: str
    cluster: str
    namespace: str
    workspace: str
    user: str
    models: str
    gpus: Annotated[float, Meta(description="GPUs that it holds.")]
    idle_gpus: Annotated[float, Meta(description="Those of them that are idle.")]
    idle_since: Time | None
    idle_seconds: int | None
    idle_gpu_hours: Hours
    cost: Money | None
    stop_command: str


class WasteView(Struct, frozen=True, rename="camel"):
    """`idleGpus`, `idleGpuHours` and `cost` are of everything that is asked for, not of the page alone."""

    at: Time
    threshold: float
    least_seconds: int
    currency: str
    prices: Prices
    unpriced_models: list[str]
    idle_gpus: float
    idle_gpu_hours: Hours
    cost: Money | None
    items: list[WasteItem]
    total: int
    next: int | None


@endpoint(
    "GET",
    "/api/stoker/v1/waste",
    family=NATIVE,
    action=Action.USAGE_READ,
    params=WasteParams,
    result=WasteView,
    also=(CSV, PARQUET),
    errors=(ErrorCode.NOT_FOUND,),
)
async def report_waste(call: Call[WasteParams]) -> WasteView | Stream:
    """Running workloads that hold GPUs and do not use them: how many, for how long, at what cost so far, worst first.

    Admins see everything, others what is in their workspaces.
    """
    params = call.params
    mark_stale(call, await call.services.live.clusters(params.cluster))
    query = WasteQuery(
        threshold=params.threshold,
        least_seconds=params.least_seconds,
        cluster=params.cluster,
        workspace=params.workspace,
    )
    report = await call.services.waste.now(call.actor, query)
    form = wanted(call.request, params.format)
    if form is not Format.JSON:
        call.headers.append(("Content-Disposition", f'attachment; filename="waste.{form}"'))
        return await sheet(form, WasteItem, _parts(report))
    window = params.window
    listing = Listing(report.found[window.offset : window.offset + window.limit], len(report.found))
    page = paged(listing, window, lambda each: _item(each, report.at))
    return WasteView(
        at=rfc3339(report.at),
        threshold=report.threshold,
        least_seconds=params.least_seconds,
        currency=call.services.settings.currency,
        prices=call.services.settings.gpu_prices,
        unpriced_models=report.unpriced,
        idle_gpus=report.idle_milli / MILLI,
        idle_gpu_hours=_gpu_hours(report.amount),
        cost=report.cost,
        items=page.items,
        total=page.total,
        next=page.next,
    )


async def _parts(report: WasteReport) -> AsyncIterator[list[WasteItem]]:
    for first in range(0, max(1, len(report.found)), AT_ONCE):
        yield [_item(each, report.at) for each in report.found[first : first + AT_ONCE]]


def _item(wasted: Wasted, now: int) -> WasteItem:
    consumer, owner = wasted.consumer, wasted.owner
    return WasteItem(
        workload_id=consumer.slug,
        uid=consumer.uid,
        name=consumer.name,
        kind=consumer.kind,
        cluster=wasted.cluster.name,
        namespace=consumer.namespace,
        workspace=owner.workspace,
        user=owner.user,
        models=", ".join(sorted(wasted.amounts)),
        gpus=consumer.gpu_milli / MILLI,
        idle_gpus=wasted.idle_milli / MILLI,
        idle_since=moment(wasted.since),
        idle_seconds=None if wasted.since is None else max(0, now - wasted.since) // 1000,
        idle_gpu_hours=_gpu_hours(wasted.amount),
        cost=wasted.cost,
        stop_command=f"stoker stop {consumer.slug}",
    )


def _gpu_hours(amount: int) -> float:
    return round(amount / GPU_HOUR, DIGITS)
