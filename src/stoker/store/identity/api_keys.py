"""What proves who one is: API keys, sessions, applications. Secrets are here only as SHA-256."""

from msgspec import structs

from stoker.domain.identity import ApiKey, Application, Scope, Session, User, UserRole
from stoker.domain.listing import KeyQuery, Listing, Window
from stoker.store import accounts
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, substring, where

SELECT_KEY = """
SELECT api_key.id, api_key.user_id, account.name, api_key.name, api_key.hint, api_key.scopes, api_key.cidrs,
       api_key.created_at, api_key.expires_at, api_key.last_used_at, api_key.last_used_from
"""
KEY_SOURCE = "FROM api_key JOIN account ON account.id = api_key.user_id"
KEY_BY_SHA256 = f"{SELECT_KEY}, {accounts.COLUMNS} {KEY_SOURCE} WHERE api_key.sha256 = :sha256"
KEY_BY_ID = f"{SELECT_KEY} {KEY_SOURCE} WHERE api_key.id = :id"
ADD_KEY = """
INSERT INTO api_key (id, user_id, name, hint, sha256, scopes, cidrs, created_at, expires_at,
                     last_used_at, last_used_from)
VALUES (:id, :user_id, :name, :hint, :sha256, :scopes, :cidrs, :created_at, :expires_at, NULL, '')
"""
TOUCH_KEY = """
UPDATE api_key
SET last_used_at = :at, last_used_from = :address
WHERE id = :id
"""
DELETE_KEY = "DELETE FROM api_key WHERE id = :id"
DELETE_KEYS_NAMED = "DELETE FROM api_key WHERE user_id = :user_id AND name = :name"

SELECT_APPLICATION = """
SELECT application.client_id, application.user_id, account.name, account.role, application.description,
       account.disabled, application.created_at, application.last_used_at
"""
APPLICATION_SOURCE = "FROM application JOIN account ON account.id = application.user_id"
APPLICATION_BY_ID = f"""
{SELECT_APPLICATION}, application.secret_sha256 {APPLICATION_SOURCE} WHERE application.client_id = :client_id
"""
ADD_APPLICATION = """
INSERT INTO application (client_id, user_id, secret_sha256, description, created_at)
VALUES (:client_id, :user_id, :secret_sha256, :description, :created_at)
"""
SET_SECRET = "UPDATE application SET secret_sha256 = :secret_sha256 WHERE client_id = :client_id"
TOUCH_APPLICATION = "UPDATE application SET last_used_at = :at WHERE client_id = :client_id"

SELECT_SESSION = f"""
SELECT session.id, session.user_id, session.csrf_token, session.created_at, session.expires_at, {accounts.COLUMNS}
FROM session
JOIN account ON account.id = session.user_id
"""
SESSION_BY_SHA256 = f"{SELECT_SESSION} WHERE session.sha256 = :sha256"
SESSION_BY_ID = f"{SELECT_SESSION} WHERE session.id = :id"
ADD_SESSION = """
INSERT INTO session (id, sha256, user_id, csrf_token, address, created_at, expires_at)
VALUES (:id, :sha256, :user_id, :csrf_token, :address, :created_at, :expires_at)
"""
DELETE_SESSION = "DELETE FROM session WHERE id = :id"
DELETE_SESSIONS = "DELETE FROM session WHERE user_id = :user_id AND id <> :but"

COUNT_ATTEMPTS = """
SELECT COUNT(*), MIN(at)
FROM login_attempt
WHERE subject = :subject
  AND at > :since
"""
ADD_ATTEMPT = "INSERT INTO login_attempt (id, subject, at) VALUES (:id, :subject, :at)"
CLEAR_ATTEMPTS = "DELETE FROM login_attempt WHERE subject = :subject"


def key_by_sha256(transaction: Transaction, sha256: str) -> tuple[ApiKey, User] | None:
    row = transaction.one(KEY_BY_SHA256, {"sha256": sha256})
    return (_key(row), accounts.build(row[11:])) if row else None


def key(transaction: Transaction, key_id: str) -> ApiKey | None:
    row = transaction.one(KEY_BY_ID, {"id": key_id})
    return _key(row) if row else None


def browse_keys(transaction: Transaction, query: KeyQuery, window: Window) -> Listing[ApiKey]:
    return page(
        transaction,
        _key,
        select=SELECT_KEY,
        source=KEY_SOURCE,
        condition=where(
            "LOWER(api_key.name) LIKE :text ESCAPE '!'" if query.text else None,
            "api_key.user_id = :user_id" if query.user_id is not None else None,
        ),
        order="account.name, api_key.name, api_key.id",
        params={"text": substring(query.text), "user_id": query.user_id},
        window=window,
    )


