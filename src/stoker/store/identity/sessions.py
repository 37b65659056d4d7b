"""Browser sessions. A session token is stored only as its SHA-256."""

from msgspec import structs

from stoker.domain.access.identity import Session, User
from stoker.store.db.base import Transaction
from stoker.store.identity import users

SELECT = f"""
SELECT session.id, session.user_id, session.csrf_token, session.created_at, session.expires_at, {users.COLUMNS}
FROM session
JOIN user_account ON user_account.id = session.user_id
"""
BY_SHA256 = f"{SELECT} WHERE session.sha256 = :sha256"
BY_ID = f"{SELECT} WHERE session.id = :id"
ADD = """
INSERT INTO session (id, sha256, user_id, csrf_token, address, created_at, expires_at)
VALUES (:id, :sha256, :user_id, :csrf_token, :address, :created_at, :expires_at)
"""
DELETE = "DELETE FROM session WHERE id = :id"
DELETE_OF_USER = "DELETE FROM session WHERE user_id = :user_id AND id <> :keep_session_id"


def find_by_sha256(transaction: Transaction, sha256: str) -> tuple[Session, User] | None:
    row = transaction.fetch_one(BY_SHA256, {"sha256": sha256})
    return (Session(*row[:5]), users.user_from_row(row[5:])) if row else None


def find(transaction: Transaction, session_id: str) -> tuple[Session, User] | None:
    row = transaction.fetch_one(BY_ID, {"id": session_id})
    return (Session(*row[:5]), users.user_from_row(row[5:])) if row else None


def add(transaction: Transaction, session: Session, sha256: str, address: str) -> None:
    transaction.execute(ADD, {**structs.asdict(session), "sha256": sha256, "address": address})


def delete(transaction: Transaction, session_id: str) -> None:
    transaction.execute(DELETE, {"id": session_id})


def delete_of_user(transaction: Transaction, user_id: str, *, keep_session_id: str = "") -> None:
    """Delete every session of a user except `keep_session_id`, the one that sends the request."""
    transaction.execute(DELETE_OF_USER, {"user_id": user_id, "keep_session_id": keep_session_id})
