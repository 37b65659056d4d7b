"""Reports of usage: what GPUs were used for over a range of hours, and what that cost.

Amounts are GPU-hours from the ledger of closed hours. `allocated` is the sum of busy, idle, starting, unmeasured and
lost; where a row counts whole GPUs, free and faulty (lost is in it) make it up to the capacity.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stoker.api.csv_text import CSV
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.fleet import ClusterName
from stoker.api.native.shapes import PageParams, Time, moment, paged
from stoker.api.sheets import PARQUET, Format, sheet, wanted
from stoker.api.streams import Stream
from stoker.api.times import optional_instant
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import Action
from stoker.domain.report import Amounts, Cost, UsageBy, UsageSort
from stoker.domain.settings import Settings
from stoker.domain.usage import GPU_HOUR
from stoker.services.reports import Asked, Scope, UsageReport, UsageRow

DIGITS = 10
"""A milli-GPU-millisecond is 2.8e-10 GPU-hours: so many digits tell them apart."""
HELD = ("allocated", "busy", "idle", "starting", "unmeasured", "lost")
REST = ("free", "faulty", "capacity")
Since = Annotated[str, Meta(max_length=40, description="RFC 3339; 7 days before the end when left out.")]
Until = Annotated[str, Meta(max_length=40, description="RFC 3339, not included; now when left out.")]
Prices = Annotated[dict[str, float], Meta(description="Of an hour of a GPU, by model; `*` is of all others.")]
Hours = Annotated[float, Meta(description="GPU-hours.")]
LostHours = Annotated[float, Meta(description="GPU-hours that were held while the GPU was faulty.")]
Money = Annotated[float, Meta(description="By the prices of the settings; null where a model has none.")]
By = Annotated[UsageBy, Meta(description="What a row is; a workspace when left out, or a value of `label`.")]


class UsageParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    by: By | None = None
    label: Annotated[str, Meta(max_length=320, description="The key of a label: a row for each of its values.")] = ""
    since: Since | None = None
    until: Until | None = None
    cluster: ClusterName = ""
    workspace: Annotated[str, Meta(max_length=63, description="Only of this workspace.")] = ""
    sort: UsageSort = UsageSort.ALLOCATED
    order: Literal["asc", "desc"] = "desc"
    format: Annotated[Format, Meta(description="`csv` and `parquet` have every row, not a page.")] | None = None


class UsageHours(Struct, frozen=True, kw_only=True, rename="camel"):
    """`free`, `faulty` and `capacity` are null where a row counts only what was held."""

    allocated_gpu_hours: Hours
    busy_gpu_hours: Hours
    idle_gpu_hours: Hours
    starting_gpu_hours: Hours
    unmeasured_gpu_hours: Hours
    lost_gpu_hours: LostHours
    free_gpu_hours: Hours | None
    faulty_gpu_hours: Hours | None
    capacity_gpu_hours: Hours | None
    cost: Money | None
    idle_cost: Money | None


class UsageItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """`key` never changes: an id, or the name where a thing has no other. Workspace, user and cluster are of rows that
    are workloads; the rest is as in the totals."""

    key: str
    name: str
    workspace: str | None = None
    user: str | None = None
    cluster: str | None = None
    allocated_gpu_hours: Hours
    busy_gpu_hours: Hours
    idle_gpu_hours: Hours
    starting_gpu_hours: Hours
    unmeasured_gpu_hours: Hours
    lost_gpu_hours: LostHours
    free_gpu_hours: Hours | None
    faulty_gpu_hours: Hours | None
    capacity_gpu_hours: Hours | None
    cost: Money | None
    idle_cost: Money | None


class ClusterReach(Struct, frozen=True):
    name: str
    simulated: bool
    through: Annotated[str, Meta(description="The end of its last closed hour; null when it has none.")] | None


class UsageView(Struct, frozen=True, rename="camel"):
    """Whole hours from `since` up to `until`. All that is in it lies before `through`, where the last closed hour ends,
    unless one of the clusters is further than another."""

    by: UsageBy
    label: str
    since: Time
    until: Time
    through: Time
    clusters: list[ClusterReach]
    currency: str
    prices: Prices
    unpriced_models: list[str]
    totals: UsageHours
    items: list[UsageItem]
    total: int
    next: int | None


@endpoint(
    "GET",
    "/api/stoker/v1/usage",
    family=NATIVE,
    action=Action.USAGE_READ,
    params=UsageParams,
    result=UsageView,
    also=(CSV, PARQUET),
    errors=(ErrorCode.NOT_FOUND,),
)
async def report_usage(call: Call[UsageParams]) -> UsageView | Stream:
    """What GPUs were used for, added up over hours: most first, with the totals of everything that is asked for.

    Admins see everything, others what their workspaces held.
    """
    params = call.params
    asked = Asked(
        by=params.by,
        label=params.label,
        since=optional_instant(params.since, "since"),
        until=optional_instant(params.until, "until"),
        cluster=params.cluster,
        workspace=params.workspace,
        sort=params.sort,
        descending=params.order == "desc",
    )
    form = wanted(call.request, params.format)
    if form is Format.JSON:
        report = await call.services.reports.usage(call.actor, asked, params.window)
        return _view(report, params, call.services.settings)
    scope = await call.services.reports.scope(call.actor, asked)
    call.headers.append(("Content-Disposition", f'attachment; filename="usage.{form}"'))
    return await sheet(form, UsageItem, _items(call.services.reports.stream(scope), scope))


async def _items(parts: AsyncIterator[list[UsageRow]], scope: Scope) -> AsyncIterator[list[UsageItem]]:
    async for part in parts:
        yield await asyncio.to_thread(lambda rows=part: [_item(row, scope) for row in rows])


def _view(report: UsageReport, params: UsageParams, settings: Settings) -> UsageView:
    scope = report.scope
    page = paged(report.rows, params.window, lambda row: _item(row, scope))
    return UsageView(
        by=scope.query.by,
        label=scope.query.label,
        since=rfc3339(scope.query.from_at),
        until=rfc3339(scope.query.to_at),
        through=rfc3339(scope.through),
        clusters=[
            ClusterReach(each.cluster.name, each.cluster.simulated, moment(each.through)) for each in scope.reaches
        ],
        currency=settings.currency,
        prices=settings.gpu_prices,
        unpriced_models=report.unpriced,
        totals=UsageHours(**_hours(report.totals, report.cost, whole=scope.whole)),
        items=page.items,
        total=page.total,
        next=page.next,
    )


def _item(row: UsageRow, scope: Scope) -> UsageItem:
    whose = row.workload
    named: dict[str, Any] = (
        {"workspace": whose.workspace, "user": whose.user, "cluster": whose.cluster} if whose else {}
    )
    return UsageItem(key=row.key, name=row.name, **named, **_hours(row.amounts, row.cost, whole=scope.query.whole))


def _hours(amounts: Amounts, cost: Cost, *, whole: bool) -> dict[str, Any]:
    held = {name: getattr(amounts, name) for name in HELD}
    rest = {name: getattr(amounts, name) if whole else None for name in REST}
    return {
        **{f"{name}_gpu_hours": _gpu_hours(amount) for name, amount in {**held, **rest}.items()},
        "cost": cost.allocated,
        "idle_cost": cost.idle,
    }


def _gpu_hours(amount: int | None) -> float | None:
    return None if amount is None else round(amount / GPU_HOUR, DIGITS)
