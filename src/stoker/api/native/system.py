"""Endpoints for the audit log and the settings in force."""

from typing import Annotated

from msgspec import Meta

from stoker import __version__
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params, parse_optional_instant
from stoker.api.native.mapping import audit_view
from stoker.api.native.params import Limit
from stoker.domain.access.permission_rules import Action
from stoker.domain.queries.pages import AuditQuery
from stoker.domain.settings.description import describe_settings
from stoker.domain.settings.schema import redacted_settings
from stoker.services.context import authorise
from stoker.wire.base import ShortText
from stoker.wire.system import AuditPage, SettingsView, SettingView

Instant = Annotated[str, Meta(max_length=40, description="RFC 3339, inclusive.")]


class AuditListParams(Params, frozen=True, kw_only=True, rename="camel"):
    actor: ShortText = ""
    action: Action | None = None
    target: ShortText = ""
    result: Annotated[str, Meta(max_length=200, description="`ok`, or the error code.")] = ""
    since: Instant | None = None
    until: Instant | None = None
    before: Annotated[str, Meta(max_length=64, description="`next` of the page before.")] = ""
    limit: Limit = 100


@endpoint("GET", "/api/stoker/v1/audit", family=NATIVE, action=Action.AUDIT_READ, params=AuditListParams)
async def list_audit(call: Call[AuditListParams]) -> AuditPage:
    """Audit records: who did what, from where, with what result."""
    params = call.params
    query = AuditQuery(
        actor=params.actor,
        action=params.action or "",
        target=params.target,
        result=params.result,
        since=parse_optional_instant(params.since, "since"),
        until=parse_optional_instant(params.until, "until"),
        before=params.before,
        limit=params.limit + 1,
    )
    records = await call.services.audit_log.list_records(call.actor, query)
    page = records[: params.limit]
    return AuditPage(tuple(audit_view(record) for record in page), page[-1].id if len(records) > len(page) else None)


@endpoint("GET", "/api/stoker/v1/settings", family=NATIVE, action=Action.SETTINGS_READ)
async def read_settings(call: Call[NoParams]) -> SettingsView:
    """The settings in force, without passwords."""
    authorise(call.actor, Action.SETTINGS_READ)
    values = redacted_settings(call.services.settings)
    return SettingsView(
        __version__, tuple(SettingView(doc.name, values[doc.name], doc.description) for doc in describe_settings())
    )
