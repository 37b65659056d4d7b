"""Applications: OAuth clients that act as a user of their own. A client secret is stored only as its SHA-256."""

from msgspec import structs

from stoker.domain.access.identity import Application, UserRole
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import fetch_page, like_substring, where_clause

SELECT = """
SELECT application.client_id, application.user_id, user_account.name, user_account.role, application.description,
       user_account.disabled, application.created_at, application.last_used_at
"""
SOURCE = "FROM application JOIN user_account ON user_account.id = application.user_id"
BY_ID = f"""
{SELECT}, application.secret_sha256 {SOURCE} WHERE application.client_id = :client_id
"""
ADD = """
INSERT INTO application (client_id, user_id, secret_sha256, description, created_at)
VALUES (:client_id, :user_id, :secret_sha256, :description, :created_at)
"""
SET_SECRET = "UPDATE application SET secret_sha256 = :secret_sha256 WHERE client_id = :client_id"
RECORD_USE = "UPDATE application SET last_used_at = :at WHERE client_id = :client_id"


def find(transaction: Transaction, client_id: str) -> tuple[Application, str] | None:
    """The application and the SHA-256 of its secret."""
    row = transaction.fetch_one(BY_ID, {"client_id": client_id})
    return (_from_row(row), row[8]) if row else None


def list_applications(transaction: Transaction, text: str, page: PageRequest) -> PageResult[Application]:
    return fetch_page(
        transaction,
        _from_row,
        select=SELECT,
        source=SOURCE,
        condition=where_clause("user_account.search_text LIKE :text ESCAPE '!'" if text else None),
        order="user_account.name",
        params={"text": like_substring(text)},
        page=page,
    )


def add(transaction: Transaction, application: Application, secret_sha256: str) -> None:
    transaction.execute(ADD, {**structs.asdict(application), "secret_sha256": secret_sha256})


def set_secret(transaction: Transaction, client_id: str, secret_sha256: str) -> None:
    transaction.execute(SET_SECRET, {"client_id": client_id, "secret_sha256": secret_sha256})


def record_use(transaction: Transaction, client_id: str, at: int) -> None:
    transaction.execute(RECORD_USE, {"client_id": client_id, "at": at})


def _from_row(row: Row) -> Application:
    return Application(row[0], row[1], row[2], UserRole(row[3]), row[4], bool(row[5]), row[6], row[7])