def add_key(transaction: Transaction, api_key: ApiKey, sha256: str) -> None:
    fields = structs.asdict(api_key)
    scopes, cidrs = ",".join(api_key.scopes), ",".join(api_key.cidrs)
    transaction.run(ADD_KEY, {**fields, "scopes": scopes, "cidrs": cidrs, "sha256": sha256})


def touch_key(transaction: Transaction, key_id: str, at: int, address: str) -> None:
    transaction.run(TOUCH_KEY, {"id": key_id, "at": at, "address": address})


def delete_key(transaction: Transaction, key_id: str) -> None:
    transaction.run(DELETE_KEY, {"id": key_id})


def delete_keys_named(transaction: Transaction, user_id: str, name: str) -> None:
    transaction.run(DELETE_KEYS_NAMED, {"user_id": user_id, "name": name})


def application(transaction: Transaction, client_id: str) -> tuple[Application, str] | None:
    """The application and the SHA-256 of its secret."""
    row = transaction.one(APPLICATION_BY_ID, {"client_id": client_id})
    return (_application(row), row[8]) if row else None


def browse_applications(transaction: Transaction, text: str, window: Window) -> Listing[Application]:
    return page(
        transaction,
        _application,
        select=SELECT_APPLICATION,
        source=APPLICATION_SOURCE,
        condition=where("account.folded LIKE :text ESCAPE '!'" if text else None),
        order="account.name",
        params={"text": substring(text)},
        window=window,
    )


def add_application(transaction: Transaction, added: Application, secret_sha256: str) -> None:
    transaction.run(ADD_APPLICATION, {**structs.asdict(added), "secret_sha256": secret_sha256})


def set_application_secret(transaction: Transaction, client_id: str, secret_sha256: str) -> None:
    transaction.run(SET_SECRET, {"client_id": client_id, "secret_sha256": secret_sha256})


def touch_application(transaction: Transaction, client_id: str, at: int) -> None:
    transaction.run(TOUCH_APPLICATION, {"client_id": client_id, "at": at})


def session_by_sha256(transaction: Transaction, sha256: str) -> tuple[Session, User] | None:
    row = transaction.one(SESSION_BY_SHA256, {"sha256": sha256})
    return (Session(*row[:5]), accounts.build(row[5:])) if row else None


def session(transaction: Transaction, session_id: str) -> tuple[Session, User] | None:
    row = transaction.one(SESSION_BY_ID, {"id": session_id})
    return (Session(*row[:5]), accounts.build(row[5:])) if row else None


def add_session(transaction: Transaction, added: Session, sha256: str, address: str) -> None:
    transaction.run(ADD_SESSION, {**structs.asdict(added), "sha256": sha256, "address": address})


def delete_session(transaction: Transaction, session_id: str) -> None:
    transaction.run(DELETE_SESSION, {"id": session_id})


def delete_sessions(transaction: Transaction, user_id: str, *, but: str = "") -> None:
    """End every session of a user, except perhaps the one that asks."""
    transaction.run(DELETE_SESSIONS, {"user_id": user_id, "but": but})


def attempts(transaction: Transaction, subject: str, since: int) -> tuple[int, int]:
    """How many failed log-ins of this subject are remembered, and when the oldest of them was."""
    row = transaction.one(COUNT_ATTEMPTS, {"subject": subject, "since": since})
    return (row[0], row[1] or 0) if row else (0, 0)


def add_attempt(transaction: Transaction, attempt_id: str, subject: str, at: int) -> None:
    transaction.run(ADD_ATTEMPT, {"id": attempt_id, "subject": subject, "at": at})


def clear_attempts(transaction: Transaction, subject: str) -> None:
    transaction.run(CLEAR_ATTEMPTS, {"subject": subject})


def _key(row: Row) -> ApiKey:
    key_id, user_id, user, name, hint, scopes, cidrs, created_at, expires_at, last_used_at, last_used_from = row[:11]
    return ApiKey(
        key_id,
        user_id,
        user,
        name,
        hint,
        tuple(Scope(scope) for scope in scopes.split(",") if scope),
        tuple(cidrs.split(",")) if cidrs else (),
        created_at,
        expires_at,
        last_used_at,
        last_used_from,
    )


def _application(row: Row) -> Application:
    return Application(row[0], row[1], row[2], UserRole(row[3]), row[4], bool(row[5]), row[6], row[7])
