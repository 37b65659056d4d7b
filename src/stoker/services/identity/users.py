"""Users, their roles and passwords. The last admin cannot be deleted, disabled or demoted."""

from msgspec import UNSET, Struct, UnsetType, structs

from stoker.domain.access.identity import MemberRole, User, UserKind, UserRole, Workspace
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target
from stoker.domain.errors import ErrorCode, StokerError, already_exists, bad_request, not_found
from stoker.domain.names import check_user_name, new_uuid4
from stoker.domain.queries.pages import PageRequest, PageResult, UserQuery
from stoker.services.context import Context, authorise, record_audit
from stoker.services.idempotency import IdempotencyKey, idempotent
from stoker.services.identity.login_throttle import check_and_count_attempt
from stoker.services.identity.passwords import Passwords, check_password
from stoker.store.db.base import Transaction
from stoker.store.identity import login_attempts, sessions, users, workspaces


class CreateUserInput(Struct, frozen=True, kw_only=True):
    name: str
    password: str = ""
    role: UserRole = UserRole.USER
    full_name: str = ""
    email: str = ""
    default_workspace: str = ""


class UpdateUserInput(Struct, frozen=True, kw_only=True):
    """UNSET fields keep their value."""

    role: UserRole | UnsetType = UNSET
    full_name: str | UnsetType = UNSET
    email: str | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    default_workspace: str | UnsetType = UNSET


class UserProfile(Struct, frozen=True):
    """A user, and the workspaces it is a member of, with its role in each."""

    user: User
    workspaces: list[tuple[Workspace, MemberRole]]


