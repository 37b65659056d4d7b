"""The endpoint for allocated GPUs that are idle now."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.exports import export_rows
from stoker.api.http.families import NATIVE
from stoker.api.http.negotiation import CSV_MEDIA_TYPE, PARQUET_MEDIA_TYPE, ExportFormat, negotiate_format
from stoker.api.http.streaming import Stream
from stoker.api.native.mapping import to_page_view
from stoker.api.native.params import ClusterName, PageParams
from stoker.api.native.usage.report import GPU_HOUR_DECIMALS
from stoker.api.staleness import STALE_HEADER, mark_stale
from stoker.domain.access.permission_rules import Action
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import ErrorCode
from stoker.domain.queries.pages import PageResult
from stoker.domain.usage.ledger import GPU_HOUR
from stoker.services.usage.waste import WastedAllocation, WasteQuery, WasteResult
from stoker.wire.timestamps import to_optional_timestamp, to_timestamp
from stoker.wire.usage import WasteItem, WasteView

EXPORT_BATCH_SIZE = 5000
Threshold = Annotated[
    float, Meta(ge=0, le=100, description="Percent: a GPU that is used no more is idle. The setting idle_threshold.")
]


class WasteParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    threshold: Threshold | None = None
    least_seconds: Annotated[int, Meta(ge=0, le=10**9, description="Only GPUs that have been idle for so long.")] = 300
    cluster: ClusterName = ""
    workspace: Annotated[str, Meta(max_length=63, description="Only of this workspace.")] = ""
    format: Annotated[ExportFormat, Meta(description="`csv` and `parquet` have every row, not a page.")] | None = None


@endpoint(
    "GET",
    "/api/stoker/v1/waste",
    family=NATIVE,
    action=Action.USAGE_READ,
    params=WasteParams,
    result=WasteView,
    alt_media_types=(CSV_MEDIA_TYPE, PARQUET_MEDIA_TYPE),
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER, "Cache-Control", "Content-Disposition"),
)
async def report_waste(call: Call[WasteParams]) -> WasteView | Stream:
    """Running workloads with idle allocated GPUs, how long they have been idle and the cost so far, worst first.

    Admins see all workloads, others those of their workspaces.
    """
    params = call.params
    mark_stale(call, await call.services.live.clusters(params.cluster))
    query = WasteQuery(
        threshold=params.threshold,
        min_idle_seconds=params.least_seconds,
        cluster=params.cluster,
        workspace=params.workspace,
    )
    report = await call.services.waste.read_current(call.actor, query)
    form = negotiate_format(call.request, params.format)
    if form is not ExportFormat.JSON:
        call.headers.append(("Content-Disposition", f'attachment; filename="waste.{form}"'))
        return await export_rows(form, WasteItem, _item_batches(report))
    request = params.page_request
    result = PageResult(report.items[request.offset : request.offset + request.limit], len(report.items))
    page = to_page_view(result, request, lambda wasted: _waste_item(wasted, report.at))
    return WasteView(
        at=to_timestamp(report.at),
        threshold=report.threshold,
        least_seconds=params.least_seconds,
        currency=call.services.settings.currency,
        prices=call.services.settings.gpu_prices,
        unpriced_models=tuple(report.unpriced),
        idle_gpus=report.idle_milli / MILLI,
        idle_gpu_hours=_to_gpu_hours(report.amount),
        cost=report.cost,
        items=page.items,
        total=page.total,
        next=page.next,
    )


async def _item_batches(report: WasteResult) -> AsyncIterator[list[WasteItem]]:
    for first in range(0, max(1, len(report.items)), EXPORT_BATCH_SIZE):
        yield [_waste_item(wasted, report.at) for wasted in report.items[first : first + EXPORT_BATCH_SIZE]]


def _waste_item(wasted: WastedAllocation, now: int) -> WasteItem:
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
        idle_since=to_optional_timestamp(wasted.idle_since),
        idle_seconds=None if wasted.idle_since is None else max(0, now - wasted.idle_since) // 1000,
        idle_gpu_hours=_to_gpu_hours(wasted.amount),
        cost=wasted.cost,
        stop_command=f"stoker stop {consumer.slug}",
    )


def _to_gpu_hours(amount: int) -> float:
    return round(amount / GPU_HOUR, GPU_HOUR_DECIMALS)
