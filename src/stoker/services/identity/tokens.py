"""Access tokens (JWT): how they are signed and read, and how an application gets one.

A token names the session or the application it was issued to, so it ends with that session or secret.
"""

import hmac
from typing import Any

import jwt
from msgspec import Struct

from stoker.domain.access.addresses import client_network
from stoker.domain.access.permissions import Action
from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.context import OK, Context, add_audit_record
from stoker.services.identity.actors import CredentialKind, RequestOrigin, build_actor
from stoker.services.identity.login_throttle import add_attempt, check_attempts
from stoker.services.identity.secret_format import sha256_hex
from stoker.services.refusal_rate_limit import RefusalRateLimiter
from stoker.store.db.base import Transaction
from stoker.store.identity import applications, login_attempts, users

ISSUER = "stoker"
ALGORITHM = "HS256"


class AccessToken(Struct, frozen=True):
    access_token: str
    expires_in_seconds: int


class TokenService:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._refusal_limiter = RefusalRateLimiter(context.clock)

    async def issue(self, client_id: str, secret: str, origin: RequestOrigin) -> AccessToken:
        """A bearer token for an application that sends its client id and secret."""
        subject = f"client {client_id} from {client_network(origin.address)}"

        def change(transaction: Transaction) -> str | None:
            check_attempts(self._context, transaction, [subject], "refused client secrets")
            found = applications.find(transaction, client_id)
            user = users.get(transaction, found[0].user_id) if found else None
            valid = found is not None and hmac.compare_digest(found[1], sha256_hex(secret)) and not found[0].disabled
            if not valid:
                add_attempt(self._context, transaction, [subject])
            if user is None:
                return None
            caller = build_actor(transaction, user, origin, credential=f"{CredentialKind.APPLICATION} {client_id}")
            result = OK if valid else str(ErrorCode.UNAUTHENTICATED)
            detail = "" if valid else self._refusal_limiter.admit(f"client {client_id}", "")
            if detail is not None:
                add_audit_record(self._context, transaction, caller, Action.TOKEN_ISSUE, user.name, result, detail)
            if not valid:
                return None
            login_attempts.clear(transaction, subject)
            applications.record_use(transaction, client_id, self._context.clock.now())
            return user.id

        user_id = await self._context.store.write(change)
        if user_id is None:
            raise StokerError(ErrorCode.UNAUTHENTICATED, "The client id or the client secret is wrong.")
        seconds = self._context.settings.token_seconds
        claims = {"sub": user_id, "cid": client_id, "gen": secret_generation(sha256_hex(secret))}
        return AccessToken(sign_jwt(self._context, claims, seconds), seconds)


def sign_jwt(context: Context, claims: dict[str, str], seconds: int) -> str:
    """A JWT whose payload is plain ASCII: some clients cannot decode other text."""
    now = context.clock.now() // 1000
    payload = {"iss": ISSUER, "iat": now, "exp": now + seconds, **claims}
    return jwt.encode(payload, context.signing_key, ALGORITHM)


def read_claims(context: Context, token: str) -> dict[str, Any]:
    """The claims of a token that this server has signed; the caller checks when it expires.

    Raises jwt.InvalidTokenError for any other token.
    """
    return jwt.decode(
        token,
        context.signing_key,
        algorithms=[ALGORITHM],
        issuer=ISSUER,
        options={"require": ["exp", "sub"], "verify_exp": False, "verify_iat": False},
    )


def secret_generation(secret_sha256: str) -> str:
    """Identifies the client secret that a token was issued for: a new secret revokes the tokens of the old one."""
    return sha256_hex(secret_sha256)[:16]
