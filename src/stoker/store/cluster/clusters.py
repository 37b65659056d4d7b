"""Clusters. Each has a uuid and a unique name.

The credential of a cluster is not part of `Cluster`: only `read_credential` returns it.
"""

from functools import lru_cache

import msgspec
from msgspec import structs

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import Capabilities
from stoker.domain.errors import not_found
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.pagination import fetch_page, like_substring, where_clause

COLUMNS = """
cluster.id, cluster.name, cluster.engine, cluster.description, cluster.created_at, cluster.updated_at,
cluster.version, cluster.config, cluster.capabilities, cluster.unreachable_since, cluster.unreachable_message,
cluster.credential <> ''
"""
COLUMN_COUNT = 12
SELECT = f"SELECT {COLUMNS}"
BY_REF = f"{SELECT} FROM cluster WHERE name = :ref OR id = :ref"
ALL_BY_NAME = f"{SELECT} FROM cluster ORDER BY name"
ADD = """
INSERT INTO cluster (id, name, engine, description, config, capabilities, credential, created_at, updated_at,
                     version, unreachable_since, unreachable_message)
VALUES (:id, :name, :engine, :description, :config, :capabilities, :credential, :created_at, :updated_at,
        :version, :unreachable_since, :unreachable_message)
"""
UPDATE = """
UPDATE cluster
SET description = :description, config = :config, capabilities = :capabilities, updated_at = :updated_at,
    version = version + 1
WHERE id = :id
"""
SET_CAPABILITIES = "UPDATE cluster SET capabilities = :capabilities WHERE id = :id"
READ_CREDENTIAL = "SELECT credential FROM cluster WHERE id = :id"
ALL_CREDENTIALS = "SELECT id, credential FROM cluster"
SET_CREDENTIAL = "UPDATE cluster SET credential = :credential, version = version + 1 WHERE id = :id"
SET_UNREACHABLE = """
UPDATE cluster
SET unreachable_since = COALESCE(unreachable_since, :since), unreachable_message = :message
WHERE id = :id
"""
SET_REACHABLE = """
UPDATE cluster
SET unreachable_since = NULL, unreachable_message = ''
WHERE id = :id
  AND unreachable_since IS NOT NULL
"""

_encode = msgspec.json.Encoder().encode


def cluster_from_row(row: Row) -> Cluster:
    """The cluster of a row that begins with `COLUMNS`."""
    return Cluster(
        id=row[0],
        name=row[1],
        engine=row[2],
        description=row[3],
        created_at=row[4],
        updated_at=row[5],
        version=row[6],
        config=row[7],
        capabilities=decode_capabilities(row[8]),
        unreachable_since=row[9],
        unreachable_message=row[10],
        has_credential=bool(row[11]),
    )


@lru_cache(maxsize=256)
def decode_capabilities(text: str) -> Capabilities:
    return msgspec.json.decode(text, type=Capabilities)


def find(transaction: Transaction, ref: str) -> Cluster | None:
    """The cluster with this name or uuid."""
    row = transaction.fetch_one(BY_REF, {"ref": ref})
    return cluster_from_row(row) if row else None


def get(transaction: Transaction, ref: str) -> Cluster:
    """The cluster of this name or uuid; raises "not found" if there is none."""
    cluster = find(transaction, ref)
    if cluster is None:
        raise not_found("cluster", ref)
    return cluster


def all_clusters(transaction: Transaction) -> list[Cluster]:
    """All clusters, by name."""
    return [cluster_from_row(row) for row in transaction.fetch_all(ALL_BY_NAME)]


def list_clusters(transaction: Transaction, text: str, page: PageRequest) -> PageResult[Cluster]:
    return fetch_page(
        transaction,
        cluster_from_row,
        select=SELECT,
        source="FROM cluster",
        condition=where_clause("name LIKE :text ESCAPE '!'" if text else None),
        order="name",
        params={"text": like_substring(text)},
        page=page,
    )


def add(transaction: Transaction, cluster: Cluster, credential: str = "") -> None:
    """Add a cluster; `credential` is encrypted, or refers to files."""
    transaction.execute(ADD, {**_params(cluster), "credential": credential})


def update(transaction: Transaction, cluster: Cluster) -> None:
    """Write description, config and capabilities."""
    transaction.execute(UPDATE, _params(cluster))


def set_capabilities(transaction: Transaction, cluster_id: str, capabilities: Capabilities) -> None:
    transaction.execute(SET_CAPABILITIES, {"id": cluster_id, "capabilities": _encode(capabilities).decode()})


def read_credential(transaction: Transaction, cluster_id: str) -> str:
    """The stored credential; empty if the cluster has none."""
    row = transaction.fetch_one(READ_CREDENTIAL, {"id": cluster_id})
    return row[0] if row else ""


def credentials_by_id(transaction: Transaction) -> dict[str, str]:
    """The stored credentials of all clusters, by cluster id."""
    return {row[0]: row[1] for row in transaction.fetch_all(ALL_CREDENTIALS)}


def set_credential(transaction: Transaction, cluster_id: str, credential: str) -> None:
    transaction.execute(SET_CREDENTIAL, {"id": cluster_id, "credential": credential})


def set_unreachable(transaction: Transaction, cluster_id: str, since: int, message: str) -> None:
    """Record that the engine cannot be reached, and why. The time of the first failure stays."""
    transaction.execute(SET_UNREACHABLE, {"id": cluster_id, "since": since, "message": message})


def set_reachable(transaction: Transaction, cluster_id: str) -> None:
    transaction.execute(SET_REACHABLE, {"id": cluster_id})


def _params(cluster: Cluster) -> dict[str, object]:
    return {**structs.asdict(cluster), "capabilities": _encode(cluster.capabilities).decode()}
