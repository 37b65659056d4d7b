"""The installation itself: clusters, the audit log, the settings in force."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from stoker import __version__
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import (
    AuditView,
    ClusterView,
    Id,
    Limit,
    Page,
    SearchParams,
    ShortText,
    audit_view,
    cluster_view,
    paged,
)
from stoker.api.params import NoParams, Params
from stoker.api.times import optional_instant
from stoker.domain.listing import AuditQuery
from stoker.domain.permissions import Action
from stoker.domain.resolving import describe
from stoker.domain.settings import public
from stoker.services.context import authorise

Instant = Annotated[str, Meta(max_length=40, description="RFC 3339, inclusive.")]


class ClusterPath(Params, frozen=True, kw_only=True):
    name: Annotated[Id, Meta(description="Name or uuid.")]


class AuditList(Params, frozen=True, kw_only=True, rename="camel"):
    actor: ShortText = ""
    action: Action | None = None
    target: ShortText = ""
    result: Annotated[str, Meta(max_length=200, description="`ok`, or the error code.")] = ""
    since: Instant | None = None
    until: Instant | None = None
    before: Annotated[str, Meta(max_length=64, description="`next` of the page before.")] = ""
    limit: Limit = 100


class AuditPage(Struct, frozen=True):
    """Newest first; `next` goes into `before` for the following page, null on the last."""

    items: list[AuditView]
    next: str | None


class SettingView(Struct, frozen=True):
    name: str
    value: Any
    description: str


class SettingsView(Struct, frozen=True):
    version: str
    settings: list[SettingView]


@endpoint("GET", "/api/stoker/v1/clusters", family=NATIVE, action=Action.CLUSTER_READ, params=SearchParams)
async def list_clusters(call: Call[SearchParams]) -> Page[ClusterView]:
    """Clusters, by name."""
    asked = call.params
    found = await call.services.clusters.browse(call.actor, asked.name, asked.window)
    return paged(found, asked.window, cluster_view)


@endpoint("GET", "/api/stoker/v1/clusters/{name}", family=NATIVE, action=Action.CLUSTER_READ, params=ClusterPath)
async def read_cluster(call: Call[ClusterPath]) -> ClusterView:
    """One cluster."""
    return cluster_view(await call.services.clusters.read(call.actor, call.params.name))


@endpoint("GET", "/api/stoker/v1/audit", family=NATIVE, action=Action.AUDIT_READ, params=AuditList)
async def list_audit(call: Call[AuditList]) -> AuditPage:
    """Who did what, from where, and how it ended."""
    asked = call.params
    query = AuditQuery(
        actor=asked.actor,
        action=asked.action or "",
        target=asked.target,
        result=asked.result,
        since=optional_instant(asked.since, "since"),
        until=optional_instant(asked.until, "until"),
        before=asked.before,
        limit=asked.limit + 1,
    )
    records = await call.services.trail.browse(call.actor, query)
    shown = records[: asked.limit]
    return AuditPage([audit_view(record) for record in shown], shown[-1].id if len(records) > len(shown) else None)


@endpoint("GET", "/api/stoker/v1/settings", family=NATIVE, action=Action.SETTINGS_READ)
async def read_settings(call: Call[NoParams]) -> SettingsView:
    """The settings in force; passwords are hidden."""
    authorise(call.actor, Action.SETTINGS_READ)
    values = public(call.services.settings)
    return SettingsView(__version__, [SettingView(doc.name, values[doc.name], doc.description) for doc in describe()])
