"""Departments: the level above workspaces."""

from msgspec import structs

from stoker.domain.identity import Department
from stoker.domain.listing import Listing, Window
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, substring, where

SELECT = "SELECT id, name, description, created_at, updated_at, version"
BY_NAME = f"{SELECT} FROM department WHERE name = :name"
ADD = """
INSERT INTO department (id, name, description, created_at, updated_at, version)
VALUES (:id, :name, :description, :created_at, :updated_at, :version)
"""
REPLACE = """
UPDATE department
SET description = :description, updated_at = :updated_at, version = version + 1
WHERE id = :id
"""
DELETE = """
DELETE FROM department
WHERE id = :id
"""
WORKSPACES = """
SELECT COUNT(*)
FROM workspace
WHERE department_id = :id
"""


def build(row: Row) -> Department:
    return Department(*row)


def find(transaction: Transaction, name: str) -> Department | None:
    row = transaction.one(BY_NAME, {"name": name})
    return build(row) if row else None


def browse(transaction: Transaction, text: str, window: Window) -> Listing[Department]:
    return page(
        transaction,
        build,
        select=SELECT,
        source="FROM department",
        condition=where("name LIKE :text ESCAPE '!'" if text else None),
        order="name",
        params={"text": substring(text)},
        window=window,
    )


def add(transaction: Transaction, department: Department) -> None:
    transaction.run(ADD, structs.asdict(department))


def replace(transaction: Transaction, department: Department) -> None:
    transaction.run(REPLACE, structs.asdict(department))


def delete(transaction: Transaction, department_id: int) -> None:
    transaction.run(DELETE, {"id": department_id})


def workspaces(transaction: Transaction, department_id: int) -> int:
    """How many workspaces belong to it."""
    row = transaction.one(WORKSPACES, {"id": department_id})
    return row[0] if row else 0
