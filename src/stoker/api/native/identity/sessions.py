"""Log-in, log-out, who am I, and may I."""

from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.bodies import Body
from stoker.api.callers import COOKIE
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Name, ShortText, Time, UserView, user_view
from stoker.api.params import NoParams, Params
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode
from stoker.domain.identity import MemberRole, Scope
from stoker.domain.permissions import Action, Target, may


class LogInBody(Body, frozen=True, kw_only=True):
    username: ShortText
    password: Annotated[str, Meta(max_length=256)]


class LoggedIn(Struct, frozen=True, rename="camel"):
    """The session cookie is set as well; a browser sends csrfToken back in X-CSRF-Token with every write."""

    user: UserView
    access_token: str
    csrf_token: str
    expires_at: Time


class WorkspaceRole(Struct, frozen=True):
    workspace: str
    role: MemberRole


class Me(Struct, frozen=True, rename="camel"):
    """`csrfToken` is there for a browser session only; no scopes means no limit."""

    user: UserView
    workspaces: list[WorkspaceRole]
    credential: str
    scopes: list[Scope]
    csrf_token: str | None


class MayParams(Params, frozen=True, kw_only=True):
    action: Action
    workspace: Annotated[Name, Meta(description="The workspace it would be done in.")] | None = None


class Verdict(Struct, frozen=True):
    allowed: bool
    rule: str


@endpoint(
    "POST",
    "/api/stoker/v1/login",
    family=NATIVE,
    action=Action.LOG_IN,
    body=LogInBody,
    body_example={"username": "li.wei", "password": "correct horse"},
    errors=(ErrorCode.NOT_SIGNED_IN, ErrorCode.TOO_MANY_REQUESTS),
)
async def log_in(call: Call[NoParams]) -> LoggedIn:
    """Sign in with a password. Gives a bearer token and sets the session cookie."""
    body: LogInBody = call.body
    found = await call.services.authentication.log_in(body.username, body.password, call.origin)
    lifetime = call.services.settings.session_seconds
    secure = "; Secure" if call.origin.secure else ""
    cookie = f"{COOKIE}={found.cookie}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lifetime}{secure}"
    call.headers.append(("Set-Cookie", cookie))
    call.headers.append(("Cache-Control", "no-store"))
    expires_at = rfc3339(found.session.expires_at)
    return LoggedIn(user_view(found.user), found.access_token, found.session.csrf_token, expires_at)


@endpoint("POST", "/api/stoker/v1/logout", family=NATIVE, action=Action.LOG_OUT, status=204)
async def log_out(call: Call[NoParams]) -> None:
    """End the session of this cookie or token. An API key keeps working."""
    await call.services.authentication.log_out(call.actor)
    call.headers.append(("Set-Cookie", f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"))


@endpoint("GET", "/api/stoker/v1/me", family=NATIVE, action=Action.PROFILE_READ)
async def who_am_i(call: Call[NoParams]) -> Me:
    """The caller, its workspaces, and what its credential is limited to."""
    profile = await call.services.users.profile(call.actor)
    session = await call.services.authentication.session_of(call.actor)
    call.headers.append(("Cache-Control", "no-store"))
    return Me(
        user_view(profile.user),
        [WorkspaceRole(workspace.name, role) for workspace, role in profile.workspaces],
        call.actor.credential,
        sorted(call.actor.scopes),
        session.csrf_token if session else None,
    )


@endpoint("GET", "/api/stoker/v1/may", family=NATIVE, action=Action.PROFILE_READ, params=MayParams)
async def may_i(call: Call[MayParams]) -> Verdict:
    """Whether the caller may do something, and the rule that says so."""
    name = call.params.workspace
    workspace_id = (await call.services.workspaces.read(call.actor, name)).id if name else None
    verdict = may(call.actor, call.params.action, Target(workspace_id=workspace_id, owner_id=call.actor.user_id))
    return Verdict(verdict.allowed, verdict.rule)
