"""API keys: shown once, kept as a hash, limited by expiry, scopes and networks."""

import ipaddress

from msgspec import Struct

from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.identity import ApiKey, Scope, User
from stoker.domain.listing import KeyQuery, Listing, Window
from stoker.domain.names import new_uuid
from stoker.domain.permissions import Action, Actor, Target
from stoker.services.context import Context, authorise, record
from stoker.services.once import Once, Salted, new_salt, only_once, secret_bytes
from stoker.services.secrets import api_key, hint_of, sha256
from stoker.store import accounts, credentials
from stoker.store.base import Transaction


class NewKey(Struct, frozen=True, kw_only=True):
    """A key for the caller, or, asked by an admin, for another user."""

    name: str
    user: str = ""
    scopes: tuple[Scope, ...] = ()
    cidrs: tuple[str, ...] = ()
    expires_at: int | None = None


class IssuedKey(Struct, frozen=True):
    """The only time the secret is seen."""

    key: ApiKey
    secret: str


class Keys:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, text: str, user: str, window: Window) -> Listing[ApiKey]:
        """One's own keys; for an admin everyone's, or those of one user."""

        def query(transaction: Transaction) -> Listing[ApiKey]:
            everyones = actor.admin and not user
            owner_id = None if everyones else self._owner(transaction, actor, user).id
            authorise(actor, Action.KEY_LIST, Target(owner_id=owner_id))
            return credentials.browse_keys(transaction, KeyQuery(text, owner_id), window)

        return await self._context.store.read(query)

    async def create(self, actor: Actor, new: NewKey, once: Once | None = None) -> IssuedKey:
        """Make a key, which may be used from no more places, and no longer, than the key that asks for it."""
        authorise(actor, Action.KEY_CREATE, Target(owner_id=actor.user_id))
        expires_at = _no_later(new.expires_at, actor.expires_at)
        cidrs = _within(tuple(_network(cidr) for cidr in new.cidrs), actor.cidrs)

        def change(transaction: Transaction) -> Salted[ApiKey]:
            now = self._context.clock.now()
            if new.expires_at is not None and new.expires_at <= now:
                raise bad_request("expiresAt", "this time has passed. Use one that is still to come, or leave it out.")
            owner = self._owner(transaction, actor, new.user)
            authorise(actor, Action.KEY_CREATE, Target(owner_id=owner.id))
            salt = new_salt(self._context)
            secret = self._secret(once, salt)
            added = ApiKey(
                id=new_uuid(self._context.randomness),
                user_id=owner.id,
                user=owner.name,
                name=new.name,
                hint=hint_of(secret),
                scopes=tuple(sorted(set(new.scopes))),
                cidrs=cidrs,
                created_at=now,
                expires_at=expires_at,
                last_used_at=None,
                last_used_from="",
            )
            credentials.add_key(transaction, added, sha256(secret))
            record(self._context, transaction, actor, Action.KEY_CREATE, added.id, f"{new.name} for {owner.name}")
            return Salted(added, salt)

        kept = await self._context.store.write(only_once(self._context, actor, once, Salted[ApiKey], change))
        return IssuedKey(kept.made, self._secret(once, kept.salt))

    async def delete(self, actor: Actor, key_id: str) -> None:
        """Revoke a key; it stops working with this answer."""

        def change(transaction: Transaction) -> None:
            found = credentials.key(transaction, key_id)
            if found is None or not (actor.admin or found.user_id == actor.user_id):
                raise not_found("API key", key_id)
            authorise(actor, Action.KEY_DELETE, Target(owner_id=found.user_id))
            credentials.delete_key(transaction, key_id)
            record(self._context, transaction, actor, Action.KEY_DELETE, key_id, f"{found.name} of {found.user}")

        await self._context.store.write(change)

    def _secret(self, once: Once | None, salt: str) -> str:
        return api_key(secret_bytes(self._context, once, "api key", salt))

    def _owner(self, transaction: Transaction, actor: Actor, name: str) -> User:
        """The user of this name, if the caller may know of it; without a name, the caller."""
        owner = accounts.find(transaction, name or actor.name)
        if owner is None or not (actor.admin or owner.id == actor.user_id):
            raise not_found("user", name)
        return owner


def _network(cidr: str) -> str:
    try:
        return str(ipaddress.ip_network(cidr.strip(), strict=False))
    except ValueError:
        raise bad_request("cidrs", f'"{cidr[:60]}" is not a network. Use for example "10.0.0.0/8".') from None


def _within(wanted: tuple[str, ...], held: tuple[str, ...]) -> tuple[str, ...]:
    """The networks wanted, or those held when none are; never one that is outside those held."""
    for cidr in wanted if held else ():
        if not any(_is_inside(cidr, outer) for outer in held):
            raise StokerError(
                ErrorCode.NOT_ALLOWED,
                f"Not allowed: this credential may be used from {', '.join(held)} only, and so may the keys it makes.",
                field="cidrs",
            )
    return wanted or held


def _no_later(wanted: int | None, held: int | None) -> int | None:
    """The end that is wanted, or the one held when none is; never one after that."""
    if wanted is not None and held is not None and wanted > held:
        raise StokerError(
            ErrorCode.NOT_ALLOWED,
            f"Not allowed: this API key ends at {rfc3339(held)}, and so do the keys it makes.",
            hint="Choose an earlier end, or make the key with a log-in or a key that lives longer.",
            field="expiresAt",
        )
    return held if wanted is None else wanted


def _is_inside(cidr: str, outer: str) -> bool:
    network, around = ipaddress.ip_network(cidr), ipaddress.ip_network(outer)
    return network.network_address in around and network.prefixlen >= around.prefixlen
