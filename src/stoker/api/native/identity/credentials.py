"""Endpoints for API keys and applications."""

from typing import Annotated

from msgspec import Meta

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params, parse_optional_instant
from stoker.api.native.mapping import application_view, key_view, to_page_view
from stoker.api.native.params import Id, SearchParams
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.services.identity.api_keys import CreateApiKeyInput
from stoker.services.identity.applications import CreateApplicationInput
from stoker.wire.credentials import (
    ApplicationView,
    CreateApplication,
    CreateKey,
    EditApplication,
    KeyView,
    NewApplicationView,
    NewKeyView,
)
from stoker.wire.pages import PageView


class KeyListParams(SearchParams, frozen=True, kw_only=True):
    user: Annotated[str, Meta(max_length=63, description="Whose keys; an admin without it sees everyone's.")] = ""


class KeyPath(Params, frozen=True, kw_only=True):
    id: Id


class ApplicationPath(Params, frozen=True, kw_only=True, rename="camel"):
    client_id: Id


@endpoint("GET", "/api/stoker/v1/keys", family=NATIVE, action=Action.KEY_LIST, params=KeyListParams)
async def list_keys(call: Call[KeyListParams]) -> PageView[KeyView]:
    """The caller's API keys; for an admin those of all users."""
    params = call.params
    return to_page_view(
        await call.services.api_keys.list_keys(call.actor, params.name, params.user, params.page_request),
        params.page_request,
        key_view,
    )


@endpoint(
    "POST",
    "/api/stoker/v1/keys",
    family=NATIVE,
    action=Action.KEY_CREATE,
    body=CreateKey,
    body_example={"name": "nightly", "scopes": ["workloads"], "cidrs": ["10.0.0.0/8"]},
    status=201,
    errors=(ErrorCode.NOT_FOUND,),
    idempotent=True,
    response_headers=("Cache-Control",),
)
async def create_key(call: Call[NoParams]) -> NewKeyView:
    """Create an API key."""
    body: CreateKey = call.body
    new = CreateApiKeyInput(
        name=body.name,
        user=body.user,
        scopes=body.scopes,
        cidrs=body.cidrs,
        expires_at=parse_optional_instant(body.expires_at, "expiresAt"),
    )
    issued = await call.services.api_keys.create(call.actor, new, call.idempotency_key)
    call.headers.append(("Cache-Control", "no-store"))
    return NewKeyView(key_view(issued.key), issued.secret)


@endpoint("DELETE", "/api/stoker/v1/keys/{id}", family=NATIVE, action=Action.KEY_DELETE, params=KeyPath, status=204)
async def delete_key(call: Call[KeyPath]) -> None:
    """Revoke an API key immediately."""
    await call.services.api_keys.delete(call.actor, call.params.id)


@endpoint("GET", "/api/stoker/v1/applications", family=NATIVE, action=Action.APPLICATION_LIST, params=SearchParams)
async def list_applications(call: Call[SearchParams]) -> PageView[ApplicationView]:
    """Applications, by name."""
    params = call.params
    found = await call.services.applications.list_applications(call.actor, params.name, params.page_request)
    return to_page_view(found, params.page_request, application_view)


@endpoint(
    "POST",
    "/api/stoker/v1/applications",
    family=NATIVE,
    action=Action.APPLICATION_CREATE,
    body=CreateApplication,
    body_example={"name": "ci", "workspaces": ["default"]},
    status=201,
    errors=(ErrorCode.ALREADY_EXISTS,),
    idempotent=True,
    response_headers=("Cache-Control",),
)
async def create_application(call: Call[NoParams]) -> NewApplicationView:
    """Add an application, which signs in with a client id and a secret."""
    body: CreateApplication = call.body
    new = CreateApplicationInput(
        name=body.name,
        description=body.description,
        admin=body.admin,
        workspaces=body.workspaces,
        workspace_role=body.workspace_role,
    )
    issued = await call.services.applications.create(call.actor, new, call.idempotency_key)
    call.headers.append(("Cache-Control", "no-store"))
    return NewApplicationView(application_view(issued.application), issued.application.client_id, issued.secret)


@endpoint(
    "PATCH",
    "/api/stoker/v1/applications/{clientId}",
    family=NATIVE,
    action=Action.APPLICATION_UPDATE,
    params=ApplicationPath,
    body=EditApplication,
)
async def edit_application(call: Call[ApplicationPath]) -> ApplicationView:
    """Disable or enable an application. Its tokens are affected immediately."""
    body: EditApplication = call.body
    return application_view(
        await call.services.applications.set_disabled(call.actor, call.params.client_id, body.disabled)
    )


@endpoint(
    "POST",
    "/api/stoker/v1/applications/{clientId}/secret",
    family=NATIVE,
    action=Action.APPLICATION_SECRET,
    params=ApplicationPath,
    status=201,
    idempotent=True,
    response_headers=("Cache-Control",),
)
async def renew_secret(call: Call[ApplicationPath]) -> NewApplicationView:
    """Issue a new secret for an application. The old one and all tokens become invalid."""
    issued = await call.services.applications.rotate_secret(call.actor, call.params.client_id, call.idempotency_key)
    call.headers.append(("Cache-Control", "no-store"))
    return NewApplicationView(application_view(issued.application), issued.application.client_id, issued.secret)


@endpoint(
    "DELETE",
    "/api/stoker/v1/applications/{clientId}",
    family=NATIVE,
    action=Action.APPLICATION_DELETE,
    params=ApplicationPath,
    status=204,
)
async def delete_application(call: Call[ApplicationPath]) -> None:
    """Remove an application."""
    await call.services.applications.delete(call.actor, call.params.client_id)
