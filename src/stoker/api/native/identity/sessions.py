"""Endpoints for log-in, log-out, the caller's profile and permission checks."""

from typing import Annotated

from msgspec import Meta

from stoker.api.http.auth import SESSION_COOKIE
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.native.mapping import user_view
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Target, check_access
from stoker.domain.errors import ErrorCode
from stoker.wire.base import Name
from stoker.wire.identity import LoggedIn, LogInBody, Me, PermissionView, WorkspaceRole
from stoker.wire.timestamps import to_timestamp


class LogInParams(Params, frozen=True, kw_only=True):
    token: Annotated[
        bool, Meta(description="Give a bearer token, for a program, instead of the cookie, for a browser.")
    ] = False


class PermissionCheckParams(Params, frozen=True, kw_only=True):
    action: Action
    workspace: Annotated[Name, Meta(description="The workspace it would be done in.")] | None = None


@endpoint(
    "POST",
    "/api/stoker/v1/login",
    family=NATIVE,
    action=Action.LOG_IN,
    params=LogInParams,
    body=LogInBody,
    body_example={"username": "li.wei", "password": "correct horse"},
    errors=(ErrorCode.UNAUTHENTICATED, ErrorCode.TOO_MANY_REQUESTS),
    json_only=True,
    response_headers=("Set-Cookie", "Cache-Control"),
)
async def log_in(call: Call[LogInParams]) -> LoggedIn:
    """Sign in with a password. Sets the session cookie, or returns a bearer token if `token` is set."""
    body: LogInBody = call.body
    login = await call.services.login.log_in(body.username, body.password, call.origin)
    call.headers.append(("Cache-Control", "no-store"))
    user, expires_at = user_view(login.user), to_timestamp(login.session.expires_at)
    if call.params.token:
        return LoggedIn(user, login.access_token, None, expires_at)
    lifetime = call.services.settings.session_seconds
    secure = "; Secure" if call.origin.secure else ""
    cookie = f"{SESSION_COOKIE}={login.cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lifetime}{secure}"
    call.headers.append(("Set-Cookie", cookie))
    return LoggedIn(user, None, login.session.csrf_token, expires_at)


@endpoint(
    "POST",
    "/api/stoker/v1/logout",
    family=NATIVE,
    action=Action.LOG_OUT,
    status=204,
    response_headers=("Set-Cookie",),
)
async def log_out(call: Call[NoParams]) -> None:
    """End the session of this cookie or token. An API key stays valid."""
    await call.services.login.log_out(call.actor)
    call.headers.append(("Set-Cookie", f"{SESSION_COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"))


@endpoint(
    "GET",
    "/api/stoker/v1/me",
    family=NATIVE,
    action=Action.PROFILE_READ,
    response_headers=("Cache-Control",),
)
async def who_am_i(call: Call[NoParams]) -> Me:
    """The caller, its workspaces and the scopes of its credential."""
    profile = await call.services.users.profile(call.actor)
    session = await call.services.authentication.session_of(call.actor)
    call.headers.append(("Cache-Control", "no-store"))
    return Me(
        user_view(profile.user),
        tuple(WorkspaceRole(workspace.name, role) for workspace, role in profile.workspaces),
        call.actor.credential,
        tuple(sorted(call.actor.scopes)),
        session.csrf_token if session else None,
    )


@endpoint("GET", "/api/stoker/v1/may", family=NATIVE, action=Action.PROFILE_READ, params=PermissionCheckParams)
async def may_i(call: Call[PermissionCheckParams]) -> PermissionView:
    """Whether the caller is allowed to perform an action, and the rule that decides it."""
    name = call.params.workspace
    workspace_id = (await call.services.workspaces.read(call.actor, name)).id if name else None
    verdict = check_access(
        call.actor, call.params.action, Target(workspace_id=workspace_id, owner_id=call.actor.user_id)
    )
    return PermissionView(verdict.allowed, verdict.reason)
