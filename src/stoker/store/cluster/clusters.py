"""Clusters: every one has a uuid and a name that people type."""

from msgspec import structs

from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, substring, where

SELECT = "SELECT id, name, engine, description, created_at"
BY_REF = f"{SELECT} FROM cluster WHERE name = :ref OR id = :ref"
EVERY = f"{SELECT} FROM cluster ORDER BY name"
ADD = """
INSERT INTO cluster (id, name, engine, description, created_at)
VALUES (:id, :name, :engine, :description, :created_at)
"""


def build(row: Row) -> Cluster:
    return Cluster(*row)


def find(transaction: Transaction, ref: str) -> Cluster | None:
    """The cluster of this name or uuid."""
    row = transaction.one(BY_REF, {"ref": ref})
    return build(row) if row else None


def every(transaction: Transaction) -> list[Cluster]:
    """All of them, by name; there are never many."""
    return [build(row) for row in transaction.all(EVERY)]


def browse(transaction: Transaction, text: str, window: Window) -> Listing[Cluster]:
    return page(
        transaction,
        build,
        select=SELECT,
        source="FROM cluster",
        condition=where("name LIKE :text ESCAPE '!'" if text else None),
        order="name",
        params={"text": substring(text)},
        window=window,
    )


def add(transaction: Transaction, cluster: Cluster) -> None:
    transaction.run(ADD, structs.asdict(cluster))
