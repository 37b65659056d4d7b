"""Who is calling: log-in, sessions, tokens and API keys.

A reader of credentials returns None when the credential is not of its kind, and raises when it is and is bad.
"""

import asyncio
import contextlib
import hmac
import ipaddress
from enum import StrEnum
from typing import Any

import jwt
from msgspec import Struct, structs

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.identity import ApiKey, Session, User, UserKind, UserRole
from stoker.domain.names import new_uuid
from stoker.domain.permissions import Action, Actor
from stoker.domain.report_token import GRACE_MS, PREFIX, pod_of_token
from stoker.services.attempts import count_attempt
from stoker.services.context import OK, Context, add_record, record
from stoker.services.passwords import Passwords
from stoker.services.secrets import KEY_PREFIX, readable, sha256
from stoker.store import accounts, credentials, pods
from stoker.store.base import Transaction

ISSUER = "stoker"
ALGORITHM = "HS256"
TOUCH_EVERY_MS = 60_000
TOUCH_SECONDS = 0.2
"""How long a request waits at most until the use of its key is noted; it is noted all the same."""


class Via(StrEnum):
    SESSION = "session"
    APPLICATION = "application"


class LogIn(Struct, frozen=True):
    """A fresh log-in: the cookie for a browser, the token for a program."""

    user: User
    session: Session
    cookie: str
    access_token: str


class Origin(Struct, frozen=True):
    """Where a request comes from."""

    address: str
    loopback: bool
    trace_id: str
    secure: bool = False
    """Whether the caller reached us, or a proxy that we trust, by HTTPS."""


class Token(Struct, frozen=True):
    access_token: str
    expires_in_seconds: int


