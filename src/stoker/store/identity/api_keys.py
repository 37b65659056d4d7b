"""API keys of users. A secret is stored only as its SHA-256."""

from msgspec import structs

from stoker.domain.access.identity import ApiKey, Scope, User
from stoker.domain.queries.pages import ApiKeyQuery, PageRequest, PageResult
from stoker.store.db.base import Row, Transaction
from stoker.store.identity import users
from stoker.store.sql.pagination import fetch_page, like_substring, where_clause

SELECT = """
SELECT api_key.id, api_key.user_id, user_account.name, api_key.name, api_key.hint, api_key.scopes, api_key.cidrs,
       api_key.created_at, api_key.expires_at, api_key.last_used_at, api_key.last_used_from
"""
SOURCE = "FROM api_key JOIN user_account ON user_account.id = api_key.user_id"
BY_SHA256 = f"{SELECT}, {users.COLUMNS} {SOURCE} WHERE api_key.sha256 = :sha256"
BY_ID = f"{SELECT} {SOURCE} WHERE api_key.id = :id"
ADD = """
INSERT INTO api_key (id, user_id, name, hint, sha256, scopes, cidrs, created_at, expires_at,
                     last_used_at, last_used_from)
VALUES (:id, :user_id, :name, :hint, :sha256, :scopes, :cidrs, :created_at, :expires_at, NULL, '')
"""
RECORD_USE = """
UPDATE api_key
SET last_used_at = :at, last_used_from = :address
WHERE id = :id
"""
DELETE = "DELETE FROM api_key WHERE id = :id"
DELETE_BY_NAME = "DELETE FROM api_key WHERE name = :name"


def find_by_sha256(transaction: Transaction, sha256: str) -> tuple[ApiKey, User] | None:
    row = transaction.fetch_one(BY_SHA256, {"sha256": sha256})
    return (_from_row(row), users.user_from_row(row[11:])) if row else None


def find(transaction: Transaction, key_id: str) -> ApiKey | None:
    row = transaction.fetch_one(BY_ID, {"id": key_id})
    return _from_row(row) if row else None


def list_keys(transaction: Transaction, query: ApiKeyQuery, page: PageRequest) -> PageResult[ApiKey]:
    return fetch_page(
        transaction,
        _from_row,
        select=SELECT,
        source=SOURCE,
        condition=where_clause(
            "LOWER(api_key.name) LIKE :text ESCAPE '!'" if query.text else None,
            "api_key.user_id = :user_id" if query.user_id is not None else None,
        ),
        order="user_account.name, api_key.name, api_key.id",
        params={"text": like_substring(query.text), "user_id": query.user_id},
        page=page,
    )


def add(transaction: Transaction, api_key: ApiKey, sha256: str) -> None:
    fields = structs.asdict(api_key)
    scopes, cidrs = ",".join(api_key.scopes), ",".join(api_key.cidrs)
    transaction.execute(ADD, {**fields, "scopes": scopes, "cidrs": cidrs, "sha256": sha256})


def record_use(transaction: Transaction, key_id: str, at: int, address: str) -> None:
    transaction.execute(RECORD_USE, {"id": key_id, "at": at, "address": address})


def delete(transaction: Transaction, key_id: str) -> None:
    transaction.execute(DELETE, {"id": key_id})


def delete_by_name(transaction: Transaction, name: str) -> None:
    transaction.execute(DELETE_BY_NAME, {"name": name})


def _from_row(row: Row) -> ApiKey:
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