class UserService:
    def __init__(self, context: Context, passwords: Passwords) -> None:
        self._context = context
        self._passwords = passwords

    async def list_users(self, actor: Actor, query: UserQuery, window: PageRequest) -> PageResult[User]:
        authorise(actor, Action.USER_LIST)
        return await self._context.store.read(lambda tx: users.list_users(tx, query, window))

    async def read(self, actor: Actor, name: str) -> User:
        return await self._context.store.read_inline(lambda tx: _get_visible_user(tx, actor, name))

    async def profile(self, actor: Actor) -> UserProfile:
        """The caller and its memberships; an admin sees every workspace but only memberships are listed."""
        authorise(actor, Action.PROFILE_READ)

        def query(transaction: Transaction) -> UserProfile:
            user = users.get(transaction, actor.user_id)
            if user is None:
                raise not_found("user", actor.name)
            memberships = [
                (workspace, actor.memberships[workspace_id])
                for workspace_id in sorted(actor.memberships)
                if (workspace := workspaces.get(transaction, workspace_id)) is not None
            ]
            return UserProfile(user, memberships)

        return await self._context.store.read_inline(query)

    async def create(self, actor: Actor, new: CreateUserInput, once: IdempotencyKey | None = None) -> User:
        authorise(actor, Action.USER_CREATE)
        if new.role is UserRole.ADMIN:
            authorise(actor, Action.USER_MAKE_ADMIN)
        if new.password:
            authorise(actor, Action.USER_SET_PASSWORD)
        check_user_name(new.name, "name")
        hashed = await self._passwords.hash(check_password(new.password)) if new.password else ""

        def change(transaction: Transaction) -> User:
            if users.find(transaction, new.name):
                raise already_exists("user", new.name)
            now = self._context.clock.now()
            user = User(
                id=new_uuid4(self._context.randomness),
                name=new.name,
                kind=UserKind.PERSON,
                role=new.role,
                full_name=new.full_name,
                email=new.email,
                disabled=False,
                default_workspace_id=_resolve_workspace_id(transaction, new.default_workspace),
                default_workspace=new.default_workspace or None,
                created_at=now,
                updated_at=now,
                version=1,
            )
            users.add(transaction, user)
            if hashed:
                users.set_password(transaction, user.id, hashed, now)
            record_audit(self._context, transaction, actor, Action.USER_CREATE, user.name, f"role {user.role}")
            return users.get(transaction, user.id) or user

        return await self._context.store.write(idempotent(self._context, actor, once, User, change))

    async def update(self, actor: Actor, name: str, edit: UpdateUserInput) -> User:
        """Change a user; disabling it ends all its sessions at once."""

        def change(transaction: Transaction) -> User:
            authorise(actor, Action.USER_UPDATE)
            if edit.role is UserRole.ADMIN:
                authorise(actor, Action.USER_MAKE_ADMIN)
            user = _get_user(transaction, name)
            if user.disabled and edit.disabled is False:
                authorise(actor, Action.USER_ENABLE)
            changes = {field: value for field, value in structs.asdict(edit).items() if value is not UNSET}
            if "default_workspace" in changes:
                changes["default_workspace_id"] = _resolve_workspace_id(transaction, changes.pop("default_workspace"))
            edited = structs.replace(user, **changes, updated_at=self._context.clock.now())
            if edited.role is not UserRole.ADMIN or edited.disabled:
                _check_not_last_admin(transaction, user)
            users.update(transaction, edited)
            if edited.disabled:
                sessions.delete_of_user(transaction, user.id)
            detail = ", ".join(f"{field}={value}" for field, value in sorted(changes.items()))
            record_audit(self._context, transaction, actor, Action.USER_UPDATE, name, detail)
            return _get_user(transaction, name)

        return await self._context.store.write(change)

    async def delete(self, actor: Actor, name: str) -> None:
        def change(transaction: Transaction) -> None:
            authorise(actor, Action.USER_DELETE)
            user = _get_user(transaction, name)
            _check_not_last_admin(transaction, user)
            users.delete(transaction, user.id)
            record_audit(self._context, transaction, actor, Action.USER_DELETE, name)

        await self._context.store.write(change)

    async def set_password(self, actor: Actor, name: str, password: str, current: str) -> None:
        """Set a password and end the user's other sessions; all but admins must give the current password."""
        user = await self.read(actor, name)
        authorise(actor, Action.USER_SET_PASSWORD, Target(owner_id=user.id))
        if user.kind is not UserKind.PERSON:
            raise StokerError(ErrorCode.CONFLICT, f'"{name}" is an application: it has a secret, not a password.')
        if not actor.admin:
            subjects = [f"password of {name}"]
            await self._context.store.write(lambda tx: check_and_count_attempt(self._context, tx, subjects))
            stored = await self._context.store.read_inline(lambda tx: users.find_password_hash(tx, name))
            if not await self._passwords.verify(current, stored[1] if stored else None):
                raise StokerError(ErrorCode.FORBIDDEN, "The current password is wrong.", field="current_password")
        hashed = await self._passwords.hash(check_password(password))

        def change(transaction: Transaction) -> None:
            now = self._context.clock.now()
            users.set_password(transaction, user.id, hashed, now)
            sessions.delete_of_user(transaction, user.id, keep_session_id=actor.session_id)
            login_attempts.clear(transaction, f"password of {name}")
            record_audit(self._context, transaction, actor, Action.USER_SET_PASSWORD, name)

        await self._context.store.write(change)


def _get_user(transaction: Transaction, name: str) -> User:
    user = users.find(transaction, name)
    if user is None:
        raise not_found("user", name)
    return user


def _get_visible_user(transaction: Transaction, actor: Actor, name: str) -> User:
    user = _get_user(transaction, name)
    if not actor.admin and user.id != actor.user_id:
        raise not_found("user", name)
    authorise(actor, Action.USER_READ, Target(owner_id=user.id))
    return user


def _resolve_workspace_id(transaction: Transaction, name: str) -> int | None:
    if not name:
        return None
    workspace = workspaces.find(transaction, name)
    if workspace is None:
        raise bad_request("default_workspace", f'there is no workspace "{name}".')
    return workspace.id


def _check_not_last_admin(transaction: Transaction, user: User) -> None:
    if user.role is UserRole.ADMIN and not users.count_other_admins(transaction, user.id):
        raise StokerError(ErrorCode.CONFLICT, f'"{user.name}" is the last admin. Make another user an admin first.')
