"""Authentication: the actor of an API key, a token, a session cookie or a Unix socket peer.

A check returns None when the credential is of another kind, and raises when it is of its kind but not valid.
"""

import asyncio
import contextlib
import ipaddress
import os
from typing import Any

import jwt
from msgspec import structs

from stoker.domain.access.identity import ApiKey, Session, UserKind
from stoker.domain.access.peers import SocketPeer
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.report_token import TOKEN_GRACE_MS, TOKEN_PREFIX, verify_report_token
from stoker.services.context import Context
from stoker.services.identity.actors import CredentialKind, RequestOrigin, build_actor
from stoker.services.identity.admin_key import claim_admin_key
from stoker.services.identity.bootstrap import ADMIN_USER
from stoker.services.identity.secret_format import KEY_PREFIX, sha256_hex
from stoker.services.identity.tokens import read_claims, secret_generation
from stoker.store.db.base import Transaction
from stoker.store.identity import api_keys, applications, sessions, users
from stoker.store.workloads import pods

KEY_USE_INTERVAL_MS = 60_000
KEY_USE_TIMEOUT_SECONDS = 0.2
"""How long a request waits for the write of its key's last use; the write continues after that."""
ROOT_UID = 0


class AuthenticationService:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._key_used_at: dict[str, int] = {}
        self._pending_key_uses: set[asyncio.Future[None]] = set()

    async def authenticate_bearer(self, credential: str, origin: RequestOrigin) -> Actor:
        """The actor of an `Authorization: Bearer` header."""
        actor = (
            await self._authenticate_key(credential, origin)
            or await self._authenticate_report_token(credential, origin)
            or await self._authenticate_jwt(credential, origin)
        )
        if actor is None:
            raise _unauthenticated("The bearer credential is neither an API key nor a token.")
        return actor

    async def authenticate_cookie(self, cookie: str, origin: RequestOrigin) -> tuple[Actor, Session]:
        """The actor of a browser session, and the session whose CSRF token a write must send."""
        found = await self._context.store.read_inline(
            lambda tx: self._session_actor(tx, sha256_hex(cookie), "", origin)
        )
        if found is None:
            raise _unauthenticated("The session has ended. Sign in again.")
        return found

    async def authenticate_socket(self, peer: SocketPeer, origin: RequestOrigin) -> Actor:
        """The actor of a Unix socket peer: the server's own user and root act as the user `admin`."""
        if peer.uid not in {os.geteuid(), ROOT_UID}:
            raise StokerError(
                ErrorCode.UNAUTHENTICATED,
                f"The local user with uid {peer.uid} needs a credential.",
                hint="Use --token, or sign in with: stoker login",
            )
        found = await self._context.store.read_inline(lambda tx: self._socket_actor(tx, peer, origin))
        if found is None:
            raise _unauthenticated(f'The user "{ADMIN_USER}", as whom socket peers act, is disabled or deleted.')
        return found

    async def session_of(self, actor: Actor) -> Session | None:
        if not actor.session_id:
            return None
        found = await self._context.store.read_inline(lambda tx: sessions.find(tx, actor.session_id))
        return found[0] if found else None

    async def _authenticate_key(self, credential: str, origin: RequestOrigin) -> Actor | None:
        if not credential.startswith(KEY_PREFIX):
            return None
        digest = sha256_hex(credential)
        found = await self._context.store.read_inline(lambda tx: self._key_actor(tx, digest, origin))
        if found is None and await claim_admin_key(self._context, credential):
            found = await self._context.store.read_inline(lambda tx: self._key_actor(tx, digest, origin))
        if found is None:
            raise _unauthenticated("The API key is not known.")
        key, actor = found
        await self._record_key_use(key, origin)
        return actor

    def _key_actor(self, transaction: Transaction, digest: str, origin: RequestOrigin) -> tuple[ApiKey, Actor] | None:
        found = api_keys.find_by_sha256(transaction, digest)
        if found is None:
            return None
        key, user = found
        if key.expires_at is not None and key.expires_at <= self._context.clock.now():
            raise _unauthenticated("The API key has expired.")
        if key.cidrs and not is_address_in_networks(origin.address, key.cidrs):
            raise StokerError(ErrorCode.FORBIDDEN, f"Not allowed: this API key may not be used from {origin.address}.")
        if user.disabled:
            raise _unauthenticated("The user of this API key is disabled.")
        actor = build_actor(transaction, user, origin, credential=f"key {key.id}")
        return key, structs.replace(actor, scopes=frozenset(key.scopes), cidrs=key.cidrs, expires_at=key.expires_at)

    def _socket_actor(self, transaction: Transaction, peer: SocketPeer, origin: RequestOrigin) -> Actor | None:
        user = users.find(transaction, ADMIN_USER)
        if user is None or user.disabled:
            return None
        return build_actor(transaction, user, origin, credential=f"{CredentialKind.SOCKET} uid {peer.uid}")

    async def _record_key_use(self, key: ApiKey, origin: RequestOrigin) -> None:
        """Store when a key was last used, at most once a minute; the request waits for the write only briefly."""
        now = self._context.clock.now()
        if now - max(key.last_used_at or 0, self._key_used_at.get(key.id, 0)) < KEY_USE_INTERVAL_MS:
            return
        self._key_used_at[key.id] = now
        write = asyncio.ensure_future(self._write_key_use(key, now, origin))
        self._pending_key_uses.add(write)
        write.add_done_callback(self._pending_key_uses.discard)
        await asyncio.wait({write}, timeout=KEY_USE_TIMEOUT_SECONDS)

    async def _write_key_use(self, key: ApiKey, now: int, origin: RequestOrigin) -> None:
        with contextlib.suppress(StokerError):  # reads keep working when the disk is full
            await self._context.store.write_inline(lambda tx: api_keys.record_use(tx, key.id, now, origin.address))

    async def _authenticate_report_token(self, credential: str, origin: RequestOrigin) -> Actor | None:
        """The actor of a pod that reports its metrics; its token expires a grace period after the end of the pod."""
        if not credential.startswith(TOKEN_PREFIX):
            return None
        uid = verify_report_token(self._context.signing_key, credential)
        pod = await self._context.store.read_inline(lambda tx: pods.get(tx, uid)) if uid else None
        if pod is None:
            raise _unauthenticated("The token was not issued by this Stoker.")
        if pod.phase.is_finished and (pod.ended_at or 0) + TOKEN_GRACE_MS < self._context.clock.now():
            raise _unauthenticated("The token has expired with its pod.")
        return Actor(
            user_id="",
            name=pod.name,
            kind=UserKind.APPLICATION,
            admin=False,
            memberships={},
            credential=f"pod {pod.uid}",
            pod_uid=pod.uid,
            address=origin.address,
            trace_id=origin.trace_id,
        )

    async def _authenticate_jwt(self, credential: str, origin: RequestOrigin) -> Actor | None:
        if credential.count(".") != 2:
            return None
        try:
            claims = read_claims(self._context, credential)
        except jwt.InvalidTokenError:
            raise _unauthenticated("The token was not issued by this Stoker.") from None
        if claims["exp"] * 1000 <= self._context.clock.now():
            raise _unauthenticated("The token has expired.")
        actor = await self._context.store.read_inline(lambda tx: self._actor_from_claims(tx, claims, origin))
        if actor is None or actor.user_id != claims["sub"]:
            raise _unauthenticated("The token has been revoked.")
        return actor

    def _actor_from_claims(
        self, transaction: Transaction, claims: dict[str, Any], origin: RequestOrigin
    ) -> Actor | None:
        if session_id := claims.get("sid"):
            found = self._session_actor(transaction, "", session_id, origin)
            return found[0] if found else None
        application = applications.find(transaction, claims.get("cid", ""))
        if application is None or application[0].disabled or secret_generation(application[1]) != claims.get("gen"):
            return None
        user = users.get(transaction, application[0].user_id)
        return (
            build_actor(transaction, user, origin, credential=f"{CredentialKind.APPLICATION} {claims['cid']}")
            if user
            else None
        )

    def _session_actor(
        self, transaction: Transaction, digest: str, session_id: str, origin: RequestOrigin
    ) -> tuple[Actor, Session] | None:
        found = sessions.find(transaction, session_id) if session_id else sessions.find_by_sha256(transaction, digest)
        if found is None or found[0].expires_at <= self._context.clock.now() or found[1].disabled:
            return None
        session, user = found
        credential = f"{CredentialKind.SESSION} {session.id}"
        return build_actor(transaction, user, origin, credential=credential, session_id=session.id), session


def is_address_in_networks(address: str, cidrs: tuple[str, ...]) -> bool:
    """Whether the address lies in one of the networks."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return any(ip in ipaddress.ip_network(cidr, strict=False) for cidr in cidrs)


def _unauthenticated(message: str) -> StokerError:
    return StokerError(ErrorCode.UNAUTHENTICATED, message, hint="Sign in again, or use another API key.")
