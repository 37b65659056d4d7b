"""Log-in with a password, and log-out.

Every attempt is counted before the password is checked, so that parallel guesses are throttled too.
"""

from msgspec import Struct

from stoker.domain.access.addresses import client_network
from stoker.domain.access.identity import Session, User, UserKind
from stoker.domain.access.permissions import Action, Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import new_uuid4
from stoker.services.context import OK, Context, add_audit_record, record_audit
from stoker.services.identity.actors import RequestOrigin
from stoker.services.identity.login_throttle import add_attempt, check_and_count_attempt, delay_seconds
from stoker.services.identity.passwords import Passwords
from stoker.services.identity.secret_format import sha256_hex, to_base58
from stoker.services.identity.tokens import sign_jwt
from stoker.services.refusal_rate_limit import RefusalRateLimiter
from stoker.store.db.base import Transaction
from stoker.store.identity import login_attempts, sessions, users

WRONG_PASSWORD_MESSAGE = "The user name or the password is wrong."


class LoginResult(Struct, frozen=True):
    """A new session: the cookie for a browser, the token for a program."""

    user: User
    session: Session
    cookie: str
    access_token: str


class LoginService:
    def __init__(self, context: Context, passwords: Passwords) -> None:
        self._context = context
        self._passwords = passwords
        self._refusal_limiter = RefusalRateLimiter(context.clock)

    async def log_in(self, name: str, password: str, origin: RequestOrigin) -> LoginResult:
        """Check a password and create a session."""
        await self._context.clock.sleep(
            await self._context.store.write(lambda tx: self._count_login_attempt(tx, name, origin))
        )
        stored = await self._context.store.read_inline(lambda tx: users.find_password_hash(tx, name))
        if not await self._passwords.verify(password, stored[1] if stored else None) or stored is None:
            detail = self._refusal_limiter.admit(client_network(origin.address), "")
            if detail is not None:
                result = str(ErrorCode.UNAUTHENTICATED)
                await self._context.store.write(lambda tx: self._record_login(tx, name, origin, result, detail))
            raise StokerError(ErrorCode.UNAUTHENTICATED, WRONG_PASSWORD_MESSAGE)
        return await self._context.store.write(lambda tx: self._create_session(tx, name, origin))

    async def log_out(self, actor: Actor) -> None:
        """Delete the caller's session; API keys and applications have none and keep working."""

        def change(transaction: Transaction) -> None:
            if actor.session_id:
                sessions.delete(transaction, actor.session_id)
            record_audit(self._context, transaction, actor, Action.LOG_OUT, actor.name)

        await self._context.store.write(change)

    def _create_session(self, transaction: Transaction, name: str, origin: RequestOrigin) -> LoginResult:
        context = self._context
        user = users.find(transaction, name)
        if user is None or user.disabled:
            raise StokerError(ErrorCode.UNAUTHENTICATED, WRONG_PASSWORD_MESSAGE)
        for subject in (*_throttle_subjects(name, origin), _name_subject(name)):
            login_attempts.clear(transaction, subject)
        now = context.clock.now()
        seconds = context.settings.session_seconds
        cookie = to_base58(context.randomness(32))
        session = Session(
            id=new_uuid4(context.randomness),
            user_id=user.id,
            csrf_token=to_base58(context.randomness(32)),
            created_at=now,
            expires_at=now + seconds * 1000,
        )
        sessions.add(transaction, session, sha256_hex(cookie), origin.address)
        self._record_login(transaction, name, origin, OK, user_id=user.id)
        return LoginResult(user, session, cookie, sign_jwt(context, {"sub": user.id, "sid": session.id}, seconds))

    def _count_login_attempt(self, transaction: Transaction, name: str, origin: RequestOrigin) -> float:
        """Count a log-in attempt; the result is the delay before its password is checked."""
        seconds = delay_seconds(self._context, transaction, _name_subject(name))
        check_and_count_attempt(self._context, transaction, _throttle_subjects(name, origin))
        add_attempt(self._context, transaction, [_name_subject(name)])
        return seconds

    def _record_login(
        self,
        transaction: Transaction,
        name: str,
        origin: RequestOrigin,
        result: str,
        detail: str = "",
        user_id: str = "",
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
        add_audit_record(self._context, transaction, caller, Action.LOG_IN, name, result, detail)


def _throttle_subjects(name: str, origin: RequestOrigin) -> list[str]:
    """The throttle subjects of an attempt: the name in this network, and the network unless it is loopback."""
    network = client_network(origin.address)
    pair = f"{_name_subject(name)} from {network}"
    return [pair] if origin.loopback else [pair, f"network {network}"]


def _name_subject(name: str) -> str:
    return f"name {name}"
