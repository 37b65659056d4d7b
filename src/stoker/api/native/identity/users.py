"""Users."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Name, Page, SearchParams, ShortText, UserView, paged, user_view
from stoker.api.params import NoParams, Params
from stoker.domain.errors import ErrorCode
from stoker.domain.identity import UserKind, UserRole
from stoker.domain.listing import UserQuery
from stoker.domain.permissions import Action
from stoker.services.users import NewUser, UserEdit

Password = Annotated[str, Meta(max_length=256, description="10 to 256 characters.")]


class UserList(SearchParams, frozen=True, kw_only=True):
    """`name` also looks at the full name and the e-mail address."""

    role: UserRole | None = None
    kind: UserKind | None = None
    disabled: bool | None = None


class UserPath(Params, frozen=True, kw_only=True):
    name: Name


class CreateUser(Body, frozen=True, kw_only=True):
    """Without a password the user signs in by API key only."""

    name: Name
    password: Password = ""
    role: UserRole = UserRole.USER
    full_name: ShortText = ""
    email: ShortText = ""
    default_workspace: ShortText = ""


class EditUser(Body, frozen=True, kw_only=True):
    role: UserRole | UnsetType = UNSET
    full_name: ShortText | UnsetType = UNSET
    email: ShortText | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    default_workspace: ShortText | UnsetType = UNSET


class SetPassword(Body, frozen=True, kw_only=True):
    """`currentPassword` is needed by everyone but admins."""

    password: Password
    current_password: Annotated[str, Meta(max_length=256)] = ""


@endpoint("GET", "/api/stoker/v1/users", family=NATIVE, action=Action.USER_LIST, params=UserList)
async def list_users(call: Call[UserList]) -> Page[UserView]:
    """Users and applications, by name."""
    asked = call.params
    query = UserQuery(asked.name, asked.role, asked.kind, asked.disabled)
    return paged(await call.services.users.browse(call.actor, query, asked.window), asked.window, user_view)


@endpoint(
    "POST",
    "/api/stoker/v1/users",
    family=NATIVE,
    action=Action.USER_CREATE,
    body=CreateUser,
    body_example={"name": "li.wei", "password": "correct horse", "fullName": "Li Wei"},
    status=201,
    errors=(ErrorCode.EXISTS,),
    creates=True,
)
async def create_user(call: Call[NoParams]) -> UserView:
    """Add a user."""
    body: CreateUser = call.body
    new = NewUser(
        name=body.name,
        password=body.password,
        role=body.role,
        full_name=body.full_name,
        email=body.email,
        default_workspace=body.default_workspace,
    )
    return user_view(await call.services.users.create(call.actor, new, call.once))


@endpoint("GET", "/api/stoker/v1/users/{name}", family=NATIVE, action=Action.USER_READ, params=UserPath)
async def read_user(call: Call[UserPath]) -> UserView:
    """One user; who is not an admin can read only itself."""
    return user_view(await call.services.users.read(call.actor, call.params.name))


@endpoint(
    "PATCH",
    "/api/stoker/v1/users/{name}",
    family=NATIVE,
    action=Action.USER_UPDATE,
    params=UserPath,
    body=EditUser,
    body_example={"disabled": True},
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def edit_user(call: Call[UserPath]) -> UserView:
    """Change what is given. A disabled user is signed out everywhere at once."""
    body: EditUser = call.body
    edit = UserEdit(
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
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def delete_user(call: Call[UserPath]) -> None:
    """Remove a user with its keys, sessions and memberships. The audit log keeps its name."""
    await call.services.users.delete(call.actor, call.params.name)


@endpoint(
    "PUT",
    "/api/stoker/v1/users/{name}/password",
    family=NATIVE,
    action=Action.PASSWORD_SET,
    params=UserPath,
    body=SetPassword,
    status=204,
    errors=(ErrorCode.STATE_FORBIDS, ErrorCode.TOO_MANY_REQUESTS),
)
async def set_password(call: Call[UserPath]) -> None:
    """Set a password and end the user's other sessions."""
    body: SetPassword = call.body
    await call.services.users.set_password(call.actor, call.params.name, body.password, body.current_password)
