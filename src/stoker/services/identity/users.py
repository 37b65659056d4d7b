"""Users: who may sign in, and as what."""

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.errors import ErrorCode, StokerError, bad_request, exists, not_found
from stoker.domain.identity import MemberRole, User, UserKind, UserRole, Workspace
from stoker.domain.listing import Listing, UserQuery, Window
from stoker.domain.names import check_user_name, new_uuid
from stoker.domain.permissions import Action, Actor, Target
from stoker.services.attempts import count_attempt
from stoker.services.context import Context, authorise, authorise_admin_making, record
from stoker.services.once import Once, only_once
from stoker.services.passwords import Passwords, check_password
from stoker.store import accounts, credentials, workspaces
from stoker.store.base import Transaction


class NewUser(Struct, frozen=True, kw_only=True):
    name: str
    password: str = ""
    role: UserRole = UserRole.USER
    full_name: str = ""
    email: str = ""
    default_workspace: str = ""


class UserEdit(Struct, frozen=True, kw_only=True):
    """What is UNSET stays as it is."""

    role: UserRole | UnsetType = UNSET
    full_name: str | UnsetType = UNSET
    email: str | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    default_workspace: str | UnsetType = UNSET


class Profile(Struct, frozen=True):
    """A user, and the workspaces it can see with its role in each."""

    user: User
    workspaces: list[tuple[Workspace, MemberRole]]


class Users:
    def __init__(self, context: Context, passwords: Passwords) -> None:
        self._context = context
        self._passwords = passwords

    async def browse(self, actor: Actor, query: UserQuery, window: Window) -> Listing[User]:
        authorise(actor, Action.USER_LIST)
        return await self._context.store.read(lambda tx: accounts.browse(tx, query, window))

    async def read(self, actor: Actor, name: str) -> User:
        return await self._context.store.peek(lambda tx: _visible(tx, actor, name))

    async def profile(self, actor: Actor) -> Profile:
        """Who the caller is; an admin's own memberships only, though it sees every workspace."""
        authorise(actor, Action.PROFILE_READ)

        def query(transaction: Transaction) -> Profile:
            user = accounts.get(transaction, actor.user_id)
            if user is None:
                raise not_found("user", actor.name)
            held = [
                (workspace, actor.memberships[workspace_id])
                for workspace_id in sorted(actor.memberships)
                if (workspace := workspaces.get(transaction, workspace_id)) is not None
            ]
            return Profile(user, held)

        return await self._context.store.peek(query)

    async def create(self, actor: Actor, new: NewUser, once: Once | None = None) -> User:
        authorise(actor, Action.USER_CREATE)
        if new.role is UserRole.ADMIN:
            authorise_admin_making(actor)
        check_user_name(new.name, "name")
        hashed = await self._passwords.hash(check_password(new.password)) if new.password else ""

        def change(transaction: Transaction) -> User:
            if accounts.find(transaction, new.name):
                raise exists("user", new.name)
            now = self._context.clock.now()
            user = User(
                id=new_uuid(self._context.randomness),
                name=new.name,
                kind=UserKind.PERSON,
                role=new.role,
                full_name=new.full_name,
                email=new.email,
                disabled=False,
                default_workspace_id=_workspace_id(transaction, new.default_workspace),
                default_workspace=new.default_workspace or None,
                created_at=now,
                updated_at=now,
                version=1,
            )
            accounts.add(transaction, user)
            if hashed:
                accounts.set_password(transaction, user.id, hashed, now)
            record(self._context, transaction, actor, Action.USER_CREATE, user.name, f"role {user.role}")
            return accounts.get(transaction, user.id) or user

        return await self._context.store.write(only_once(self._context, actor, once, User, change))

    async def update(self, actor: Actor, name: str, edit: UserEdit) -> User:
        """Change a user. Whoever is disabled loses every session at once."""

        def change(transaction: Transaction) -> User:
            authorise(actor, Action.USER_UPDATE)
            if edit.role is UserRole.ADMIN:
                authorise_admin_making(actor)
            user = _found(transaction, name)
            changes = {field: value for field, value in structs.asdict(edit).items() if value is not UNSET}
            if "default_workspace" in changes:
                changes["default_workspace_id"] = _workspace_id(transaction, changes.pop("default_workspace"))
            edited = structs.replace(user, **changes, updated_at=self._context.clock.now())
            if edited.role is not UserRole.ADMIN or edited.disabled:
                _keep_an_admin(transaction, user)
            accounts.replace(transaction, edited)
            if edited.disabled:
                credentials.delete_sessions(transaction, user.id)
            detail = ", ".join(f"{field}={value}" for field, value in sorted(changes.items()))
            record(self._context, transaction, actor, Action.USER_UPDATE, name, detail)
            return _found(transaction, name)

        return await self._context.store.write(change)

    async def delete(self, actor: Actor, name: str) -> None:
        def change(transaction: Transaction) -> None:
            authorise(actor, Action.USER_DELETE)
            user = _found(transaction, name)
            _keep_an_admin(transaction, user)
            accounts.delete(transaction, user.id)
            record(self._context, transaction, actor, Action.USER_DELETE, name)

        await self._context.store.write(change)

    async def set_password(self, actor: Actor, name: str, password: str, current: str) -> None:
        """One's own password asks for the present one; an admin may set any. Other sessions end."""
        user = await self.read(actor, name)
        authorise(actor, Action.PASSWORD_SET, Target(owner_id=user.id))
        if user.kind is not UserKind.PERSON:
            raise StokerError(ErrorCode.STATE_FORBIDS, f'"{name}" is an application: it has a secret, not a password.')
        if not actor.admin:
            guess = [f"password of {name}"]
            await self._context.store.write(lambda tx: count_attempt(self._context, tx, guess))
            found = await self._context.store.peek(lambda tx: accounts.password(tx, name))
            if not await self._passwords.verify(current, found[1] if found else None):
                raise StokerError(ErrorCode.NOT_ALLOWED, "The present password is wrong.", field="currentPassword")
        hashed = await self._passwords.hash(check_password(password))

        def change(transaction: Transaction) -> None:
            now = self._context.clock.now()
            accounts.set_password(transaction, user.id, hashed, now)
            credentials.delete_sessions(transaction, user.id, but=actor.session_id)
            credentials.clear_attempts(transaction, f"password of {name}")
            record(self._context, transaction, actor, Action.PASSWORD_SET, name)

        await self._context.store.write(change)


def _found(transaction: Transaction, name: str) -> User:
    user = accounts.find(transaction, name)
    if user is None:
        raise not_found("user", name)
    return user


def _visible(transaction: Transaction, actor: Actor, name: str) -> User:
    user = _found(transaction, name)
    if not actor.admin and user.id != actor.user_id:
        raise not_found("user", name)
    authorise(actor, Action.USER_READ, Target(owner_id=user.id))
    return user


def _workspace_id(transaction: Transaction, name: str) -> int | None:
    if not name:
        return None
    workspace = workspaces.find(transaction, name)
    if workspace is None:
        raise bad_request("defaultWorkspace", f'there is no workspace "{name}".')
    return workspace.id


def _keep_an_admin(transaction: Transaction, user: User) -> None:
    if user.role is UserRole.ADMIN and not accounts.other_admins(transaction, user.id):
        raise StokerError(
            ErrorCode.STATE_FORBIDS, f'"{user.name}" is the last admin. Make another user an admin first.'
        )
