"""Accounts: people, and the applications that act like them."""

from msgspec import structs

from stoker.domain.identity import MemberRole, User, UserKind, UserRole
from stoker.domain.listing import Listing, UserQuery, Window
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, substring, where

COLUMNS = """
account.id, account.name, account.kind, account.role, account.full_name, account.email, account.disabled,
account.default_workspace_id,
(SELECT workspace.name FROM workspace WHERE workspace.id = account.default_workspace_id),
account.created_at, account.updated_at, account.version
"""
SELECT = f"SELECT {COLUMNS}"
BY_NAME = f"{SELECT} FROM account WHERE name = :name"
BY_ID = f"{SELECT} FROM account WHERE id = :id"
PASSWORD = """
SELECT id, password_hash
FROM account
WHERE name = :name
  AND kind = 'person'
  AND disabled = 0
"""
ADD = """
INSERT INTO account (id, name, kind, role, full_name, email, folded, disabled, default_workspace_id,
                     created_at, updated_at, version)
VALUES (:id, :name, :kind, :role, :full_name, :email, :folded, :disabled, :default_workspace_id,
        :created_at, :updated_at, :version)
"""
REPLACE = """
UPDATE account
SET role = :role, full_name = :full_name, email = :email, folded = :folded, disabled = :disabled,
    default_workspace_id = :default_workspace_id, updated_at = :updated_at, version = version + 1
WHERE id = :id
"""
SET_PASSWORD = """
UPDATE account
SET password_hash = :password_hash, updated_at = :at, version = version + 1
WHERE id = :id
"""
DELETE = """
DELETE FROM account
WHERE id = :id
"""
OTHER_ADMINS = """
SELECT COUNT(*)
FROM account
WHERE role = 'admin'
  AND kind = 'person'
  AND disabled = 0
  AND id <> :id
"""
MEMBERSHIPS = """
SELECT workspace_id, role
FROM member
WHERE user_id = :id
"""


def build(row: Row) -> User:
    return User(row[0], row[1], UserKind(row[2]), UserRole(row[3]), row[4], row[5], bool(row[6]), *row[7:12])


def find(transaction: Transaction, name: str) -> User | None:
    row = transaction.one(BY_NAME, {"name": name})
    return build(row) if row else None


def get(transaction: Transaction, user_id: str) -> User | None:
    row = transaction.one(BY_ID, {"id": user_id})
    return build(row) if row else None


def browse(transaction: Transaction, query: UserQuery, window: Window) -> Listing[User]:
    return page(
        transaction,
        build,
        select=SELECT,
        source="FROM account",
        condition=where(
            "folded LIKE :text ESCAPE '!'" if query.text else None,
            "role = :role" if query.role else None,
            "kind = :kind" if query.kind else None,
            "disabled = :disabled" if query.disabled is not None else None,
        ),
        order="account.name",
        params={
            "text": substring(query.text),
            "role": query.role,
            "kind": query.kind,
            "disabled": None if query.disabled is None else int(query.disabled),
        },
        window=window,
    )


def password(transaction: Transaction, name: str) -> tuple[str, str | None] | None:
    """Id and password hash of an enabled person."""
    row = transaction.one(PASSWORD, {"name": name})
    return (row[0], row[1]) if row else None


def add(transaction: Transaction, user: User) -> None:
    transaction.run(ADD, _params(user))


def replace(transaction: Transaction, user: User) -> None:
    transaction.run(REPLACE, _params(user))


def set_password(transaction: Transaction, user_id: str, password_hash: str, at: int) -> None:
    transaction.run(SET_PASSWORD, {"id": user_id, "password_hash": password_hash, "at": at})


def delete(transaction: Transaction, user_id: str) -> None:
    transaction.run(DELETE, {"id": user_id})


def other_admins(transaction: Transaction, user_id: str) -> int:
    """How many enabled people besides this one are admins."""
    row = transaction.one(OTHER_ADMINS, {"id": user_id})
    return row[0] if row else 0


def memberships(transaction: Transaction, user_id: str) -> dict[int, MemberRole]:
    return {row[0]: MemberRole(row[1]) for row in transaction.all(MEMBERSHIPS, {"id": user_id})}


def _params(user: User) -> dict[str, object]:
    folded = "\n".join((user.name, user.full_name, user.email)).casefold()
    return {**structs.asdict(user), "disabled": int(user.disabled), "folded": folded}
