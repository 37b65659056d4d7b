"""Endpoints for users."""

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.native.mapping import to_page_view, user_view
from stoker.api.native.params import SearchParams
from stoker.domain.access.identity import UserKind, UserRole
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.queries.pages import UserQuery
from stoker.services.identity.users import CreateUserInput, UpdateUserInput
from stoker.wire.base import Name
from stoker.wire.identity import CreateUser, EditUser, SetPassword, UserView
from stoker.wire.pages import PageView


class UserListParams(SearchParams, frozen=True, kw_only=True):
    """`name` also matches the full name and the e-mail address."""

    role: UserRole | None = None
    kind: UserKind | None = None
    disabled: bool | None = None


class UserPath(Params, frozen=True, kw_only=True):
    name: Name


@endpoint("GET", "/api/stoker/v1/users", family=NATIVE, action=Action.USER_LIST, params=UserListParams)
async def list_users(call: Call[UserListParams]) -> PageView[UserView]:
    """Users and applications, by name."""
    params = call.params
    query = UserQuery(params.name, params.role, params.kind, params.disabled)
    return to_page_view(
        await call.services.users.list_users(call.actor, query, params.page_request), params.page_request, user_view
    )


@endpoint(
    "POST",
    "/api/stoker/v1/users",
    family=NATIVE,
    action=Action.USER_CREATE,
    body=CreateUser,
    body_example={"name": "li.wei", "password": "correct horse", "fullName": "Li Wei"},
    status=201,
    errors=(ErrorCode.ALREADY_EXISTS,),
    idempotent=True,
)
async def create_user(call: Call[NoParams]) -> UserView:
    """Add a user."""
    body: CreateUser = call.body
    new = CreateUserInput(
        name=body.name,
        password=body.password,
        role=body.role,
        full_name=body.full_name,
        email=body.email,
        default_workspace=body.default_workspace,
    )
    return user_view(await call.services.users.create(call.actor, new, call.idempotency_key))


@endpoint("GET", "/api/stoker/v1/users/{name}", family=NATIVE, action=Action.USER_READ, params=UserPath)
async def read_user(call: Call[UserPath]) -> UserView:
    """One user. Callers that are not admins can read only themselves."""
    return user_view(await call.services.users.read(call.actor, call.params.name))


@endpoint(
    "PATCH",
    "/api/stoker/v1/users/{name}",
    family=NATIVE,
    action=Action.USER_UPDATE,
    params=UserPath,
    body=EditUser,
    body_example={"disabled": True},
    errors=(ErrorCode.CONFLICT,),
)
async def edit_user(call: Call[UserPath]) -> UserView:
    """Change the given fields. Disabling a user ends all its sessions immediately."""
    body: EditUser = call.body
    edit = UpdateUserInput(
        role=body.role,
        full_name=body.full_name,
        email=body.email,
        disabled=body.disabled,
        default_workspace=body.default_workspace,
    )
    return user_view(await call.services.users.update(call.actor, call.params.name, edit))


@endpoint(
    "DELETE",
    "/api/stoker/v1/users/{name}",
    family=NATIVE,
    action=Action.USER_DELETE,
    params=UserPath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def delete_user(call: Call[UserPath]) -> None:
    """Remove a user with its keys, sessions and memberships. The audit log keeps its name."""
    await call.services.users.delete(call.actor, call.params.name)


@endpoint(
    "PUT",
    "/api/stoker/v1/users/{name}/password",
    family=NATIVE,
    action=Action.USER_SET_PASSWORD,
    params=UserPath,
    body=SetPassword,
    status=204,
    errors=(ErrorCode.CONFLICT, ErrorCode.TOO_MANY_REQUESTS),
)
async def set_password(call: Call[UserPath]) -> None:
    """Set a password and end the user's other sessions."""
    body: SetPassword = call.body
    await call.services.users.set_password(call.actor, call.params.name, body.password, body.current_password)
