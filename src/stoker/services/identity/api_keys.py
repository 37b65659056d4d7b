"""API keys, limited by expiry, scopes and networks. A key is shown once, and only its hash is stored."""

import ipaddress

from msgspec import Struct

from stoker.domain.access.identity import ApiKey, Scope, User
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target, inherit_key_limits
from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.names import new_uuid4
from stoker.domain.queries.pages import ApiKeyQuery, PageRequest, PageResult
from stoker.services.context import Context, authorise, record_audit
from stoker.services.idempotency import IdempotencyKey, SaltedResult, derive_secret, idempotent, new_salt
from stoker.services.identity.secret_format import format_api_key, key_hint, sha256_hex
from stoker.store.db.base import Transaction
from stoker.store.identity import api_keys, users


class CreateApiKeyInput(Struct, frozen=True, kw_only=True):
    """A key for the caller; an admin may create one for another user."""

    name: str
    user: str = ""
    scopes: tuple[Scope, ...] = ()
    cidrs: tuple[str, ...] = ()
    expires_at: int | None = None


class IssuedApiKey(Struct, frozen=True):
    """A new secret; it is shown only once."""

    key: ApiKey
    secret: str


class ApiKeyService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_keys(self, actor: Actor, text: str, user: str, window: PageRequest) -> PageResult[ApiKey]:
        """The caller's keys; an admin sees all keys, or those of one user."""

        def query(transaction: Transaction) -> PageResult[ApiKey]:
            all_users = actor.admin and not user
            owner_id = None if all_users else self._get_owner(transaction, actor, user).id
            authorise(actor, Action.KEY_LIST, Target(owner_id=owner_id))
            return api_keys.list_keys(transaction, ApiKeyQuery(text, owner_id), window)

        return await self._context.store.read(query)

    async def create(self, actor: Actor, new: CreateApiKeyInput, once: IdempotencyKey | None = None) -> IssuedApiKey:
        """Create a key; it inherits the network and expiry limits of the credential that creates it."""
        authorise(actor, Action.KEY_CREATE, Target(owner_id=actor.user_id))
        cidrs, expires_at = inherit_key_limits(actor, tuple(_parse_network(cidr) for cidr in new.cidrs), new.expires_at)

        def change(transaction: Transaction) -> SaltedResult[ApiKey]:
            now = self._context.clock.now()
            if new.expires_at is not None and new.expires_at <= now:
                raise bad_request("expires_at", "this time has passed. Use a time in the future, or leave it out.")
            owner = self._get_owner(transaction, actor, new.user)
            authorise(actor, Action.KEY_CREATE, Target(owner_id=owner.id))
            salt = new_salt(self._context)
            secret = self._derive_secret(once, salt)
            added = ApiKey(
                id=new_uuid4(self._context.randomness),
                user_id=owner.id,
                user=owner.name,
                name=new.name,
                hint=key_hint(secret),
                scopes=tuple(sorted(set(new.scopes))),
                cidrs=cidrs,
                created_at=now,
                expires_at=expires_at,
                last_used_at=None,
                last_used_from="",
            )
            api_keys.add(transaction, added, sha256_hex(secret))
            record_audit(self._context, transaction, actor, Action.KEY_CREATE, added.id, f"{new.name} for {owner.name}")
            return SaltedResult(added, salt)

        created = await self._context.store.write(idempotent(self._context, actor, once, SaltedResult[ApiKey], change))
        limits = (created.result.cidrs, created.result.expires_at)
        if inherit_key_limits(actor, *limits) != limits:  # a less limited credential sent the first request
            raise StokerError(
                ErrorCode.FORBIDDEN,
                "Not allowed: the key that was created with this Idempotency-Key is less limited than this credential.",
                hint="Send a new Idempotency-Key to create a key with the limits of this credential.",
                field="idempotency_key",
            )
        return IssuedApiKey(created.result, self._derive_secret(once, created.salt))

    async def delete(self, actor: Actor, key_id: str) -> None:
        """Revoke a key, effective immediately."""

        def change(transaction: Transaction) -> None:
            found = api_keys.find(transaction, key_id)
            if found is None or not (actor.admin or found.user_id == actor.user_id):
                raise not_found("API key", key_id)
            authorise(actor, Action.KEY_DELETE, Target(owner_id=found.user_id))
            api_keys.delete(transaction, key_id)
            record_audit(self._context, transaction, actor, Action.KEY_DELETE, key_id, f"{found.name} of {found.user}")

        await self._context.store.write(change)

    def _derive_secret(self, once: IdempotencyKey | None, salt: str) -> str:
        return format_api_key(derive_secret(self._context, once, "api key", salt))

    def _get_owner(self, transaction: Transaction, actor: Actor, name: str) -> User:
        """The user of this name, if the caller may see it; without a name, the caller."""
        owner = users.find(transaction, name or actor.name)
        if owner is None or not (actor.admin or owner.id == actor.user_id):
            raise not_found("user", name)
        return owner


def _parse_network(cidr: str) -> str:
    try:
        return str(ipaddress.ip_network(cidr.strip(), strict=False))
    except ValueError:
        raise bad_request("cidrs", f'"{cidr[:60]}" is not a network. Use for example "10.0.0.0/8".') from None
