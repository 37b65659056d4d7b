"""Workloads of the whole fleet, and the GPUs they hold or held last."""

from collections import defaultdict
from collections.abc import Mapping

from stoker.domain.inventory import Field, Operator
from stoker.domain.listing import Listing, Window
from stoker.domain.monitoring import Facets, Watched, WatchedQuery, WatchedSort
from stoker.domain.series import Holding
from stoker.domain.workload import Phase
from stoker.store import clusters
from stoker.store.base import Row, Transaction
from stoker.store.inventory_asked import asked_for, count
from stoker.store.inventory_filters import Clause, one_of, text
from stoker.store.inventory_pages import Pages
from stoker.store.keys import by_keys
from stoker.store.listing import where

COLUMNS = """
workload.uid, workload.slug, workload.kind, workload.namespace, workload.cluster_id, workload.phase,
workload.attempt, workload.replicas, workload.started_at, workload.ended_at, workload.gpu_milli,
workload.name
"""
BY_REF = f"""
SELECT {COLUMNS}
FROM workload
WHERE (workload.uid = :ref OR workload.slug = :ref)
  AND workload.deleted_at IS NULL
"""
BY_UIDS = f"SELECT {COLUMNS} FROM workload WHERE workload.uid IN (:keys)"
SORTS = {WatchedSort.STARTED: Field.STARTED, WatchedSort.ENDED: Field.ENDED}
NAMESPACES = """
SELECT namespace
FROM workload_count
{condition}
GROUP BY namespace
HAVING SUM(workloads) > 0
ORDER BY namespace
"""
KINDS = """
SELECT kind
FROM workload_count
{condition}
GROUP BY kind
HAVING SUM(workloads) > 0
ORDER BY kind
"""
DELETED_SINCE = "SELECT uid FROM workload WHERE deleted_at >= :since"  # index workload_gone_at
HELD_NOW = """
SELECT workload_uid, model, SUM(gpu_milli)
FROM allocation
WHERE workload_uid IN (:keys)
  AND to_at IS NULL
GROUP BY workload_uid, model
ORDER BY workload_uid, model
"""  # index allocation_held
# Of the pods that took each other's place, the newest counts.
HELD_LAST = """
SELECT allocation.workload_uid, allocation.model, SUM(allocation.gpu_milli)
FROM workload
JOIN allocation ON allocation.workload_uid = workload.uid
JOIN pod ON pod.uid = allocation.pod_uid
WHERE workload.uid IN (:keys)
  AND pod.attempt = workload.attempt
  AND pod.rank < workload.replicas
  AND NOT EXISTS (
      SELECT 1
      FROM pod AS newer
      WHERE newer.workload_uid = workload.uid
        AND newer.attempt = pod.attempt
        AND newer.rank = pod.rank
        AND newer.created_at > pod.created_at
  )
GROUP BY allocation.workload_uid, allocation.model
ORDER BY allocation.workload_uid, allocation.model
"""
HOLDINGS = """
SELECT node, device, from_at, to_at
FROM allocation
WHERE workload_uid = :uid
  AND from_at <= :end
  AND (to_at IS NULL OR to_at > :start)
ORDER BY node, device, from_at
"""
HOLDINGS_OF_POD = HOLDINGS.replace("workload_uid = :uid", "pod_uid = :uid")


def find(transaction: Transaction, ref: str) -> Watched | None:
    """A workload without its GPUs, by uid or slug; None when it is absent or deleted."""
    row = transaction.one(BY_REF, {"ref": ref})
    return _built(row, _engines(transaction), {}) if row else None


def deleted_since(transaction: Transaction, since: int) -> set[str]:
    return {row[0] for row in transaction.all(DELETED_SINCE, {"since": since})}


def browse(transaction: Transaction, query: WatchedQuery, cluster_id: str, window: Window) -> Listing[Watched]:
    """One page, with the GPUs of that page alone."""
    asked = asked_for(transaction, 0, _counts(query, cluster_id), _others(query))
    pages = Pages(transaction, descending=query.descending)
    uids = pages.of(asked, SORTS[query.sort], window.offset, window.limit)
    found = {row[0]: row for row in by_keys(transaction, BY_UIDS, uids)}
    rows = [found[uid] for uid in uids]
    # Only what asked for GPUs and was placed once can hold any.
    gpus = held_gpus(transaction, {row[0]: row[9] is not None for row in rows if row[10] and row[6]})
    engines = _engines(transaction)
    return Listing([_built(row, engines, gpus.get(row[0], {})) for row in rows], count(transaction, asked))


def held_gpus(transaction: Transaction, ended: Mapping[str, bool]) -> dict[str, dict[str, int]]:
    """Milli-GPUs by workload and model: what these hold now, and of those that have ended what they held last."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for sql, over in ((HELD_NOW, False), (HELD_LAST, True)):
        for uid, model, held in by_keys(transaction, sql, [uid for uid, each in ended.items() if each is over]):
            found[uid][model] = int(held)
    return found


def facets(transaction: Transaction, cluster_id: str) -> Facets:
    condition = where("hidden = 0", "cluster_id = :cluster_id" if cluster_id else None)
    params = {"cluster_id": cluster_id}
    return Facets(
        [row[0] for row in transaction.all(NAMESPACES.format(condition=condition), params)],
        [row[0] for row in transaction.all(KINDS.format(condition=condition), params)],
    )


def holdings(transaction: Transaction, uid: str, start: int, end: int) -> list[Holding]:
    """The GPUs that a workload held at any time of a range."""
    return [Holding(*row) for row in transaction.all(HOLDINGS, {"uid": uid, "start": start, "end": end})]


def holdings_of_pod(transaction: Transaction, uid: str, start: int, end: int) -> list[Holding]:
    return [Holding(*row) for row in transaction.all(HOLDINGS_OF_POD, {"uid": uid, "start": start, "end": end})]


def _counts(query: WatchedQuery, cluster_id: str) -> list[Clause]:
    """What is asked of what workloads are counted by."""
    wanted = {"cluster_id": cluster_id, "namespace": query.namespace, "kind": query.kind}
    clauses = [one_of(column, (value,), column) for column, value in wanted.items() if value]
    return [*clauses, one_of("phase", query.phases, "phase")] if query.phases else clauses


def _others(query: WatchedQuery) -> list[Clause]:
    return [text("name", Operator.CONTAINS, query.text, "text")] if query.text else []


def _engines(transaction: Transaction) -> dict[str, str]:
    return {cluster.id: cluster.engine for cluster in clusters.every(transaction)}


def _built(row: Row, engines: dict[str, str], gpus: dict[str, int]) -> Watched:
    return Watched(
        uid=row[0],
        slug=row[1],
        name=row[11],
        kind=row[2],
        namespace=row[3],
        cluster_id=row[4],
        engine=engines.get(row[4], ""),
        phase=Phase(row[5]),
        attempt=row[6],
        replicas=row[7],
        started_at=row[8],
        ended_at=row[9],
        gpus=gpus,
    )
