"""Departments. Every workspace belongs to one."""

from msgspec import structs

from stoker.domain.access.identity import Department
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import fetch_page, like_substring, where_clause

SELECT = "SELECT id, name, description, created_at, updated_at, version"
BY_NAME = f"{SELECT} FROM department WHERE name = :name"
ADD = """
INSERT INTO department (id, name, description, created_at, updated_at, version)
VALUES (:id, :name, :description, :created_at, :updated_at, :version)
"""
UPDATE = """
UPDATE department
SET description = :description, updated_at = :updated_at, version = version + 1
WHERE id = :id
"""
DELETE = """
DELETE FROM department
WHERE id = :id
"""
COUNT_WORKSPACES = """
SELECT COUNT(*)
FROM workspace
WHERE department_id = :id
"""


def department_from_row(row: Row) -> Department:
    return Department(*row)


def find(transaction: Transaction, name: str) -> Department | None:
    row = transaction.fetch_one(BY_NAME, {"name": name})
    return department_from_row(row) if row else None


def list_departments(transaction: Transaction, text: str, page: PageRequest) -> PageResult[Department]:
    return fetch_page(
        transaction,
        department_from_row,
        select=SELECT,
        source="FROM department",
        condition=where_clause("name LIKE :text ESCAPE '!'" if text else None),
        order="name",
        params={"text": like_substring(text)},
        page=page,
    )


def add(transaction: Transaction, department: Department) -> None:
    transaction.execute(ADD, structs.asdict(department))


def update(transaction: Transaction, department: Department) -> None:
    transaction.execute(UPDATE, structs.asdict(department))


def delete(transaction: Transaction, department_id: int) -> None:
    transaction.execute(DELETE, {"id": department_id})


def count_workspaces(transaction: Transaction, department_id: int) -> int:
    row = transaction.fetch_one(COUNT_WORKSPACES, {"id": department_id})
    return row[0] if row else 0