class Authentication:
    def __init__(self, context: Context, passwords: Passwords) -> None:
        self._context = context
        self._passwords = passwords
        self._touched: dict[str, int] = {}
        self._noting: set[asyncio.Future[None]] = set()

    async def log_in(self, name: str, password: str, origin: Origin) -> LogIn:
        """Check a password and begin a session."""
        subjects = [f"name {name}"] if origin.loopback else [f"name {name}", f"address {origin.address}"]
        await self._context.store.write(lambda tx: count_attempt(self._context, tx, subjects))
        found = await self._context.store.peek(lambda tx: accounts.password(tx, name))
        if not await self._passwords.verify(password, found[1] if found else None) or found is None:
            await self._context.store.write(lambda tx: self._record_log_in(tx, name, origin, "not_signed_in"))
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "The user name or the password is wrong.")
        return await self._context.store.write(lambda tx: self._begin_session(tx, name, origin))

    async def log_out(self, actor: Actor) -> None:
        """End the session that asks; a key or an application has none and keeps working."""

        def change(transaction: Transaction) -> None:
            if actor.session_id:
                credentials.delete_session(transaction, actor.session_id)
            record(self._context, transaction, actor, Action.LOG_OUT, actor.name)

        await self._context.store.write(change)

    async def issue_token(self, client_id: str, secret: str, origin: Origin) -> Token:
        """A bearer token for an application that proves itself by id and secret."""

        def change(transaction: Transaction) -> str | None:
            found = credentials.application(transaction, client_id)
            user = accounts.get(transaction, found[0].user_id) if found else None
            if found is None or user is None:
                return None
            proved = hmac.compare_digest(found[1], sha256(secret)) and not found[0].disabled
            caller = actor_of(transaction, user, origin, credential=f"{Via.APPLICATION} {client_id}")
            result = OK if proved else str(ErrorCode.NOT_SIGNED_IN)
            add_record(self._context, transaction, caller, Action.TOKEN_ISSUE, user.name, result, "")
            if not proved:
                return None
            credentials.touch_application(transaction, client_id, self._context.clock.now())
            return user.id

        user_id = await self._context.store.write(change)
        if user_id is None:
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "The client id or the client secret is wrong.")
        seconds = self._context.settings.token_seconds
        claims = {"sub": user_id, "cid": client_id, "gen": sha256(sha256(secret))[:16]}
        return Token(self._sign(claims, seconds), seconds)

    async def by_bearer(self, credential: str, origin: Origin) -> Actor:
        """The actor of an `Authorization: Bearer` header."""
        actor = (
            await self._by_key(credential, origin)
            or await self._by_report_token(credential, origin)
            or await self._by_jwt(credential, origin)
        )
        if actor is None:
            raise _refused("The bearer credential is neither an API key nor a token.")
        return actor

    async def by_cookie(self, cookie: str, origin: Origin) -> tuple[Actor, Session]:
        """The actor of a browser session, and the session whose CSRF token a write must name."""
        found = await self._context.store.peek(lambda tx: self._session_actor(tx, sha256(cookie), "", origin))
        if found is None:
            raise _refused("The session has ended. Sign in again.")
        return found

    async def session_of(self, actor: Actor) -> Session | None:
        if not actor.session_id:
            return None
        found = await self._context.store.peek(lambda tx: credentials.session(tx, actor.session_id))
        return found[0] if found else None

    def _begin_session(self, transaction: Transaction, name: str, origin: Origin) -> LogIn:
        context = self._context
        user = accounts.find(transaction, name)
        if user is None or user.disabled:
            raise StokerError(ErrorCode.NOT_SIGNED_IN, "The user name or the password is wrong.")
        credentials.clear_attempts(transaction, f"name {name}")
        credentials.clear_attempts(transaction, f"address {origin.address}")
        now = context.clock.now()
        seconds = context.settings.session_seconds
        cookie = readable(context.randomness(32))
        session = Session(
            id=new_uuid(context.randomness),
            user_id=user.id,
            csrf_token=readable(context.randomness(32)),
            created_at=now,
            expires_at=now + seconds * 1000,
        )
        credentials.add_session(transaction, session, sha256(cookie), origin.address)
        self._record_log_in(transaction, name, origin, OK, user.id)
        return LogIn(user, session, cookie, self._sign({"sub": user.id, "sid": session.id}, seconds))

    def _record_log_in(
        self, transaction: Transaction, name: str, origin: Origin, result: str, user_id: str = ""
    ) -> None:
        caller = Actor(
            user_id=user_id,
            name=name,
            kind=UserKind.PERSON,
            admin=False,
            memberships={},
            credential="password",
            address=origin.address,
            trace_id=origin.trace_id,
        )
        add_record(self._context, transaction, caller, Action.LOG_IN, name, result, "")

    def _sign(self, claims: dict[str, str], seconds: int) -> str:
        """A JWT whose payload is plain ASCII: some clients cannot read more."""
        now = self._context.clock.now() // 1000
        payload = {"iss": ISSUER, "iat": now, "exp": now + seconds, **claims}
        return jwt.encode(payload, self._context.signing_key, ALGORITHM)

    async def _by_key(self, credential: str, origin: Origin) -> Actor | None:
        if not credential.startswith(KEY_PREFIX):
            return None
        found = await self._context.store.peek(lambda tx: self._key_actor(tx, sha256(credential), origin))
        if found is None:
            raise _refused("The API key is not known.")
        key, actor = found
        await self._touch(key, origin)
        return actor

    def _key_actor(self, transaction: Transaction, digest: str, origin: Origin) -> tuple[ApiKey, Actor] | None:
        found = credentials.key_by_sha256(transaction, digest)
        if found is None:
            return None
        key, user = found
        if key.expires_at is not None and key.expires_at <= self._context.clock.now():
            raise _refused("The API key has expired.")
        if key.cidrs and not inside(origin.address, key.cidrs):
            raise StokerError(
                ErrorCode.NOT_ALLOWED, f"Not allowed: this API key may not be used from {origin.address}."
            )
        if user.disabled:
            raise _refused("The user of this API key is disabled.")
        actor = actor_of(transaction, user, origin, credential=f"key {key.id}")
        return key, structs.replace(actor, scopes=frozenset(key.scopes), cidrs=key.cidrs, expires_at=key.expires_at)

    async def _touch(self, key: ApiKey, origin: Origin) -> None:
        """Note the use of a key, at most once a minute; nobody waits long for that."""
        now = self._context.clock.now()
        if now - max(key.last_used_at or 0, self._touched.get(key.id, 0)) < TOUCH_EVERY_MS:
            return
        self._touched[key.id] = now
        noting = asyncio.ensure_future(self._note(key, now, origin))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)
        await asyncio.wait({noting}, timeout=TOUCH_SECONDS)

    async def _note(self, key: ApiKey, now: int, origin: Origin) -> None:
        with contextlib.suppress(StokerError):  # whoever may only read still may, on a disk that is full
            await self._context.store.poke(lambda tx: credentials.touch_key(tx, key.id, now, origin.address))

    async def _by_report_token(self, credential: str, origin: Origin) -> Actor | None:
        """A pod that reports its own metrics; its token is good until a moment after its end."""
        if not credential.startswith(PREFIX):
            return None
        uid = pod_of_token(self._context.signing_key, credential)
        pod = await self._context.store.peek(lambda tx: pods.get(tx, uid)) if uid else None
        if pod is None:
            raise _refused("The token was not issued by this Stoker.")
        if pod.phase.ended and (pod.ended_at or 0) + GRACE_MS < self._context.clock.now():
            raise _refused("The token has expired with its pod.")
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

    async def _by_jwt(self, credential: str, origin: Origin) -> Actor | None:
        if credential.count(".") != 2:
            return None
        try:
            claims: dict[str, Any] = jwt.decode(
                credential,
                self._context.signing_key,
                algorithms=[ALGORITHM],
                issuer=ISSUER,
                options={"require": ["exp", "sub"], "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            raise _refused("The token was not issued by this Stoker.") from None
        if claims["exp"] * 1000 <= self._context.clock.now():
            raise _refused("The token has expired.")
        actor = await self._context.store.peek(lambda tx: self._claimed_actor(tx, claims, origin))
        if actor is None or actor.user_id != claims["sub"]:
            raise _refused("The token has been revoked.")
        return actor

    def _claimed_actor(self, transaction: Transaction, claims: dict[str, Any], origin: Origin) -> Actor | None:
        if session_id := claims.get("sid"):
            found = self._session_actor(transaction, "", session_id, origin)
            return found[0] if found else None
        application = credentials.application(transaction, claims.get("cid", ""))
        if application is None or application[0].disabled or sha256(application[1])[:16] != claims.get("gen"):
            return None
        user = accounts.get(transaction, application[0].user_id)
        return actor_of(transaction, user, origin, credential=f"{Via.APPLICATION} {claims['cid']}") if user else None

    def _session_actor(
        self, transaction: Transaction, digest: str, session_id: str, origin: Origin
    ) -> tuple[Actor, Session] | None:
        found = (
            credentials.session(transaction, session_id)
            if session_id
            else credentials.session_by_sha256(transaction, digest)
        )
        if found is None or found[0].expires_at <= self._context.clock.now() or found[1].disabled:
            return None
        session, user = found
        credential = f"{Via.SESSION} {session.id}"
        return actor_of(transaction, user, origin, credential=credential, session_id=session.id), session


def actor_of(transaction: Transaction, user: User, origin: Origin, *, credential: str, session_id: str = "") -> Actor:
    admin = user.role is UserRole.ADMIN
    return Actor(
        user_id=user.id,
        name=user.name,
        kind=user.kind,
        admin=admin,
        memberships=accounts.memberships(transaction, user.id),
        default_workspace_id=user.default_workspace_id,
        credential=credential,
        session_id=session_id,
        address=origin.address,
        trace_id=origin.trace_id,
    )


def inside(address: str, cidrs: tuple[str, ...]) -> bool:
    """Whether the address lies in one of the networks."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    return any(found in ipaddress.ip_network(cidr, strict=False) for cidr in cidrs)


def _refused(message: str) -> StokerError:
    return StokerError(ErrorCode.NOT_SIGNED_IN, message, hint="Sign in again, or use another API key.")
