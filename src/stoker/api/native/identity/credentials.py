"""API keys and applications."""

from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import (
    ApplicationView,
    Id,
    KeyView,
    Name,
    Page,
    SearchParams,
    ShortText,
    Text,
    application_view,
    key_view,
    paged,
)
from stoker.api.params import NoParams, Params
from stoker.api.times import optional_instant
from stoker.domain.errors import ErrorCode
from stoker.domain.identity import MemberRole, Scope
from stoker.domain.permissions import Action
from stoker.services.applications import NewApplication
from stoker.services.keys import NewKey

Few = Meta(max_length=32)


class KeyList(SearchParams, frozen=True, kw_only=True):
    user: Annotated[str, Meta(max_length=63, description="Whose keys; an admin without it sees everyone's.")] = ""


class KeyPath(Params, frozen=True, kw_only=True):
    id: Id


class CreateKey(Body, frozen=True, kw_only=True):
    """No scopes is no limit, no cidrs is everywhere, no expiresAt is for ever."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    user: Annotated[str, Meta(max_length=63, description="For whom; for oneself when left out.")] = ""
    scopes: Annotated[tuple[Scope, ...], Few] = ()
    cidrs: Annotated[tuple[ShortText, ...], Few] = ()
    expires_at: Annotated[str, Meta(max_length=40)] | None = None


class NewKeyView(Struct, frozen=True, rename="camel"):
    """`secret` is shown this once."""

    key: KeyView
    secret: str


class ApplicationPath(Params, frozen=True, kw_only=True, rename="camel"):
    client_id: Id


class CreateApplication(Body, frozen=True, kw_only=True):
    """With workspaces the application is a member of just those; without any it is an admin."""

    name: Name
    description: Text = ""
    workspaces: Annotated[tuple[Name, ...], Meta(max_length=1000)] = ()
    workspace_role: MemberRole = MemberRole.MEMBER


class EditApplication(Body, frozen=True, kw_only=True):
    disabled: bool


class NewApplicationView(Struct, frozen=True, rename="camel"):
    """`clientSecret` is shown this once."""

    application: ApplicationView
    client_id: str
    client_secret: str


@endpoint("GET", "/api/stoker/v1/keys", family=NATIVE, action=Action.KEY_LIST, params=KeyList)
async def list_keys(call: Call[KeyList]) -> Page[KeyView]:
    """One's own API keys; for an admin everyone's."""
    asked = call.params
    return paged(
        await call.services.keys.browse(call.actor, asked.name, asked.user, asked.window), asked.window, key_view
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
    creates=True,
)
async def create_key(call: Call[NoParams]) -> NewKeyView:
    """Make an API key."""
    body: CreateKey = call.body
    new = NewKey(
        name=body.name,
        user=body.user,
        scopes=body.scopes,
        cidrs=body.cidrs,
        expires_at=optional_instant(body.expires_at, "expiresAt"),
    )
    issued = await call.services.keys.create(call.actor, new, call.once)
    call.headers.append(("Cache-Control", "no-store"))
    return NewKeyView(key_view(issued.key), issued.secret)


@endpoint("DELETE", "/api/stoker/v1/keys/{id}", family=NATIVE, action=Action.KEY_DELETE, params=KeyPath, status=204)
async def delete_key(call: Call[KeyPath]) -> None:
    """Revoke an API key, at once."""
    await call.services.keys.delete(call.actor, call.params.id)


@endpoint("GET", "/api/stoker/v1/applications", family=NATIVE, action=Action.APPLICATION_LIST, params=SearchParams)
async def list_applications(call: Call[SearchParams]) -> Page[ApplicationView]:
    """Applications, by name."""
    asked = call.params
    found = await call.services.applications.browse(call.actor, asked.name, asked.window)
    return paged(found, asked.window, application_view)


@endpoint(
    "POST",
    "/api/stoker/v1/applications",
    family=NATIVE,
    action=Action.APPLICATION_CREATE,
    body=CreateApplication,
    body_example={"name": "ci", "workspaces": ["default"]},
    status=201,
    errors=(ErrorCode.EXISTS,),
    creates=True,
)
async def create_application(call: Call[NoParams]) -> NewApplicationView:
    """Add an application that signs in by client id and secret."""
    body: CreateApplication = call.body
    new = NewApplication(
        name=body.name,
        description=body.description,
        workspaces=body.workspaces,
        workspace_role=body.workspace_role,
    )
    issued = await call.services.applications.create(call.actor, new, call.once)
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
    """Switch an application off or on; its tokens follow at once."""
    body: EditApplication = call.body
    return application_view(
        await call.services.applications.set_disabled(call.actor, call.params.client_id, body.disabled)
    )


@endpoint(
    "POST",
    "/api/stoker/v1/applications/{clientId}/secret",
    family=NATIVE,
    action=Action.APPLICATION_UPDATE,
    params=ApplicationPath,
    status=201,
    creates=True,
)
async def renew_secret(call: Call[ApplicationPath]) -> NewApplicationView:
    """Give an application a new secret; the old one and its tokens stop working."""
    issued = await call.services.applications.renew_secret(call.actor, call.params.client_id, call.once)
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
