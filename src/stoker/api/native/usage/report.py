"""The endpoint for usage reports: GPU-hours and cost over a range of hours.

Amounts come from the ledger of closed hours; `open` is what was allocated since. `allocated` is the sum of busy, idle,
starting, unmeasured, lost and open. Where a row counts whole GPUs, the capacity is allocated plus free plus faulty,
where faulty includes lost.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from msgspec import Meta

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.exports import export_rows
from stoker.api.http.families import NATIVE
from stoker.api.http.negotiation import CSV_MEDIA_TYPE, PARQUET_MEDIA_TYPE, ExportFormat, negotiate_format
from stoker.api.http.params import parse_optional_instant
from stoker.api.http.streaming import Stream
from stoker.api.native.mapping import to_page_view
from stoker.api.native.params import ClusterName, PageParams
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.settings.schema import Settings
from stoker.domain.usage.ledger import GPU_HOUR
from stoker.domain.usage.report import UsageAmounts, UsageCost, UsageGroupBy, UsageSort
from stoker.services.usage.reports import ReportScope, UsageReportPage, UsageReportRequest, UsageReportRow
from stoker.wire.timestamps import to_optional_timestamp, to_timestamp
from stoker.wire.usage import ClusterReach, UsageHours, UsageItem, UsageView

GPU_HOUR_DECIMALS = 10
"""A milli-GPU-millisecond is 2.8e-10 GPU-hours, so ten decimals keep amounts distinct."""
ALLOCATION_FIELDS = ("allocated", "busy", "idle", "starting", "unmeasured", "lost", "open")
CAPACITY_FIELDS = ("free", "faulty", "capacity")
Since = Annotated[str, Meta(max_length=40, description="RFC 3339; 7 days before the end when left out.")]
Until = Annotated[str, Meta(max_length=40, description="RFC 3339, not included; now when left out.")]
UsageDimension = Annotated[
    UsageGroupBy, Meta(description="What a row is; a workspace when left out, or a value of `label`.")
]


class UsageParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    by: UsageDimension | None = None
    label: Annotated[str, Meta(max_length=320, description="The key of a label: a row for each of its values.")] = ""
    since: Since | None = None
    until: Until | None = None
    cluster: ClusterName = ""
    workspace: Annotated[str, Meta(max_length=63, description="Only of this workspace.")] = ""
    sort: UsageSort = UsageSort.ALLOCATED
    order: Literal["asc", "desc"] = "desc"
    format: Annotated[ExportFormat, Meta(description="`csv` and `parquet` have every row, not a page.")] | None = None


@endpoint(
    "GET",
    "/api/stoker/v1/usage",
    family=NATIVE,
    action=Action.USAGE_READ,
    params=UsageParams,
    result=UsageView,
    alt_media_types=(CSV_MEDIA_TYPE, PARQUET_MEDIA_TYPE),
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=("Cache-Control", "Content-Disposition"),
)
async def report_usage(call: Call[UsageParams]) -> UsageView | Stream:
    """GPU usage summed over hours, largest rows first, with the totals of all rows.

    Admins see all usage, others that of their workspaces.
    """
    params = call.params
    request = UsageReportRequest(
        by=params.by,
        label=params.label,
        since=parse_optional_instant(params.since, "since"),
        until=parse_optional_instant(params.until, "until"),
        cluster=params.cluster,
        workspace=params.workspace,
        sort=params.sort,
        descending=params.order == "desc",
    )
    form = negotiate_format(call.request, params.format)
    if form is ExportFormat.JSON:
        report = await call.services.usage_reports.read_report(call.actor, request, params.page_request)
        return _usage_view(report, params, call.services.settings)
    scope = await call.services.usage_reports.resolve_scope(call.actor, request)
    call.headers.append(("Content-Disposition", f'attachment; filename="usage.{form}"'))
    return await export_rows(form, UsageItem, _item_batches(call.services.usage_reports.stream_rows(scope), scope))


async def _item_batches(
    batches: AsyncIterator[list[UsageReportRow]], scope: ReportScope
) -> AsyncIterator[list[UsageItem]]:
    async for batch in batches:
        yield await asyncio.to_thread(lambda rows=batch: [_usage_item(row, scope) for row in rows])


def _usage_view(report: UsageReportPage, params: UsageParams, settings: Settings) -> UsageView:
    scope = report.scope
    page = to_page_view(report.rows, params.page_request, lambda row: _usage_item(row, scope))
    return UsageView(
        by=scope.query.group_by,
        label=scope.query.label,
        since=to_timestamp(scope.since),
        until=to_timestamp(scope.query.to_at),
        through=to_timestamp(scope.closed_until),
        kept_from=to_optional_timestamp(scope.retained_from if scope.retained_from > scope.since else None),
        open_until=to_optional_timestamp(scope.open_until),
        closing_hours=max((coverage.hours_to_close for coverage in scope.coverage), default=0),
        clusters=tuple(
            ClusterReach(
                each.cluster.name,
                each.cluster.is_simulated,
                to_optional_timestamp(each.closed_until),
                each.hours_to_close,
            )
            for each in scope.coverage
        ),
        currency=settings.currency,
        prices=settings.gpu_prices,
        unpriced_models=tuple(report.unpriced),
        totals=UsageHours(**_gpu_hour_fields(report.totals, report.cost, whole=scope.includes_unallocated)),
        items=page.items,
        total=page.total,
        next=page.next,
    )


def _usage_item(row: UsageReportRow, scope: ReportScope) -> UsageItem:
    workload = row.workload
    owner: dict[str, Any] = (
        {"workspace": workload.workspace, "user": workload.user, "cluster": workload.cluster} if workload else {}
    )
    return UsageItem(
        key=row.key,
        name=row.name,
        **owner,
        **_gpu_hour_fields(row.amounts, row.cost, whole=scope.query.includes_unallocated),
    )


def _gpu_hour_fields(amounts: UsageAmounts, cost: UsageCost, *, whole: bool) -> dict[str, Any]:
    allocated = {name: getattr(amounts, name) for name in ALLOCATION_FIELDS}
    capacity = {name: getattr(amounts, name) if whole else None for name in CAPACITY_FIELDS}
    return {
        **{f"{name}_gpu_hours": _to_gpu_hours(amount) for name, amount in {**allocated, **capacity}.items()},
        "cost": cost.allocated,
        "idle_cost": cost.idle,
    }


def _to_gpu_hours(amount: int | None) -> float | None:
    return None if amount is None else round(amount / GPU_HOUR, GPU_HOUR_DECIMALS)
