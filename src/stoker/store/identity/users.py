"""User accounts of people and of applications."""

from msgspec import structs

from stoker.domain.access.identity import MemberRole, User, UserKind, UserRole
from stoker.domain.queries.pages import PageRequest, PageResult, UserQuery
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import fetch_page, like_substring, where_clause

COLUMNS = """
user_account.id, user_account.name, user_account.kind, user_account.role, user_account.full_name, user_account.email,
user_account.disabled, user_account.default_workspace_id,
(SELECT workspace.name FROM workspace WHERE workspace.id = user_account.default_workspace_id),
user_account.created_at, user_account.updated_at, user_account.version
"""
SELECT = f"SELECT {COLUMNS}"
BY_NAME = f"{SELECT} FROM user_account WHERE name = :name"
BY_ID = f"{SELECT} FROM user_account WHERE id = :id"
PASSWORD_HASH_BY_NAME = """
SELECT id, password_hash
FROM user_account
WHERE name = :name
  AND kind = 'person'
  AND disabled = 0
"""
ADD = """
INSERT INTO user_account (id, name, kind, role, full_name, email, search_text, disabled, default_workspace_id,
                     created_at, updated_at, version)
VALUES (:id, :name, :kind, :role, :full_name, :email, :search_text, :disabled, :default_workspace_id,
        :created_at, :updated_at, :version)
"""
UPDATE = """
UPDATE user_account
SET role = :role, full_name = :full_name, email = :email, search_text = :search_text, disabled = :disabled,
    default_workspace_id = :default_workspace_id, updated_at = :updated_at, version = version + 1
WHERE id = :id
"""
SET_PASSWORD = """
UPDATE user_account
SET password_hash = :password_hash, updated_at = :at, version = version + 1
WHERE id = :id
"""
DELETE = """
DELETE FROM user_account
WHERE id = :id
"""
COUNT_OTHER_ADMINS = """
SELECT COUNT(*)
FROM user_account
WHERE role = 'admin'
  AND kind = 'person'
  AND disabled = 0
  AND id <> :id
"""
MEMBERSHIPS = """
SELECT workspace_id, role
FROM workspace_member
WHERE user_id = :id
"""


def user_from_row(row: Row) -> User:
    return User(row[0], row[1], UserKind(row[2]), UserRole(row[3]), row[4], row[5], bool(row[6]), *row[7:12])


def find(transaction: Transaction, name: str) -> User | None:
    row = transaction.fetch_one(BY_NAME, {"name": name})
    return user_from_row(row) if row else None


def get(transaction: Transaction, user_id: str) -> User | None:
    row = transaction.fetch_one(BY_ID, {"id": user_id})
    return user_from_row(row) if row else None


def list_users(transaction: Transaction, query: UserQuery, page: PageRequest) -> PageResult[User]:
    return fetch_page(
        transaction,
        user_from_row,
        select=SELECT,
        source="FROM user_account",
        condition=where_clause(
            "search_text LIKE :text ESCAPE '!'" if query.text else None,
            "role = :role" if query.role else None,
            "kind = :kind" if query.kind else None,
            "disabled = :disabled" if query.disabled is not None else None,
        ),
        order="user_account.name",
        params={
            "text": like_substring(query.text),
            "role": query.role,
            "kind": query.kind,
            "disabled": None if query.disabled is None else int(query.disabled),
        },
        page=page,
    )


def find_password_hash(transaction: Transaction, name: str) -> tuple[str, str | None] | None:
    """Id and password hash of an enabled person."""
    row = transaction.fetch_one(PASSWORD_HASH_BY_NAME, {"name": name})
    return (row[0], row[1]) if row else None


def add(transaction: Transaction, user: User) -> None:
    transaction.execute(ADD, _params(user))


def update(transaction: Transaction, user: User) -> None:
    transaction.execute(UPDATE, _params(user))


def set_password(transaction: Transaction, user_id: str, password_hash: str, at: int) -> None:
    transaction.execute(SET_PASSWORD, {"id": user_id, "password_hash": password_hash, "at": at})


def delete(transaction: Transaction, user_id: str) -> None:
    transaction.execute(DELETE, {"id": user_id})


def count_other_admins(transaction: Transaction, user_id: str) -> int:
    """The number of enabled admins other than this user; applications do not count."""
    row = transaction.fetch_one(COUNT_OTHER_ADMINS, {"id": user_id})
    return row[0] if row else 0


def memberships(transaction: Transaction, user_id: str) -> dict[int, MemberRole]:
    return {row[0]: MemberRole(row[1]) for row in transaction.fetch_all(MEMBERSHIPS, {"id": user_id})}


def _params(user: User) -> dict[str, object]:
    search_text = "\n".join((user.name, user.full_name, user.email)).casefold()
    return {**structs.asdict(user), "disabled": int(user.disabled), "search_text": search_text}
