"""Idempotency keys: a create that is sent twice happens once.

The result is stored in the transaction of the change. A stored result holds no secret: a secret that must be shown
again is derived from the caller's key and a salt, and only the salt is stored.
"""

import hashlib
import hmac
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, field

from stoker.domain.access.permissions import Actor
from stoker.domain.clock import HOUR_MS
from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.context import Context
from stoker.store.db.base import Transaction, TransactionFn
from stoker.store.identity import idempotency

T = TypeVar("T")
SALT_BYTES = 32


class IdempotencyKey(Struct, frozen=True):
    """The caller's key, and the hash of the request it was sent with."""

    key: str
    request_sha256: str


class SaltedResult(Struct, Generic[T], frozen=True):
    """A created object, and the salt of its secret."""

    result: T = field(name="made")
    salt: str


def idempotent(
    context: Context, actor: Actor, once: IdempotencyKey | None, result_type: type[T], change: TransactionFn[T]
) -> TransactionFn[T]:
    """The change, or, when this key was sent before, the stored result of the first request."""
    if once is None:
        return change
    key_sha256 = hashlib.sha256(once.key.encode()).hexdigest()

    def change_once(transaction: Transaction) -> T:
        now = context.clock.now()
        since = now - context.settings.idempotency_hours * HOUR_MS
        earlier = idempotency.find(transaction, actor.user_id, key_sha256, since)
        if earlier is None:
            result = change(transaction)
            stored = msgspec.json.encode(result).decode()
            idempotency.add(transaction, actor.user_id, key_sha256, once.request_sha256, stored, now)
            return result
        if earlier[0] != once.request_sha256:
            raise StokerError(
                ErrorCode.ALREADY_EXISTS,
                "This Idempotency-Key was already used with another request. Send a new key with a new request.",
                field="idempotency_key",
            )
        return msgspec.json.decode(earlier[1], type=result_type)

    return change_once


def new_salt(context: Context) -> str:
    return context.randomness(SALT_BYTES).hex()


def derive_secret(context: Context, once: IdempotencyKey | None, purpose: str, salt: str) -> bytes:
    """Derive secret bytes; the same key and salt give the same bytes.

    The stored salt alone does not reveal them: the signing key, and the caller's key if there is one, are needed too.
    """
    parts = "\n".join((purpose, salt, once.key if once else ""))
    return hmac.digest(context.signing_key.encode(), parts.encode(), "sha256")
