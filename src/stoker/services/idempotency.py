"""A create that is sent twice happens once.

The answer is kept with the change, in one transaction. An answer never holds a secret: a secret that must
be shown again is derived from the request's own key and a salt, and only the salt is kept.
"""

import hashlib
import hmac
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from stoker.domain.clock import HOUR_MS
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import Actor
from stoker.services.context import Context
from stoker.store import idempotency
from stoker.store.base import Change, Transaction

T = TypeVar("T")
SALT_BYTES = 32


class Once(Struct, frozen=True):
    """The caller's Idempotency-Key, and the hash of what it was sent with."""

    key: str
    request_sha256: str


class Salted(Struct, Generic[T], frozen=True):
    """What was made, and the salt of the secret that was made with it."""

    made: T
    salt: str


def only_once(context: Context, actor: Actor, once: Once | None, answer: type[T], change: Change[T]) -> Change[T]:
    """The change, or the answer it gave when this key was first sent."""
    if once is None:
        return change
    key_sha256 = hashlib.sha256(once.key.encode()).hexdigest()

    def change_once(transaction: Transaction) -> T:
        now = context.clock.now()
        since = now - context.settings.idempotency_hours * HOUR_MS
        earlier = idempotency.find(transaction, actor.user_id, key_sha256, since)
        if earlier is None:
            result = change(transaction)
            kept = msgspec.json.encode(result).decode()
            idempotency.add(transaction, actor.user_id, key_sha256, once.request_sha256, kept, now)
            return result
        if earlier[0] != once.request_sha256:
            raise StokerError(
                ErrorCode.EXISTS,
                "This Idempotency-Key was already used with another request. Send a new key with a new request.",
                field="Idempotency-Key",
            )
        return msgspec.json.decode(earlier[1], type=answer)

    return change_once


def new_salt(context: Context) -> str:
    return context.randomness(SALT_BYTES).hex()


def secret_bytes(context: Context, once: Once | None, purpose: str, salt: str) -> bytes:
    """Bytes that nobody can guess who has only the database; the same ones for the same key and salt.

    Without a key of the caller's the salt is kept nowhere.
    """
    parts = "\n".join((purpose, salt, once.key if once else ""))
    return hmac.digest(context.signing_key.encode(), parts.encode(), "sha256")
