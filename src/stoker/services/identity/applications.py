"""Applications: programs that sign in by client id and secret, each a user of its own."""

from msgspec import Struct, structs

from stoker.domain.errors import bad_request, exists, not_found
from stoker.domain.identity import Application, MemberRole, User, UserKind, UserRole
from stoker.domain.listing import Listing, Window
from stoker.domain.names import check_user_name, new_uuid
from stoker.domain.permissions import Action, Actor
from stoker.services.context import Context, authorise, authorise_admin_making, record
from stoker.services.once import Once, Salted, new_salt, only_once, secret_bytes
from stoker.services.secrets import readable, sha256
from stoker.store import accounts, credentials, workspaces
from stoker.store.base import Change, Transaction


class NewApplication(Struct, frozen=True, kw_only=True):
    """With workspaces, the application is a member of just those; without any it is an admin."""

    name: str
    description: str = ""
    workspaces: tuple[str, ...] = ()
    workspace_role: MemberRole = MemberRole.MEMBER


class IssuedApplication(Struct, frozen=True):
    """The only time the secret is seen."""

    application: Application
    secret: str


class Applications:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, text: str, window: Window) -> Listing[Application]:
        authorise(actor, Action.APPLICATION_LIST)
        return await self._context.store.read(lambda tx: credentials.browse_applications(tx, text, window))

    async def create(self, actor: Actor, new: NewApplication, once: Once | None = None) -> IssuedApplication:
        authorise(actor, Action.APPLICATION_CREATE)
        if not new.workspaces:
            authorise_admin_making(actor)
        check_user_name(new.name, "name")

        def change(transaction: Transaction) -> Salted[Application]:
            if accounts.find(transaction, new.name):
                raise exists("user or application", new.name)
            now = self._context.clock.now()
            user = User(
                id=new_uuid(self._context.randomness),
                name=new.name,
                kind=UserKind.APPLICATION,
                role=UserRole.USER if new.workspaces else UserRole.ADMIN,
                full_name="",
                email="",
                disabled=False,
                default_workspace_id=None,
                default_workspace=None,
                created_at=now,
                updated_at=now,
                version=1,
            )
            accounts.add(transaction, user)
            for name in new.workspaces:
                workspace = workspaces.find(transaction, name)
                if workspace is None:
                    raise bad_request("workspaces", f'there is no workspace "{name}".')
                workspaces.set_member(transaction, workspace.id, user.id, new.workspace_role, now)
            client_id, salt = new_uuid(self._context.randomness), new_salt(self._context)
            added = Application(client_id, user.id, user.name, user.role, new.description, False, now, None)
            credentials.add_application(transaction, added, sha256(self._secret(once, salt)))
            record(self._context, transaction, actor, Action.APPLICATION_CREATE, new.name, f"client id {client_id}")
            return Salted(added, salt)

        return await self._issue(actor, once, change)

    async def set_disabled(self, actor: Actor, client_id: str, disabled: bool) -> Application:
        """Switch an application off, with every token it holds, or on again."""
        authorise(actor, Action.APPLICATION_UPDATE)

        def change(transaction: Transaction) -> Application:
            found = _found(transaction, client_id)
            user = accounts.get(transaction, found.user_id)
            if user is not None:
                now = self._context.clock.now()
                accounts.replace(transaction, structs.replace(user, disabled=disabled, updated_at=now))
            record(self._context, transaction, actor, Action.APPLICATION_UPDATE, found.name, f"disabled={disabled}")
            return _found(transaction, client_id)

        return await self._context.store.write(change)

    async def renew_secret(self, actor: Actor, client_id: str, once: Once | None = None) -> IssuedApplication:
        """A new secret; the old one and every token issued for it stop working."""
        authorise(actor, Action.APPLICATION_UPDATE)

        def change(transaction: Transaction) -> Salted[Application]:
            found, salt = _found(transaction, client_id), new_salt(self._context)
            if found.role is UserRole.ADMIN:
                authorise_admin_making(actor)
            credentials.set_application_secret(transaction, client_id, sha256(self._secret(once, salt)))
            record(self._context, transaction, actor, Action.APPLICATION_UPDATE, found.name, "new secret")
            return Salted(found, salt)

        return await self._issue(actor, once, change)

    async def delete(self, actor: Actor, client_id: str) -> None:
        authorise(actor, Action.APPLICATION_DELETE)

        def change(transaction: Transaction) -> None:
            found = _found(transaction, client_id)
            accounts.delete(transaction, found.user_id)
            record(self._context, transaction, actor, Action.APPLICATION_DELETE, found.name)

        await self._context.store.write(change)

    async def _issue(self, actor: Actor, once: Once | None, change: Change[Salted[Application]]) -> IssuedApplication:
        kept = await self._context.store.write(only_once(self._context, actor, once, Salted[Application], change))
        return IssuedApplication(kept.made, self._secret(once, kept.salt))

    def _secret(self, once: Once | None, salt: str) -> str:
        return readable(secret_bytes(self._context, once, "application", salt))


def _found(transaction: Transaction, client_id: str) -> Application:
    found = credentials.application(transaction, client_id)
    if found is None:
        raise not_found("application", client_id)
    return found[0]
