"""Applications: programs that authenticate with a client id and secret. Each is a user of its own."""

from msgspec import Struct, structs

from stoker.domain.access.identity import Application, MemberRole, User, UserKind, UserRole
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import already_exists, bad_request, not_found
from stoker.domain.names import check_user_name, new_uuid4
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.services.context import Context, authorise, record_audit
from stoker.services.idempotency import IdempotencyKey, SaltedResult, derive_secret, idempotent, new_salt
from stoker.services.identity.secret_format import sha256_hex, to_base58
from stoker.store.db.base import Transaction, TransactionFn
from stoker.store.identity import applications, users, workspaces


class CreateApplicationInput(Struct, frozen=True, kw_only=True):
    """The application is either a member of these workspaces or an admin; one of the two is required."""

    name: str
    description: str = ""
    admin: bool = False
    workspaces: tuple[str, ...] = ()
    workspace_role: MemberRole = MemberRole.MEMBER


class IssuedApplication(Struct, frozen=True):
    """A new secret; it is shown only once."""

    application: Application
    secret: str


class ApplicationService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_applications(self, actor: Actor, text: str, window: PageRequest) -> PageResult[Application]:
        authorise(actor, Action.APPLICATION_LIST)
        return await self._context.store.read(lambda tx: applications.list_applications(tx, text, window))

    async def create(
        self, actor: Actor, new: CreateApplicationInput, once: IdempotencyKey | None = None
    ) -> IssuedApplication:
        authorise(actor, Action.APPLICATION_CREATE)
        check_user_name(new.name, "name")
        if new.admin == bool(new.workspaces):
            raise bad_request(
                "workspaces",
                "an admin is a member of none. Leave workspaces or admin out."
                if new.admin
                else "say of which workspaces it is a member, or say that it is an admin by admin: true.",
            )

        def change(transaction: Transaction) -> SaltedResult[Application]:
            if users.find(transaction, new.name):
                raise already_exists("user or application", new.name)
            now = self._context.clock.now()
            user = User(
                id=new_uuid4(self._context.randomness),
                name=new.name,
                kind=UserKind.APPLICATION,
                role=UserRole.ADMIN if new.admin else UserRole.USER,
                full_name="",
                email="",
                disabled=False,
                default_workspace_id=None,
                default_workspace=None,
                created_at=now,
                updated_at=now,
                version=1,
            )
            users.add(transaction, user)
            for name in new.workspaces:
                workspace = workspaces.find(transaction, name)
                if workspace is None:
                    raise bad_request("workspaces", f'there is no workspace "{name}".')
                workspaces.set_member(transaction, workspace.id, user.id, new.workspace_role, now)
            client_id, salt = new_uuid4(self._context.randomness), new_salt(self._context)
            added = Application(client_id, user.id, user.name, user.role, new.description, False, now, None)
            applications.add(transaction, added, sha256_hex(self._derive_secret(once, salt)))
            record_audit(
                self._context, transaction, actor, Action.APPLICATION_CREATE, new.name, f"client id {client_id}"
            )
            return SaltedResult(added, salt)

        return await self._issue(actor, once, change)

    async def set_disabled(self, actor: Actor, client_id: str, disabled: bool) -> Application:
        """Switch an application off, with every token it holds, or on again."""
        authorise(actor, Action.APPLICATION_UPDATE)

        def change(transaction: Transaction) -> Application:
            found = _get_application(transaction, client_id)
            if found.disabled and not disabled:
                authorise(actor, Action.APPLICATION_ENABLE)
            user = users.get(transaction, found.user_id)
            if user is not None:
                now = self._context.clock.now()
                users.update(transaction, structs.replace(user, disabled=disabled, updated_at=now))
            record_audit(
                self._context, transaction, actor, Action.APPLICATION_UPDATE, found.name, f"disabled={disabled}"
            )
            return _get_application(transaction, client_id)

        return await self._context.store.write(change)

    async def rotate_secret(
        self, actor: Actor, client_id: str, once: IdempotencyKey | None = None
    ) -> IssuedApplication:
        """A new secret; the old one and every token issued for it stop working."""
        authorise(actor, Action.APPLICATION_SECRET)

        def change(transaction: Transaction) -> SaltedResult[Application]:
            found, salt = _get_application(transaction, client_id), new_salt(self._context)
            applications.set_secret(transaction, client_id, sha256_hex(self._derive_secret(once, salt)))
            record_audit(self._context, transaction, actor, Action.APPLICATION_UPDATE, found.name, "new secret")
            return SaltedResult(found, salt)

        return await self._issue(actor, once, change)

    async def delete(self, actor: Actor, client_id: str) -> None:
        authorise(actor, Action.APPLICATION_DELETE)

        def change(transaction: Transaction) -> None:
            found = _get_application(transaction, client_id)
            users.delete(transaction, found.user_id)
            record_audit(self._context, transaction, actor, Action.APPLICATION_DELETE, found.name)

        await self._context.store.write(change)

    async def _issue(
        self, actor: Actor, once: IdempotencyKey | None, change: TransactionFn[SaltedResult[Application]]
    ) -> IssuedApplication:
        created = await self._context.store.write(
            idempotent(self._context, actor, once, SaltedResult[Application], change)
        )
        return IssuedApplication(created.result, self._derive_secret(once, created.salt))

    def _derive_secret(self, once: IdempotencyKey | None, salt: str) -> str:
        return to_base58(derive_secret(self._context, once, "application", salt))


def _get_application(transaction: Transaction, client_id: str) -> Application:
    found = applications.find(transaction, client_id)
    if found is None:
        raise not_found("application", client_id)
    return found[0]
